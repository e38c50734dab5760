#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""man9.py OUT INCLUDE VERSION DATE < RST: manual pages of section 9

RST is what "kernel-doc -rst -export" prints of the files that export symbols;
OUT gets a page NAME.9 for each function there. INCLUDE is the folder of the
headers, in which each function must be declared. A page is made of kernel-doc
alone, so what is missing there is an error here: Context:, Return: where
something is returned, and a meaning for each errno in it.
"""
import pathlib
import re
import sys
import textwrap

ERRNO = re.compile(r'(?:ERR_PTR\()?-(E[A-Z0-9]+)\)?')
ASIDE = re.compile(r'(?<!ERR_PTR)\([^()]*\)')
LIKE = re.compile(r'\b(?:[Aa]s|those of)(?: for)? (\w+)\(\)(?: gives)?')
SECTIONS = ('NAME', 'SYNOPSIS', 'ARGUMENTS', 'DESCRIPTION', 'CONTEXT',
            'RETURN VALUE', 'ERRORS', 'SEE ALSO')


class Fault(Exception):
    """The kernel-doc of a function says too little."""


class Function:
    """What kernel-doc has on one function."""

    def __init__(self, head, body):
        match = re.fullmatch(r'(.*?)(\w+) \((.*)\)', head)
        self.type = match[1].strip()
        self.name = match[2]
        self.prototype = [arg.strip() for arg in match[3].split(',')]
        parts = re.split(r'^ *\*\*(\w+)\*\*$', body, flags=re.M)
        self.purpose = parts[0].replace('.. container:: kernelindent', '').strip()
        self.sections = dict(zip(parts[1::2], parts[2::2]))
        self.text = body

    def arguments(self):
        found = re.findall(r'^( *)``(.*)``\n((?:\1  .*\n)+)',
                           self.sections.get('Parameters', ''), flags=re.M)
        return [(re.search(r'(\w+)$', what)[1], plain(text)) for _, what, text in found]

    def paragraphs(self, section):
        parts = re.split(r'\n\s*\n', self.sections.get(section, ''))
        return [plain(part) for part in parts if part.strip()]


def plain(text):
    return ' '.join(text.split())


def sentence(text):
    """The words of a clause as a sentence of their own."""
    text = text.strip(' ,;:')
    if text and re.match(r'[a-z]+\b(?![(_])', text):
        text = text[0].upper() + text[1:]
    return text + '.' if text and text[-1] not in '.?!' else text


class Return:
    """A Return: text, taken apart.

    value  what comes back when nothing is wrong
    rest   sentences behind the errors
    errors errno -> meaning, in their order
    other  what else may come, of another call
    like   functions whose errors can come, too
    """

    def __init__(self, function):
        text = ' '.join(function.paragraphs('Return'))
        if not text and function.type != 'void':
            raise Fault('no Return:')
        self.errors = {}
        self.other = ''
        self.like = LIKE.findall(text)
        if not ERRNO.search(text) and not self.like:
            self.value, self.rest = sentence(text), ''
            return

        # an errno in brackets is part of what is said of another
        text = ASIDE.sub(lambda aside: aside[0].replace('-E', '\0E'), text)
        match = re.match(r'(.*?[^A-Z])\. (?=[A-Z])(.*)', text)
        text, self.rest = (match[1], match[2]) if match else (text.rstrip('.'), '')
        match = re.search(r'[,;]? or (what .*)', text)
        if match and not ERRNO.search(match[1]):
            self.other = sentence(match[1])
            text = text[:match.start()]
        parts = ERRNO.split(text)
        # "0, or as f()", "the pool, or an ERR_PTR of"
        self.value = re.sub(r'[,;]? or (an )?((ERR_PTR )?as \w+\(\)( gives)?|ERR_PTR( of)?)$',
                            '', parts[0].strip(' ,;:'))
        self.value = re.sub(r'[,;]? or$', '', self.value)
        for name, meaning in zip(parts[1::2], parts[2::2]):
            meaning = re.sub(r'(^|[,;]? )(and|or)$', '', meaning.strip(' ,;'))
            # "-E1 if so; or what the device gave, as -E2 if it is so"
            match = re.search(r'[,;]? or (what .*?)(, as)?$', meaning)
            if match:
                self.other = sentence(match[1])
                meaning = meaning[:match.start()]
            # "-EIO and those of f()": the latter is no meaning of the former
            self.errors[name] = re.sub(
                r'(^|,? and )those of \w+\(\)$|[,;] (or|and) as \w+\(\)$', '', meaning)
        named = list(self.errors)
        for name, after in zip(reversed(named[:-1]), reversed(named[1:])):
            # "-E1, -E2 or -E3 as for f()"
            if not self.errors[name] and LIKE.match(self.errors[after]):
                self.errors[name] = self.errors[after]


def resolve(name, returns, seen=()):
    """The value and errors of a call, with those of the calls it names."""
    ret = returns[name]
    value = sentence(ret.value)
    errors, other = dict(ret.errors), ret.other
    for like in ret.like:
        if like not in returns or like in seen:
            continue
        like_value, like_errors, like_other = resolve(like, returns, (*seen, name))
        if LIKE.match(ret.value):
            value = like_value
        # of a call that is named for some errnos no others are meant
        some = any(LIKE.match(meaning) for meaning in errors.values())
        for errno, meaning in like_errors.items():
            if not some:
                errors.setdefault(errno, meaning)
            if errno in errors and (not errors[errno] or LIKE.match(errors[errno])):
                errors[errno] = meaning
        other = other or like_other
    for errno, meaning in errors.items():
        if not meaning and errno == 'ENOMEM':
            errors[errno] = 'out of memory'
        elif not meaning or re.search(r'\b(and|as|for|of|or|when)$', meaning):
            raise Fault(f'-{errno} without a meaning: {meaning}')
    for meaning in (value, *errors.values(), other):
        if meaning.count('(') != meaning.count(')'):
            raise Fault(f'cut in the middle of brackets: {meaning}')
    return value, errors, other


def roff(text, names=()):
    """Words for the page: escaped, with the markup of kernel-doc set."""
    text = text.replace('\0', '-').replace('\\', '\\e')
    text = re.sub(r':c:\w+:`([^<`]*?)(?: <\w+>)?`', r'``\1``', text)
    text = re.sub(r'``(.*?)``|\*\*(.*?)\*\*',
                  lambda m: rf'\fB{m[1]}\fP' if m[1] else rf'\fI{m[2]}\fP', text)
    text = re.sub(r'(?<![\w\\])(\w+)\((\d?)\)', lambda m: rf'\fB{m[1]}\fP' + (
        f'({m[2]})' if m[2] else '(9)' if m[1] in names else '()'), text)
    text = re.sub(r'(?<![\w])-(?=E[A-Z]|\d)', r'\\-', text).replace('~', r'\(ti')
    text = textwrap.fill(text, 78, break_long_words=False, break_on_hyphens=False)
    return re.sub(r"^([.'])", r'\\&\1', text, flags=re.M)


def synopsis(function, header):
    yield '.nf'
    yield f'.B #include <{header}>'
    yield '.PP'
    start = re.sub(r'\* ?$', '*', function.type + ' ') + function.name + '('
    line, width, indent = f'"{start}', len(start), ' ' * len(start)
    for i, arg in enumerate(function.prototype):
        match = re.fullmatch(r'(.*?)(\w+)', arg)
        end = ');' if i + 1 == len(function.prototype) else ','
        if i and width + len(arg) + len(end) + 1 > 72:
            yield '.BI ' + line.rstrip() + '"'
            line, width = f'"{indent}', len(indent)
        elif i:
            line, width = line + ' ', width + 1
        line += f'{match[1]}" {match[2]} "{end}'
        width += len(arg) + len(end)
    yield '.BI ' + line + '"'
    yield '.fi'


def see_also(name, functions, mentions):
    """Those it names, that name it, and that make what it takes."""
    types = {re.sub(r'^const |\w+$', '', arg) for arg in functions[name].prototype
             if re.match(r'(const )?struct \w+ \*\w', arg)}
    own = mentions[name] | {
        other for other, function in functions.items()
        if name in mentions[other] or function.type in types}
    manuals = set(re.findall(r'\b(\w+\(\d\))', functions[name].text))
    return [f'{other}(9)' for other in sorted(own - {name})] + sorted(manuals)


def page(name, functions, returns, mentions, header, version, date):
    function = functions[name]

    def words(text):
        return roff(text, functions)

    def paragraphs(texts):
        for i, text in enumerate(texts):
            if i:
                yield '.PP'
            yield words(text)

    def items(pairs):
        for tag, text in pairs:
            yield '.TP'
            yield tag
            yield words(sentence(text))

    value, errors, other = resolve(name, returns)
    if function.type == 'void':
        value = 'None.'
    elif (errors or other) and function.type.endswith('*'):
        value += ' On failure, the ERR_PTR() of an error below.'
    elif errors or other:
        value = value.rstrip('.') + ' on success; a negative error number on failure.'
    faults = [(rf'.B \-{errno}', text) for errno, text in errors.items()]
    if other:
        faults.append(('others', other))
    also = see_also(name, functions, mentions)
    body = {
        'NAME': [rf'{name} \- {roff(function.purpose)}'],
        'SYNOPSIS': synopsis(function, header),
        'ARGUMENTS': items((f'.I {arg}', text) for arg, text in function.arguments()),
        'DESCRIPTION': paragraphs(function.paragraphs('Description') or
                                  [sentence(function.purpose)]),
        'CONTEXT': paragraphs(function.paragraphs('Context')),
        'RETURN VALUE': [words(value)] + [words(returns[name].rest)] *
                        bool(returns[name].rest),
        'ERRORS': items(faults) if faults else ['None.'],
        'SEE ALSO': [',\n'.join(re.sub(r'(\w+)(\(\d\))', r'.BR \1 \2', ref)
                                for ref in also).replace(',\n', ' ,\n')],
    }
    yield '.\\" Made from the kernel-doc of ucb: change it there.'
    yield f'.TH {name.upper()} 9 "{date}" "ucb {version}" "Kernel API"'
    yield '.nh'
    yield '.ad l'
    for section in SECTIONS:
        lines = list(body[section])
        if not any(lines):
            raise Fault(f'nothing for {section}')
        yield f'.SH {section}'
        yield from lines


def main():
    out, include, version, date = sys.argv[1:]
    parts = re.split(r'^\.\. c:function:: (.*)$', sys.stdin.read(), flags=re.M)
    functions, returns, mentions, status = {}, {}, {}, 0
    for head, body in zip(parts[1::2], parts[2::2]):
        function = Function(head, body)
        functions[function.name] = function
    headers = {path.relative_to(include): path.read_text()
               for path in sorted(pathlib.Path(include).rglob('*.h'))}
    for name, function in functions.items():
        mentions[name] = set(re.findall(r'\b(\w+)\(', function.text)) & set(functions)
    for step in 'parse', 'write':
        for name, function in functions.items():
            try:
                if step == 'parse':
                    returns[name] = Return(function)
                    continue
                if name not in returns:
                    continue
                found = [path for path, text in headers.items()
                         if re.search(rf'\b{name}\(', text)]
                if not found:
                    raise Fault(f'not declared under {include}')
                text = '\n'.join(page(name, functions, returns, mentions, found[0],
                                      version, date)) + '\n'
                pathlib.Path(out, f'{name}.9').write_text(text)
            except Fault as fault:
                print(f'{name}: {fault}', file=sys.stderr)
                status = 1
    sys.exit(status)


main()
