#!/usr/bin/env python3
"""Output: workers that print as fast as they can; the launcher tees it to files and to a pipe.

Under ddprun and torchrun, both with -t 3: wall time, and the launcher's own processor time without
its workers', each minus that of a run whose workers print nothing. "block" is how Python prints to
a file or pipe, "lines" is how it prints under -u, a system call each.
"""

import os
import pathlib
import subprocess
import tempfile
import time

import harness

WORKER = """
import sys
for i in range(int(sys.argv[1])):
    sys.stdout.write("a line as long as those that training loops print, step %d\\n" % i)
    if sys.argv[2] == "lines":
        sys.stdout.flush()
"""


def run(argv, lines_expected):
    """(wall seconds, the launcher's processor seconds) of a job whose output is read at once."""
    begin = time.perf_counter()
    process = harness.start(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = 0
    while piece := os.read(process.stdout.fileno(), 1 << 20):
        lines += piece.count(b"\n")
    # A process that has ended and not been reaped still has its own times, without its children's.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    seconds = time.perf_counter() - begin
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    process.stdout.close()
    if process.wait() != 0 or lines != lines_expected:
        raise SystemExit(f"{argv[0]} ended with {process.returncode} after {lines} lines")
    return seconds, ticks / os.sysconf("SC_CLK_TCK")


def measure(options, folder, case):
    worker = os.path.join(folder, "worker.py")
    pathlib.Path(worker).write_text(WORKER)
    flags = ["--standalone", "-t", "3", f"--log_dir={folder}/logs", "--no_python", "python3",
             worker]
    sides = harness.sides(options, {
        "ddprun": [*harness.ddprun(options, options.workers), *flags],
        "torchrun": [*harness.torchrun(options.workers), *flags],
    })
    found = {name: {lines: [] for lines in (0, options.lines)} for name in sides}
    for _ in range(options.rounds):
        for lines in (0, options.lines):
            for name, argv in sides.items():
                sample = run([*argv, str(lines), case], lines * options.workers)
                found[name][lines].append(sample)

    def beyond(name, index):
        printing, idle = ([sample[index] for sample in found[name][lines]]
                          for lines in (options.lines, 0))
        return harness.median(printing) - harness.median(idle)

    return [{"case": case, "side": name, "wall_seconds": beyond(name, 0),
             "launcher_cpu_seconds": beyond(name, 1), "samples": found[name]} for name in sides]


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--lines", type=int, default=100_000, help="per worker")
    options = parser.parse_args()
    results = []
    for case in ("block", "lines"):
        with tempfile.TemporaryDirectory() as folder:
            results += measure(options, folder, case)
    ours = {row["case"]: row for row in results if row["side"] == "ddprun"}
    rows = []
    for row in results:
        own = ours.get(row["case"], {})
        rows.append((f"{row['side']}, {row['case']}", f"{row['wall_seconds']:.2f} s",
                     harness.ratio(own.get("wall_seconds"), row["wall_seconds"]),
                     f"{row['launcher_cpu_seconds']:.2f} s",
                     harness.ratio(own.get("launcher_cpu_seconds"), row["launcher_cpu_seconds"])))
    harness.table((f"{options.workers} x {options.lines} lines", "wall", "to ddprun",
                   "launcher's processor time", "to ddprun"), rows)
    harness.write_json(options, "output", results)


if __name__ == "__main__":
    main()
