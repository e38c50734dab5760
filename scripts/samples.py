#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""samples.py OUT PAGE...: put the C code of the PAGEs into OUT/N.c

Code is in ```c fences or in blocks of ".. code-block:: c". A ```diff fence, or
".. code-block:: diff", gives two files: what it was, and what it becomes. C code
anywhere else, where nothing would compile it, is an error. Prints the names.
"""
import pathlib
import re
import sys
import textwrap

FENCE = re.compile(r'^```(\w*)\n(.*?)^```$', re.M | re.S)
BLOCK = re.compile(r'^\.\. code-block:: (\w+)\n\n((?:(?:[ \t]+.*)?\n)+)', re.M)
STRAY = re.compile(r'^[ \t]+[-+]?[ \t]*(?:#include\b.*|.*(?:\w\(.*\)| = .+|->.+);)$', re.M)


def main():
    out, number, status = pathlib.Path(sys.argv[1]), 0, 0
    for name in sys.argv[2:]:
        page = pathlib.Path(name).read_text()
        block = FENCE if name.endswith('.md') else BLOCK
        for language, code in block.findall(page):
            if block is BLOCK:
                code = textwrap.dedent(code)
            sides = {'c': [code], 'diff': [re.sub(rf'^[{drop}].*\n', '', code, flags=re.M)
                                           for drop in '+-']}.get(language, [])
            for side in sides:
                if language == 'diff':
                    side = re.sub(r'^[ +-]', '', side, flags=re.M)
                number += 1
                (out / f'{number}.c').write_text(f'// {name}\n{side}')
                print(number)
        rest = block.sub('', page)
        for stray in STRAY.findall(rest):
            print(f'{name}: not compiled: {stray.strip()}', file=sys.stderr)
            status = 1
    sys.exit(status)


main()
