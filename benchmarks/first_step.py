#!/usr/bin/env python3
"""Time to the first training step: from the launch to the log line of step 1 on stdout.

The same small GPT on CPU ranks: ddprun with a config, and torchrun with plain PyTorch
(peers/gpt_ddp.py).
"""

import re
import subprocess
import sys
import tempfile
import time

import gpt_case
import harness

STEPS = 3


def commands(options, ranks, folder):
    return harness.sides(options, {
        "ddprun": gpt_case.ddprun_command(options, ranks, folder, STEPS),
        "torchrun": gpt_case.torchrun_command(ranks, STEPS),
    })


def seconds_to_first_step(argv):
    """(seconds to the line of step 1, seconds to the end)"""
    first = None
    with tempfile.TemporaryFile("w+") as errors:
        begin = time.perf_counter()
        process = harness.start(argv, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process.stdout:
            for line in process.stdout:
                match = re.search(gpt_case.STEP, line)
                if match and match[1] == "1" and first is None:
                    first = time.perf_counter() - begin
        status = process.wait()
        end = time.perf_counter() - begin
        errors.seek(0)
        if first is None:
            raise SystemExit(f"{' '.join(argv)} ended with {status} before its first step:\n"
                             f"{errors.read()[-3000:]}")
        if status != 0:
            print(f"note: {argv[0]} took the first step but ended with {status}", file=sys.stderr)
    return first, end


def measure(options, ranks):
    with tempfile.TemporaryDirectory() as folder:
        argvs = commands(options, ranks, folder)
        times = {name: [] for name in argvs}
        for _ in range(options.rounds):
            for name, argv in argvs.items():
                times[name].append(seconds_to_first_step(argv))
    return [{"ranks": ranks, "side": name,
             "first_step_seconds": harness.median([first for first, _ in values]),
             f"end_of_{STEPS}_steps_seconds": harness.median([end for _, end in values]),
             "first_step_seconds_all": [first for first, _ in values]}
            for name, values in times.items()]


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    options = parser.parse_args()
    results = [row for ranks in options.ranks for row in measure(options, ranks)]
    ours = {row["ranks"]: row["first_step_seconds"] for row in results if row["side"] == "ddprun"}
    rows = [(f"{row['side']}, {row['ranks']} ranks", f"{row['first_step_seconds']:.2f} s",
             harness.ratio(ours.get(row["ranks"]), row["first_step_seconds"]),
             f"{row[f'end_of_{STEPS}_steps_seconds']:.2f} s") for row in results]
    harness.table(("time to first step", "first step", "to ddprun", f"end, {STEPS} steps"), rows)
    harness.write_json(options, "first_step", results)


if __name__ == "__main__":
    main()
