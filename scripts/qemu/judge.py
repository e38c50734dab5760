#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judge one guest of "make check".

judge.py NAME LOG STATUS KTAP COUNTS PARSER_DIR

Reads the guest's console log and its verdict (LOG.verdict, see check-init),
writes all results as one KTAP file, has the kernel's own parser read that,
prints a line for each test and writes "passed failed skipped" to COUNTS. The
exit status is 0 only if at least one test of a suite passed or was skipped and
nothing failed. STATUS is that of scripts/qemu/run.
"""
import contextlib
import inspect
import io
import re
import sys

# What in a kernel log means that something went wrong.
REPORT = re.compile(
    r"\bWARNING: |\bBUG: |kernel BUG at|KASAN: |UBSAN: |\bOops\b|ODEBUG: "
    r"|DMA-API: (?!preallocated|debugging (en|dis)abled|dma_debug_entry pool)"
    r"|kmemleak: \d+ new suspected|general protection fault|Kernel panic"
    r"|INFO: (task|trying|possible|rcu|NMI|inconsistent)|rcu: INFO"
    r"|possible (circular|recursive|irq)|inconsistent lock state"
    r"|suspicious RCU|refcount_t: |list_(add|del) corruption"
    r"|sysfs: cannot create duplicate|page_table_check"
    r"|unregister_netdevice: waiting|BUG \w+.*: "
    r"|rxe_\w+: .*(leak|not empty|timeout)"
    r"|DMAR: .*\bfault\b")


def read_lines(path):
    with open(path, errors="replace") as file:
        return [line.rstrip("\r\n") for line in file]


def log_reports(lines):
    """The first lines of each report in a kernel log."""
    found = []
    after = 0
    for line in lines:
        if REPORT.search(line):
            after = 24
        if after > 0 and len(found) < 120:
            found.append(line)
        after -= 1
    return found


def read_verdict(lines):
    """The guest's steps as (ok, name, why), and the lines of each suite."""
    steps, suites, suite = [], [], None
    for line in lines:
        if line.startswith("@suite "):
            suite = (line.split()[1], [])
            suites.append(suite)
        elif line == "@end":
            suite = None
        elif line.startswith("@step "):
            words = line.split(None, 3)
            steps.append((words[1] == "ok", words[2], "".join(words[3:])))
        elif suite is not None:
            suite[1].append(line)
    return steps, suites


def make_ktap(steps, suites):
    out = ["KTAP version 1", "1..%d" % (len(suites) + 1)]
    for number, (name, lines) in enumerate(suites, 1):
        # Each comes as a whole KTAP document with one test: take the test.
        body = [line for line in lines if line.startswith(" ")]
        last = [line for line in lines if re.match(r"(not )?ok 1 ", line)]
        out += body
        if last:
            out.append(re.sub(r"ok 1 ", "ok %d " % number, last[-1]))
        else:
            out.append("not ok %d %s" % (number, name))
    out += ["    KTAP version 1", "    # Subtest: guest",
            "    1..%d" % len(steps)]
    for number, (ok, name, why) in enumerate(steps, 1):
        if why:
            out.append("    # %s: %s" % (name, why))
        out.append("    %s %d %s" % ("ok" if ok else "not ok", number, name))
    out.append("%s %d guest" % ("ok" if all(step[0] for step in steps) else
                                "not ok", len(suites) + 1))
    return out


def print_results(guest, test, path, status):
    if test.subtests:
        for subtest in test.subtests:
            print_results(guest, subtest, path + [subtest.name], status)
        return
    what = {status.SUCCESS: "ok", status.SKIPPED: "skip"}.get(test.status,
                                                             "not ok")
    print("%s %s %s" % (what, guest, ".".join(path)))
    if what == "not ok":
        for line in test.log:
            print("    " + line)


def main():
    guest, log, run_status, ktap, counts_path, parser_dir = sys.argv[1:]
    sys.path.insert(0, parser_dir)
    sys.dont_write_bytecode = True
    # It prints to what stdout is when it is imported; newer ones are told.
    with contextlib.redirect_stdout(io.StringIO()):
        import kunit_parser
        import kunit_printer
    parse = kunit_parser.parse_run_tests
    printers = [kunit_printer.stdout][:len(inspect.signature(parse).parameters) - 1]

    lines = read_lines(log)
    steps, suites = read_verdict(read_lines(log + ".verdict"))
    reports = log_reports(lines)
    steps.append((not reports, "clean_log",
                  "" if not reports else "the kernel reported, see below"))
    steps.append((run_status == "0" and bool(lines), "reached_end",
                  "" if run_status == "0" and lines else
                  "the guest gave no token or no log"))

    out = make_ktap(steps, suites)
    with open(ktap, "w") as file:
        file.write("\n".join(out) + "\n")
    test = parse(out, *printers)
    counts = test.counts
    failed = counts.failed + counts.crashed
    # An error of form (no test in a suite, a plan not met) fails too.
    failed += counts.errors
    print_results(guest, test, [], kunit_parser.TestStatus)
    if not any(re.match(r"\s+(not )?ok ", line)
               for _, body in suites for line in body):
        print("not ok %s no test of any suite was run" % guest)
        failed += 1
    for line in reports:
        print("    | " + line)
    with open(counts_path, "w") as file:
        file.write("%d %d %d\n" % (counts.passed, failed, counts.skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
