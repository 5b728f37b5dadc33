#!/usr/bin/env python3
"""Checks the rules of the source tree and its comments that no compiler knows ("tidy" in ctest).

    check_tree.py [ROOT]

Arrows between folders (docs/architecture.md), where LibTorch may be included, where folders may be
removed, comparisons of errors' pages, member functions outside the files of their class, lengths,
the size of the core (docs/core.md), files that no CMakeLists.txt names, and notes left behind.
Prints file:line: rule: what is wrong; exit code 1 if there was any.
"""

import pathlib
import re
import sys

# What the sources of a folder may include besides their own folder. The nearest row above a file
# is its row; a folder without any is an error, so that a new one is placed on purpose.
STORE = ["rendezvous/store", "rendezvous/net", "base"]
RENDEZVOUS = ["rendezvous/elastic", "rendezvous", *STORE]
LAUNCHER_PARTS = [
    "launcher/process", "launcher/output", "launcher/cli", "launcher/report", "launcher/store",
    "launcher/hang", "launcher/nccl",
    *RENDEZVOUS
]
TASK = ["trainer/config", "rendezvous/store", "base"]
MAY_INCLUDE = {
    "include/ddprun": [],
    "base": [],
    "rendezvous/net": ["base"],
    "rendezvous/store": ["rendezvous/net", "base"],
    "rendezvous": STORE,
    "rendezvous/elastic": ["rendezvous", *STORE],
    "rendezvous/static": ["rendezvous", *STORE],
    "launcher/process": ["base"],
    "launcher/output": ["base"],
    "launcher/cli": RENDEZVOUS,
    "launcher/cluster": ["launcher/cli", *RENDEZVOUS],
    "launcher/report": ["launcher/process", *RENDEZVOUS],
    "launcher/store": ["launcher/output", "launcher/process", *RENDEZVOUS],
    "launcher/hang": ["launcher/process", "launcher/store", *RENDEZVOUS],
    "launcher/nccl": ["launcher/hang", "base"],
    "launcher/agent": LAUNCHER_PARTS,
    "launcher/sweep": ["launcher/cli", "base"],
    "launcher/doctor": ["launcher/cli", "launcher/cluster", "launcher/process", *RENDEZVOUS],
    "launcher/batch": ["launcher/cli", "launcher/process", *RENDEZVOUS],
    "launcher/submit": ["launcher/batch", "launcher/cli", "launcher/process", *RENDEZVOUS],
    "launcher/requests": ["launcher/submit", "launcher/process", "base"],
    "launcher/top": [
        "launcher/cli", "launcher/hang", "launcher/process", "launcher/store", *RENDEZVOUS
    ],
    "launcher/hosts": [
        "launcher/cli", "launcher/cluster", "launcher/output", "launcher/process", *RENDEZVOUS
    ],
    "launcher": [
        "launcher/doctor", "launcher/hosts", "launcher/sweep", "launcher/agent", "launcher/batch",
        "launcher/cluster", "launcher/submit", "launcher/requests", "launcher/top", *LAUNCHER_PARTS
    ],
    "trainer/config": ["base"],
    "trainer/report": ["trainer/config", "base"],  # keeps the resolved config
    "trainer/comm": ["trainer/comm/net", "rendezvous/net", *TASK],
    "trainer/comm/net": ["rendezvous/net", "base"],
    "trainer/text": ["base"],
    "trainer/data": ["trainer/compute", "trainer/text", *TASK],
    "trainer/compute": ["trainer/config", "base"],
    "trainer/cuda": ["trainer/compute", "base"],
    "trainer/state": ["base"],
    "trainer/plugin": ["trainer/data", "base"],
    # A model takes a batch.
    "trainer/models": [
        "trainer/checkpoint", "trainer/compute", "trainer/data", "trainer/plugin",
        "trainer/state", *TASK
    ],
    "trainer/optim": ["trainer/compute", "trainer/state", *TASK],
    "trainer/checkpoint": ["trainer/state", "base"],
    # The library for modules of one's own: it knows no model, no job and no report.
    "trainer/parallel": [
        "trainer/checkpoint", "trainer/comm", "trainer/compute", "trainer/optim", "trainer/state",
        *TASK
    ],
    "trainer/job": [
        "trainer/comm", "trainer/compute", "trainer/cuda", "trainer/data", "trainer/models",
        "trainer/optim", "trainer/parallel", "trainer/plugin", "trainer/report",
        "trainer/state", "trainer/text", *TASK
    ],
    "trainer/strategies": [
        "trainer/compute", "trainer/data", "trainer/job", "trainer/models", "trainer/optim",
        "trainer/parallel", "trainer/report", "trainer/state", *TASK
    ],
    "trainer/evaluation": [
        "trainer/comm", "trainer/compute", "trainer/data", "trainer/job", "trainer/models",
        "trainer/parallel", "trainer/report", "trainer/state", "trainer/strategies", *TASK
    ],
    "trainer/loop": [
        "trainer/checkpoint", "trainer/comm", "trainer/compute", "trainer/data",
        "trainer/evaluation", "trainer/job", "trainer/models", "trainer/optim", "trainer/parallel",
        "trainer/report",
        "trainer/state", "trainer/strategies", *TASK
    ],
    "trainer/worker": [
        "trainer/checkpoint", "trainer/comm", "trainer/compute", "trainer/cuda", "trainer/data",
        "trainer/evaluation", "trainer/job", "trainer/loop", "trainer/models", "trainer/parallel",
        "trainer/plugin", "trainer/report",
        "trainer/state", "trainer/strategies", "trainer/text", *TASK
    ],
    "python": ["trainer/comm"],
    "apps/ddprun": ["launcher", *RENDEZVOUS],
    "apps/ddp_trainer": [
        "trainer/checkpoint", "trainer/comm", "trainer/job", "trainer/report", "trainer/state",
        "trainer/text", "trainer/worker", *TASK
    ],
    "tests": ["*"],
    "benchmarks": ["*"],
    "fuzz": ["*"],
    "examples": ["*"],
}

# The public headers, which everything may include that has LibTorch. The others include only those
# that are free of it.
PUBLIC = re.compile(r'\s*#\s*include\s+<(ddprun/[^>]+)>')
FOREIGN = re.compile(r"\s*#\s*include\s+<(?!\w+>|(ATen|c10|torch)/)")
PUBLIC_WITHOUT_TORCH = ["ddprun/error.h", "ddprun/options.h"]

# LibTorch is slow to load and to compile, and absent from the core preset.
MAY_INCLUDE_TORCH = [
    "include/ddprun",
    "trainer/comm", "trainer/compute", "trainer/cuda", "trainer/data", "trainer/models",
    "trainer/optim", "trainer/parallel", "trainer/plugin", "trainer/state",
    "trainer/job", "trainer/strategies", "trainer/evaluation", "trainer/loop",
    "trainer/worker",
    "trainer/checkpoint", "apps/ddp_trainer", "python",
    "tests/trainer", "benchmarks", "examples"
]
# Here only these files may: the rest of the folder builds and is tested without LibTorch.
TORCH_FILES = {
    "trainer/comm":
        r"(bootstrap|host_process_group(_\w+)?|tensor_collectives|c10d_store|"
        r"store_start|peer_watch|kept_memory)\.(h|cc)",
    "include/ddprun": r"(?!error|options).*",
}
TORCH = re.compile(r"<(ATen|c10|torch|caffe2)/")
WHOLE_TORCH = re.compile(r"<torch/(torch|all|extension)\.h>|<ATen/ATen\.h>")

# One place removes folders, which knows what ddprun wrote.
REMOVES_FOLDERS = "base/owned_folder.cc"
REMOVAL = re.compile(r"\bremove_all\(|\bRENAME_EXCHANGE\b")
MAY_REMOVE = ("tests/", "benchmarks/", "fuzz/", "examples/", REMOVES_FOLDERS)

# Error::page says where to read on; who reacts to an error asks its code.
PAGE = re.compile(r"(\.|->)page\s*[!=]=|[!=]=\s*[\w.()]+(\.|->)page\b")

LINE, FUNCTION, HEADER, SOURCE, TEST = 100, 70, 150, 400, 600

# The core: a page whose tables list files in reading order, each row with the most lines that its
# files may have together: | `launcher/run.{h,cc}`, `apps/ddprun/main.cc` | 214 | what to look for |
CORE_PAGE = "docs/core.md"
CORE_ROW = re.compile(r"\|((?: `[^`]+`,?)+) \| (\d+) \|")

CORE = 5000  # lines of all rows together

# Folders that stay small: the most modules (a header with its source), and how many of them an
# include may lead through.
SMALL_FOLDERS = {"trainer/loop": (15, 5)}

# A class that is declared in x.h has its member functions in x.h and x.cc. CLASS also finds the
# classes that a source declares for itself, MEMBER the definitions at the start of a line. A class
# that keeps the rule leaves OPEN_CLASSES.
OPEN_CLASSES = []
CLASS = re.compile(r"^ *(?:class|struct) (?:\w+::)*(\w+)(?: final)?(?: :[^;{]*)? *\{", re.M)
MEMBER = re.compile(r"(?=[^\s#}])[^=(]*?\b(\w+)::(?:~?\w+|operator *[^\w\s(]+)\(")

# (file, rule): the reason. A row that no longer matches anything is an error: this list only
# shrinks.
EXCEPTIONS = {}

SOURCES = {".cc", ".h"}
OTHER = {".py", ".sh", ".cmake", ".txt"}
NOTE = re.compile(r"\b(FIXME\b|XXX\b|HACK\b|TODO(?!\([a-z]+\): ))")


class Finding:
    def __init__(self, path, line, rule, text):
        self.path, self.line, self.rule, self.text = path, line, rule, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def nearest(path, rows):
    """The row of the deepest folder above path, or None."""
    folders = [parent.as_posix() for parent in pathlib.PurePosixPath(path).parents]
    return next((folder for folder in folders if folder in rows), None)


def check_includes(path, lines):
    folder = nearest(path, MAY_INCLUDE)
    if folder is None:
        yield Finding(path, 1, "arrow", "its folder has no row in MAY_INCLUDE of check_tree.py")
        return
    allowed = MAY_INCLUDE[folder]
    for number, line in enumerate(lines, 1):
        if match := re.match(r'\s*#\s*include\s+"([^"]+)"', line):
            target = nearest(match[1], MAY_INCLUDE)
            if target is None:
                yield Finding(path, number, "arrow", f'"{match[1]}" is not from the root')
            elif target != folder and target not in allowed and "*" not in allowed:
                yield Finding(path, number, "arrow", f"{folder} may not include {target}")
        elif match := PUBLIC.match(line):
            if match[1] not in PUBLIC_WITHOUT_TORCH:
                yield from check_torch_include(path, number, "<torch/")
        elif folder == "include/ddprun" and FOREIGN.match(line):
            yield Finding(path, number, "arrow", "only the standard library and LibTorch")
        elif re.match(r"\s*#\s*include\s+<", line):
            yield from check_torch_include(path, number, line)


def check_torch_include(path, number, line):
    if not TORCH.search(line):
        return
    folder = nearest(path, MAY_INCLUDE_TORCH)
    name = path.rsplit("/", 1)[-1]
    if folder is None:
        yield Finding(path, number, "torch", "no LibTorch in this folder")
    elif folder in TORCH_FILES and not re.fullmatch(TORCH_FILES[folder], name):
        yield Finding(path, number, "torch", f"in {folder} only {TORCH_FILES[folder]} may use it")
    if WHOLE_TORCH.search(line):
        yield Finding(path, number, "torch", "includes all of LibTorch: 18 s a file; be narrow")


def check_removals(path, lines):
    if path.startswith(MAY_REMOVE):
        return
    for number, line in enumerate(lines, 1):
        if REMOVAL.search(line):
            yield Finding(path, number, "removal", f"folders are removed by {REMOVES_FOLDERS}")


def file_limit(path):
    if path.startswith("tests/"):
        return TEST
    return HEADER if path.endswith(".h") else SOURCE


def check_pages(path, lines):
    if path.startswith("tests/"):
        return
    for number, line in enumerate(lines, 1):
        if PAGE.search(line):
            yield Finding(path, number, "page", "an error is recognised by its code")


def check_members(root, paths, open_classes):
    """Member functions stand in the source with the name of the header that declares the class.

    Those of a class of include/ddprun stand in any one source.
    """
    found = set()
    sources = {}  # by class of include/ddprun: its source
    homes = {}  # by class: the headers that declare one of this name, without their ending
    for path in paths:
        if path.endswith(".h"):
            for name in CLASS.findall(without_text((root / path).read_text().splitlines())):
                homes.setdefault(name, set()).add(path[:-len(".h")])
    for path in paths:
        if not path.endswith(".cc") or path.startswith("tests/"):
            continue
        code = without_text((root / path).read_text().splitlines())
        own = set(CLASS.findall(code))
        for number, line in enumerate(code.split("\n"), 1):
            match = MEMBER.match(line)
            name = match and match[1]
            if name not in homes or name in own or path[:-len(".cc")] in homes[name]:
                continue
            if any(home.startswith("include/") for home in homes[name]):
                if sources.setdefault(name, path) == path:
                    continue
            found.add(name)
            if name not in open_classes:
                home = " or ".join(sorted(homes[name]))
                yield Finding(path, number, "member", f"{name} is the class of {home}.h")
    for name in sorted(set(open_classes) - found):
        yield Finding("scripts/check_tree.py", 1, "open class", f"{name} keeps the rule: remove it")


def check_lengths(path, lines):
    for number, line in enumerate(lines, 1):
        if len(line) > LINE and "--hash=" not in line:
            yield Finding(path, number, "line length", f"{len(line)} of {LINE} columns")
    if path.endswith((".h", ".cc")):
        if len(lines) > file_limit(path):
            yield Finding(path, 1, "file length", f"{len(lines)} of {file_limit(path)} lines")
        for number, length in functions(lines):
            if length > FUNCTION:
                yield Finding(path, number, "function length", f"{length} of {FUNCTION} lines")


def without_text(lines):
    """The code with comments, literals and preprocessor lines blanked; line breaks stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
        r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), "\n".join(lines))


def functions(lines):
    """(first line, lines) of each function body: a brace after ')' outside of any other function.

    Counts braces, so it is approximate; what matters is that a long function is seen.
    """
    code = without_text(lines)
    stack = []  # of each open brace: its line if it opens a function, else None
    head = ""   # the code since the last ; { or }
    line = 1
    for char in code:
        line += char == "\n"
        if char == "{":
            scope = re.search(r"\b(namespace|class|struct|enum|union)\b[^()]*$", head)
            inside = any(start is not None for start in stack)
            stack.append(line if not inside and not scope and ")" in head else None)
            head = ""
        elif char == "}":
            start = stack.pop() if stack else None
            if start is not None:
                yield start, line - start + 1
            head = ""
        else:
            head = "" if char == ";" else head + char


def check_listed(root, paths):
    """Every source is named by the nearest CMakeLists.txt above it, else nothing builds it.

    Headers of tests are not listed, they must be included; examples have builds of their own.
    """
    included = set()
    for path in paths:
        if path.startswith("tests/") and path.endswith(tuple(SOURCES)):
            included.update(re.findall(r'#include "([^"]+)"', (root / path).read_text()))
    for path in paths:
        if not path.endswith(tuple(SOURCES)) or path.startswith("examples/"):
            continue
        if path.startswith("tests/") and path.endswith(".h"):
            if path not in included:
                yield Finding(path, 1, "unlisted", "no test includes it")
        elif not listed(root, pathlib.PurePosixPath(path)):
            yield Finding(path, 1, "unlisted", "the CMakeLists.txt above it does not name it")


def listed(root, path):
    listing = next((root / folder / "CMakeLists.txt" for folder in path.parents
                    if (root / folder / "CMakeLists.txt").exists()), None)
    if listing is None:
        return False
    text = listing.read_text()
    names = [path.relative_to(listing.parent.relative_to(root)).as_posix()]
    if "}.cc" in text:  # foreach(name ...) ... ${name}.cc
        names.append(path.stem)
    return any(re.search(rf"(?<![\w/.]){re.escape(name)}(?![\w/.])", text) for name in names)


def check_core(root):
    """Every row of the core's page names files that exist and keeps to its lines."""
    page = root / CORE_PAGE
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    most = 0
    for number, line in enumerate(lines, 1):
        if not (row := CORE_ROW.match(line)):
            continue
        total = 0
        most += int(row[2])
        for name in core_files(row[1]):
            if (root / name).exists():
                total += len((root / name).read_text(encoding="utf-8").splitlines())
            else:
                yield Finding(CORE_PAGE, number, "core", f"there is no {name}")
        if total > int(row[2]):
            yield Finding(CORE_PAGE, number, "core", f"{total} of {row[2]} lines")
    if most > CORE:
        yield Finding(CORE_PAGE, 1, "core", f"its rows allow {most} lines, {CORE} are the most")


def check_small_folders(root, paths):
    """Modules of SMALL_FOLDERS, and the longest way from one to another."""
    for folder, (most, deepest) in SMALL_FOLDERS.items():
        includes = {}
        for path in paths:
            if not re.fullmatch(rf"{folder}/\w+\.(h|cc)", path):
                continue
            module = path.rsplit(".", 1)[0]
            found = re.findall(rf'#include "({folder}/\w+)\.h"', (root / path).read_text())
            includes.setdefault(module, set()).update(set(found) - {module})
        depths = {}
        for _ in includes:
            for module, used in includes.items():
                depths[module] = 1 + max((depths.get(one, 0) for one in used), default=0)
        deep = max(depths.values(), default=0)
        if len(includes) > most or deep > deepest:
            text = f"{len(includes)} modules, {deep} deep; {most} and {deepest} are the most"
            yield Finding(f"{folder}/CMakeLists.txt", 1, "modules", text)


def core_files(cell):
    """The files of a cell: `a.{h,cc}` is a.h and a.cc."""
    for name in re.findall(r"`([^`]+)`", cell):
        stem, brace, ends = name.partition("{")
        yield from (stem + end for end in ends.rstrip("}").split(",")) if brace else (name,)


def check_notes(path, lines):
    if path == "scripts/check_tree.py":
        return
    for number, line in enumerate(lines, 1):
        if match := NOTE.search(line):
            yield Finding(path, number, "note", f"{match[1]}: say TODO(type): what, or do it now")


# Words of comments that refer to something without its name, or that only natives read with ease.
AVOIDED = re.compile(r"\b(likewise|as[\s/]+of|whoever|any[\s/]+more)\b", re.IGNORECASE)
AVOIDED_IN = ("apps/", "base/", "include/", "launcher/", "rendezvous/", "trainer/")
# A comment, with the lines of comment that follow it; or what could imitate the start of one.
COMMENT = re.compile(
    r'(?P<comment>(?://[^\n]*(?:\n[ \t]*(?=//))?)+|/\*.*?\*/)|R"(\w*)\(.*?\)\2"|'
    r'"(?:\\.|[^"\\\n])*"|' r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def check_words(path, lines):
    if not path.startswith(AVOIDED_IN):
        return
    text = "\n".join(lines)
    for comment in COMMENT.finditer(text):
        for word in AVOIDED.finditer(comment["comment"] or ""):
            number = text.count("\n", 0, comment.start() + word.start()) + 1
            yield Finding(path, number, "word", f'"{word[1]}" in a comment: name the thing')


def tree(root):
    """The paths of what is ours to check, from the root."""
    tops = ["apps", "base", "benchmarks", "cmake", "examples", "fuzz", "include", "launcher",
            "python", "rendezvous", "scripts", "tests", "trainer"]
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and path.suffix in SOURCES | OTHER and "golden" not in path.parts:
                yield path.relative_to(root).as_posix()


def check(root, exceptions, open_classes=()):
    findings = []
    paths = list(tree(root))
    for path in paths:
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        if pathlib.PurePosixPath(path).suffix in SOURCES:
            findings += check_includes(path, lines)
            findings += check_removals(path, lines)
            findings += check_pages(path, lines)
            findings += check_words(path, lines)
        findings += check_lengths(path, lines)
        findings += check_notes(path, lines)
    findings += check_listed(root, paths)
    findings += check_core(root)
    findings += check_small_folders(root, paths)
    findings += check_members(root, paths, open_classes)
    used = {(finding.path, finding.rule) for finding in findings} & set(exceptions)
    findings = [finding for finding in findings if (finding.path, finding.rule) not in used]
    for path, rule in sorted(set(exceptions) - used):
        findings.append(Finding(path, 1, "exception", f'"{rule}" holds now: remove its row'))
    return findings, len(paths)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    findings, count = check(root.resolve(), EXCEPTIONS, OPEN_CLASSES)
    for finding in findings:
        print(finding)
    if count == 0:
        sys.exit(f"check_tree.py: {root} holds no sources")
    print(f"{count} files, {len(findings)} findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
