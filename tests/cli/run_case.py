"""Runs one .test file: each "$ command" with the exit code and output that follow it.

A file is a sequence of blocks. Lines before the first block that begin with "+ " prepare the empty
folder in which everything runs (shell). A block:

    $ ddprun --nnodes=x true
    exit: 2
    stderr:
    | -- BAD VALUE ...

"stdout:" likewise; a stream that is not mentioned must be empty. In expected lines, <...> stands
for any text within the line. Every command has to end within a second of CPU time, and within a
minute on the clock however busy the machine is.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile

CPU_LIMIT_S = 1.0
CLOCK_LIMIT_S = 60


def parse(path):
    prepare, blocks, stream = [], [], None
    with open(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("+ "):
                prepare.append(line[2:])
            elif line.startswith("$ "):
                blocks.append({"command": line[2:], "line": number, "exit": 0})
            elif line.startswith("exit: "):
                blocks[-1]["exit"] = int(line[6:])
            elif line in ("stdout:", "stderr:"):
                stream = line[:-1]
                blocks[-1][stream] = []
            elif line.startswith("|"):
                blocks[-1][stream].append(line[2:] if line.startswith("| ") else line[1:])
            else:
                raise SystemExit(f"{path}:{number}: cannot read this line: {line}")
    return prepare, blocks


def matches(expected, actual):
    lines = actual.splitlines()
    patterns = [".*".join(re.escape(part) for part in line.split("<...>")) for line in expected]
    return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


def run_block(block, folder, env):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job = subprocess.run(
        block["command"],
        shell=True,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLOCK_LIMIT_S,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    problems = []
    if job.returncode != block["exit"]:
        problems.append(f"exit code {job.returncode}, expected {block['exit']}")
    if cpu_s > CPU_LIMIT_S:
        problems.append(f"took {cpu_s:.1f} s")
    for stream in ("stdout", "stderr"):
        expected, actual = block.get(stream, []), getattr(job, stream)
        if not matches(expected, actual):
            shown = "".join(f"| {line}\n" for line in actual.splitlines())
            problems.append(f"{stream} is not as expected, but:\n{shown}")
    return problems


def main():
    path = sys.argv[1]
    prepare, blocks = parse(path)
    program_folder = os.path.dirname(os.environ["DDPRUN_PROGRAM"])
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_"))}
    env["PATH"] = program_folder + ":" + env["PATH"]
    env["LC_ALL"] = "C"
    failed = not blocks
    with tempfile.TemporaryDirectory() as folder:
        env["TMPDIR"] = os.path.join(folder, "tmp")
        os.mkdir(env["TMPDIR"])
        for command in prepare:
            subprocess.run(command, shell=True, cwd=folder, env=env, check=True)
        for block in blocks:
            for problem in run_block(block, folder, env):
                failed = True
                print(f"{path}:{block['line']}: $ {block['command']}\n{problem}\n")
        if os.listdir(env["TMPDIR"]):
            failed = True
            print(f"left behind: {os.listdir(env['TMPDIR'])}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
