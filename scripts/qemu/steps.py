#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""steps.py SOCKET VERDICT SECONDS: step a guest through one operation.

The guest runs ucb_bench.ko, its debugger port is the Unix socket SOCKET, and
its second serial port goes to the file VERDICT. When the line "trace MARK
BUFFER" stands there, a breakpoint is set on MARK, and every instruction from
its first call to its second is noted in BUFFER, as bench/trace.c has it.
"""
import socket
import struct
import sys
import time

LIMIT = 16384
RIP = 16 * 8  # its place in the answer to "g": after 16 registers


class Guest:
    """A gdb remote protocol client that knows just enough."""

    def __init__(self, path, seconds):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(seconds)
        self.sock.connect(path)
        self.data = b""

    def send(self, text):
        body = text.encode()
        self.sock.sendall(b"$%s#%02x" % (body, sum(body) & 255))

    def reply(self):
        """The next packet, acknowledged."""
        while True:
            start = self.data.find(b"$")
            end = self.data.find(b"#", start)
            if start >= 0 and end >= 0 and len(self.data) >= end + 3:
                break
            more = self.sock.recv(65536)
            if not more:
                raise EOFError("the guest has gone")
            self.data += more
        body = self.data[start + 1:end]
        self.data = self.data[end + 3:]
        self.sock.sendall(b"+")
        return body.decode()

    def ask(self, text):
        self.send(text)
        return self.reply()

    def must(self, text):
        answer = self.ask(text)
        while answer.startswith("T"):  # that it stopped when we connected
            answer = self.reply()
        if answer != "OK":
            raise ValueError(f"{text[:20]}: {answer or 'not supported'}")

    def rip(self):
        registers = bytes.fromhex(self.ask("g"))
        return struct.unpack_from("<Q", registers, RIP)[0]

    def write(self, address, numbers):
        for i in range(0, len(numbers), 64):
            part = struct.pack(f"<{len(numbers[i:i + 64])}Q", *numbers[i:i + 64])
            self.must(f"M{address + 8 * i:x},{len(part):x}:{part.hex()}")


def find_addresses(verdict, seconds):
    """Wait for the guest's line; it comes within seconds or not at all."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with open(verdict, encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if words[:1] == ["trace"] and len(words) == 3 and "\n" in line:
                    return int(words[1], 16), int(words[2], 16)
                if words[:1] == ["fail"]:
                    sys.exit("steps: the guest failed")
        time.sleep(0.1)
    sys.exit("steps: the guest gave no addresses")


def step(guest, mark, buffer):
    """Note what is executed between the two calls of mark."""
    guest.must(f"Z0,{mark:x},1")
    guest.write(buffer, [1])
    guest.ask("c")
    guest.must(f"z0,{mark:x},1")
    steps = [guest.rip()]
    if steps[0] != mark:
        raise ValueError(f"stopped at {steps[0]:x}, not at {mark:x}")
    while len(steps) < LIMIT:
        guest.ask("s")
        rip = guest.rip()
        if rip == mark:
            break
        steps.append(rip)
    guest.write(buffer + 8, [len(steps)] + steps)
    guest.must("D")


def main():
    path, verdict, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    mark, buffer = find_addresses(verdict, seconds)
    guest = Guest(path, seconds)
    try:
        step(guest, mark, buffer)
    except (OSError, EOFError, ValueError, struct.error) as error:
        guest.send("k")  # or it would stay stopped
        sys.exit(f"steps: {error}")


main()
