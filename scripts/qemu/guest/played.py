#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""played.py WAV TUNE: does what the emulated sound card wrote hold the tune?"""
import sys


def main():
    with open(sys.argv[1], "rb") as file:
        wav = file.read()
    with open(sys.argv[2], "rb") as file:
        tune = file.read()
    if tune and tune in wav:
        return 0
    whole = sum(tune[at:at + 192] in wav for at in range(0, len(tune), 192))
    print("played %d of %d packets, %d bytes in all" %
          (whole, len(tune) // 192, len(wav)))
    return 1


if __name__ == "__main__":
    sys.exit(main())
