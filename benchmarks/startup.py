#!/usr/bin/env python3
"""Start-up: workers that do nothing ("true"), under ddprun, torchrun and both mpiruns.

"no launcher" is the one program alone: what any launcher's time includes. Wall time from start to
exit, and the launcher's memory: its highest resident size while its
workers ("sleep") are alive, read from /proc, since a child's rusage also counts the image that it
was forked from.
"""

import subprocess
import time

import harness


def commands(options, ranks, worker):
    return harness.sides(options, {
        "ddprun": [*harness.ddprun(options, ranks), "--no_python", *worker],
        "torchrun": [*harness.torchrun(ranks), "--no_python", *worker],
        "mpirun (OpenMPI)": [*harness.mpirun(ranks), *worker],
        "mpirun (MPICH)": [*harness.mpich(ranks), *worker],
        "no launcher": worker,
    })


def wall_seconds(argv):
    begin = time.perf_counter()
    process = harness.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = process.wait()
    seconds = time.perf_counter() - begin
    if status != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {status}")
    return seconds


def launcher_mib(argv, ranks):
    """Peak resident memory of the launcher by the time that all workers run."""
    process = harness.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(harness.descendants(process.pid)) < ranks:
            if time.monotonic() > deadline or process.poll() is not None:
                raise SystemExit(f"{' '.join(argv)} did not start {ranks} workers")
            time.sleep(0.01)
        time.sleep(0.2)
        return harness.proc_kib(process.pid, "status", "VmHWM") / 1024
    finally:
        harness.stop(process)


def measure(options, ranks):
    plain = commands(options, ranks, ["true"])
    sleeping = commands(options, ranks, ["sleep", "30"])
    walls = {name: [] for name in plain}
    memory = {name: [] for name in plain}
    for _ in range(options.rounds):
        for name, argv in plain.items():
            walls[name].append(wall_seconds(argv))
    sleeping.pop("no launcher", None)
    for name, argv in sleeping.items():
        memory[name] = [launcher_mib(argv, ranks) for _ in range(3)]
    return [{"ranks": ranks, "side": name, "wall_seconds": harness.median(walls[name]),
             "wall_seconds_all": walls[name], "launcher_mib": harness.median(memory[name])}
            for name in plain]


def main():
    parser = harness.parser(__doc__, rounds=9)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    options = parser.parse_args()
    results = [row for ranks in options.ranks for row in measure(options, ranks)]
    ours = {row["ranks"]: row for row in results if row["side"] == "ddprun"}
    rows = []
    for row in results:
        own = ours.get(row["ranks"], {})
        rows.append((f"{row['side']}, {row['ranks']} workers",
                     f"{row['wall_seconds'] * 1e3:.1f} ms",
                     harness.ratio(own.get("wall_seconds"), row["wall_seconds"]),
                     f"{row['launcher_mib']:.1f} MiB" if row["launcher_mib"] else "-",
                     harness.ratio(own.get("launcher_mib"), row["launcher_mib"])))
    harness.table(("start-up", "wall", "to ddprun", "launcher, peak resident", "to ddprun"), rows)
    harness.write_json(options, "startup", results)


if __name__ == "__main__":
    main()
