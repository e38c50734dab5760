#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""messages.py PAGE FILE...: each message of the FILEs is a heading of PAGE

PAGE has a heading, underlined with '-', for each string that a FILE prints or
puts into what it prints: any string of more than one word is taken for one, but
for those of the calls in QUIET. Each heading is such a string, and has the fields
Meaning, Cause and Cure.
"""
import re
import sys

STRING = r'"(?:\\.|[^"\\])*"'
QUIET = re.compile(r'\b(?:seq_\w+|MODULE_\w+|TP_printk|sysfs_emit\w*|snprintf)$')
CONVERSION = re.compile(r'%(?:%|[-+ #0-9.]*(?:hh?|ll?|z|t)?[a-oq-zA-Z]|p[a-zA-Z]*)')
TOKEN = re.compile(rf"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'])'|{STRING}|[()]|\w+|[^\s\w]|\s+",
                   re.S)


def strings(text):
    """The strings of C code outside of the quiet calls, neighbours joined."""
    calls, word, joined = [], '', None
    for token in TOKEN.findall(text):
        if token.isspace() or token.startswith(('/*', '//')):
            continue
        if token.startswith('"'):
            if not any(calls):
                joined = (joined or '') + token[1:-1]
            continue
        if joined is not None:
            yield joined
            joined = None
        if token == '(':
            calls.append(bool(QUIET.search(word)))
        elif token == ')' and calls:
            calls.pop()
        word = token


def pattern(message):
    """A regular expression for what it reads when it is printed."""
    parts = CONVERSION.split(message.replace('\\n', ''))
    return '.+'.join(re.escape(part) for part in parts)


def main():
    with open(sys.argv[1], encoding='utf-8') as page:
        parts = re.split(r'^(.+)\n-+$', page.read(), flags=re.M)
    headings = dict(zip(parts[1::2], parts[2::2]))
    faults, used = [], set()
    for path in sys.argv[2:]:
        with open(path, encoding='utf-8') as source:
            found = [text for text in strings(source.read()) if ' ' in text.strip()]
        for message in found:
            # what is put into another message may be a part of a heading
            fits = [heading for heading in headings
                    if re.search(pattern(message), heading)]
            if not fits:
                faults.append(f'{path}: not in {sys.argv[1]}: {message}')
            used.update(fits)
    for heading, body in headings.items():
        if heading not in used:
            faults.append(f'{sys.argv[1]}: nobody prints: {heading}')
        faults += [f'{sys.argv[1]}: {heading}: no {field}'
                   for field in ('Meaning', 'Cause', 'Cure') if f':{field}: ' not in body]
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(bool(faults))


main()
