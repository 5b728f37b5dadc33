#!/usr/bin/env python3
"""Time to the first step of a DDP script, and from its failure to the first step after a restart:
ddprun with and without --preload, and torchrun, in turns. torch._dynamo is preloaded because
DistributedDataParallel imports it."""

import pathlib
import subprocess
import time

import harness

SCRIPT = pathlib.Path(__file__).parent / "peers/ddp_restart.py"
LINES = ["step 1 of attempt 0", "fails", "step 1 of attempt 1"]


def commands(options, ranks):
    flags = ["--max_restarts=1"]
    return harness.sides(options, {
        "ddprun --preload": [*harness.ddprun(options, ranks), *flags, "--preload=torch._dynamo",
                             SCRIPT],
        "ddprun": [*harness.ddprun(options, ranks), *flags, SCRIPT],
        "torchrun": [*harness.torchrun(ranks), *flags, SCRIPT],
    })


def seconds(argv):
    """(seconds to the first step, seconds from the failure to the next first step)"""
    times = []
    begin = time.perf_counter()
    process = harness.start(argv, {"PYTHON_EXEC": str(harness.VENV / "python3")}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process.stdout:
        for line in process.stdout:
            if len(times) < len(LINES) and line.rstrip("\n").endswith(LINES[len(times)]):
                times.append(time.perf_counter() - begin)
    if process.wait() != 0 or len(times) != len(LINES):
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode} after {len(times)} of "
                         f"{len(LINES)} lines")
    return times[0], times[2] - times[1]


def measure(options, ranks):
    argvs = commands(options, ranks)
    times = {name: [] for name in argvs}
    for _ in range(options.rounds):
        for name, argv in argvs.items():
            times[name].append(seconds(argv))
    return [{"ranks": ranks, "side": name,
             "first_step_seconds": harness.median([first for first, _ in values]),
             "restart_seconds": harness.median([restart for _, restart in values]),
             "all": values} for name, values in times.items()]


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    options = parser.parse_args()
    results = [row for ranks in options.ranks for row in measure(options, ranks)]
    harness.table(("a DDP script over Gloo", "first step", "restart"),
                  [(f"{row['side']}, {row['ranks']} ranks", f"{row['first_step_seconds']:.2f} s",
                    f"{row['restart_seconds']:.2f} s") for row in results])
    harness.write_json(options, "preload", results)


if __name__ == "__main__":
    main()
