#!/usr/bin/env python3
"""Memory per worker while the small GPT trains: ddprun's against PyTorch's under torchrun.

From /proc/PID/smaps_rollup of each worker at step 5: private memory (what one worker more costs)
and the proportional set size (with its share of what the workers have in common).
"""

import re
import subprocess
import tempfile
import threading

import gpt_case
import harness

STEPS = 1_000_000  # stopped long before


def commands(options, ranks, folder):
    return harness.sides(options, {
        "ddprun": gpt_case.ddprun_command(options, ranks, folder, STEPS),
        "torchrun": gpt_case.torchrun_command(ranks, STEPS),
    })


def workers_mib(argv, ranks):
    """[(private, proportional)] of the workers: the launcher's last children.

    ddprun has one child more, the first: the template that the workers were forked from.
    """
    process = harness.start(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            match = re.search(gpt_case.STEP, line)
            if match and int(match[1]) >= 5:
                return [worker_mib(pid) for pid in harness.children(process.pid)[-ranks:]]
        raise SystemExit(f"{' '.join(argv)} ended before its fifth step")
    finally:
        watchdog.cancel()
        harness.stop(process)


def worker_mib(pid):
    private = sum(harness.proc_kib(pid, "smaps_rollup", field)
                  for field in ("Private_Clean", "Private_Dirty"))
    return private / 1024, harness.proc_kib(pid, "smaps_rollup", "Pss") / 1024


def measure(options, ranks):
    with tempfile.TemporaryDirectory() as folder:
        argvs = commands(options, ranks, folder)
        found = {name: [] for name in argvs}
        for _ in range(options.rounds):
            for name, argv in argvs.items():
                found[name] += workers_mib(argv, ranks)
    return [{"ranks": ranks, "side": name,
             "private_mib": harness.median([private for private, _ in values]),
             "proportional_mib": harness.median([pss for _, pss in values])}
            for name, values in found.items()]


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    options = parser.parse_args()
    results = [row for ranks in options.ranks for row in measure(options, ranks)]
    ours = {row["ranks"]: row["private_mib"] for row in results if row["side"] == "ddprun"}
    rows = [(f"{row['side']}, {row['ranks']} workers", f"{row['private_mib']:.0f} MiB",
             harness.ratio(ours.get(row["ranks"]), row["private_mib"]),
             f"{row['proportional_mib']:.0f} MiB") for row in results]
    harness.table(("memory of a worker", "private", "to ddprun", "proportional"), rows)
    harness.write_json(options, "memory", results)


if __name__ == "__main__":
    main()
