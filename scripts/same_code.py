#!/usr/bin/env python3
"""Shows that a change of comments changes no code.

    same_code.py OLD [NEW]

Compares the C++ files of two commits, or of a commit and the working tree (no NEW), token by
token. Comments and layout are left out. Prints each file whose code differs, with the first token
that does; exit code 1 if there is any. A file that only one side has is a difference, too.

Compared are also literals (raw ones with their line breaks), the ends of directives,
the space between a macro's name and its "(", and the name in "#include <...>". Not compared are
line numbers (__LINE__), and the spaces in text that a macro makes of its arguments (#x).
"""

import pathlib
import re
import subprocess
import sys

SUFFIXES = (".h", ".cc", ".hpp", ".cpp", ".cu", ".cuh", ".c")
SPLICE = re.compile(r"\\[ \t]*\n")
COMMENT = r"//(?:\\[ \t]*\n|[^\n])*|/\*.*?\*/"
RAW = r'(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
NUMBER = r"\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[0-9A-Za-z_.])*"
TEXT = r"""(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'"""
# Raw literals, and what could hide or imitate the start of one.
AROUND_RAW = re.compile(f"{COMMENT}|(?P<raw>{RAW})|{NUMBER}|{TEXT}|\\w+", re.DOTALL)
HOLE = "\ue000"  # stands for a raw literal while lines are joined
TOKEN = re.compile(
    f"(?P<skip>{COMMENT}|[ \\t\\r\\f\\v]+)|(?P<newline>\\n)|(?P<hole>{HOLE})"
    f"|(?P<number>{NUMBER})|(?P<text>{TEXT})|(?P<name>[^\\W\\d]\\w*)"
    r"|(?P<sign><=>|<<=|>>=|\.\.\.|->\*|\#\#|::|\.\*|->|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|.)",
    re.DOTALL)
HEADER = re.compile(r"<[^>\n]*>")


def tokens_of(text):
    """Returns pairs of line and token. Lines are counted after joining those that end in "\\"."""
    raws = []

    def take_raw(found):
        if found.group("raw") is None:
            return found.group()
        raws.append(found.group())
        return HOLE

    text = SPLICE.sub("", AROUND_RAW.sub(take_raw, text.replace("\r\n", "\n")))
    tokens, line, at, holes = [], 1, 0, iter(raws)
    directive = None  # the tokens of the directive that this line is
    fresh, spaced = True, True  # no token in this line yet; no token right before this place
    while at < len(text):
        found = TOKEN.match(text, at)
        if directive in (["#", "include"], ["#", "include_next"]):
            found = HEADER.match(text, at) or found
        kind, token = found.lastgroup, found.group()
        at = found.end()
        first_line = line
        line += token.count("\n")
        if kind == "skip":
            spaced = True
            continue
        if kind == "newline":
            if directive is not None:
                tokens.append((first_line, "<end of directive>"))
            directive, fresh, spaced = None, True, True
            continue
        if kind == "hole":
            token = next(holes)
            line += token.count("\n")
        if fresh and token == "#":
            directive = []
        if directive is not None:
            directive.append(token)
            # "#define A(x)" has an argument; "#define A (x)" has none.
            if directive[:2] == ["#", "define"] and len(directive) == 4 and spaced:
                tokens.append((first_line, "<space>"))
        tokens.append((first_line, token))
        fresh, spaced = False, False
    return tokens


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True).stdout.decode()


def text_at(commit, name):
    """Returns a file's text; None if there is no such file. commit None: the working tree."""
    if commit is None:
        path = pathlib.Path(git("rev-parse", "--show-toplevel").strip()) / name
        return path.read_text() if path.is_file() else None
    shown = subprocess.run(["git", "show", f"{commit}:{name}"], capture_output=True)
    return shown.stdout.decode() if shown.returncode == 0 else None


def difference(old, new):
    """Returns what differs first, or "" if the code is equal."""
    if old is None or new is None:
        return "only the old tree has it" if new is None else "only the new tree has it"
    old, new = tokens_of(old), tokens_of(new)
    for (old_line, was), (new_line, is_now) in zip(old, new):
        if was != is_now:
            return f"line {old_line}: {was!r}, now line {new_line}: {is_now!r}"
    if len(old) != len(new):
        line, token = max(old, new, key=len)[min(len(old), len(new))]
        side = "old" if len(old) > len(new) else "new"
        return f"the {side} file goes on at line {line}: {token!r}"
    return ""


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    old, new = sys.argv[1], (sys.argv[2] if len(sys.argv) == 3 else None)
    names = git("diff", "--name-only", "--no-renames", "-z", old, *([new] if new else []))
    names = set(names.split("\0")) - {""}
    if new is None:
        names |= set(git("ls-files", "--others", "--exclude-standard", "-z").split("\0")) - {""}
    sources = sorted(name for name in names if name.endswith(SUFFIXES))
    differ = 0
    for name in sources:
        found = difference(text_at(old, name), text_at(new, name))
        if found:
            differ += 1
            print(f"{name}: {found}")
    others = sorted(names - set(sources))
    print(f"{len(sources)} C++ files changed, {differ} of them in code"
          + (f"; not compared: {' '.join(others)}" if others else ""))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
