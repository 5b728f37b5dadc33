#!/usr/bin/env python3
"""The launcher at work: from a failure to its return, restarts, an idle agent, SIGTERM, kill -9.

Workers are shell scripts, so the times are the launcher's. They write down the time of an event in
nanoseconds of the system's clock; the benchmark subtracts. Both sides run in turns.
"""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time

import harness

NOW = 'date +%s%N'
# Rank 1 fails when all others are up; they end by the signal that the launcher sends them.
FAIL = f"""
if test "$RANK" != 1; then touch "$FOLDER/up.$RANK"; exec sleep 1000; fi
for rank in $(seq 0 $((WORLD_SIZE - 1))); do
  test $rank = 1 || until test -e "$FOLDER/up.$rank"; do sleep 0.01; done
done
sleep 0.5
{NOW} > "$FOLDER/failed"; exit 1
"""
# As above, but rank 0 is deaf.
STUBBORN = 'test "$RANK" = 0 && trap "" TERM; ' + FAIL.replace(
    "exec sleep 1000", 'test "$RANK" = 0 || exec sleep 1000; while :; do sleep 1000; done')
# Rank 1 fails once; the replacement of each rank writes down when it runs.
RESTART = f"""
if test -e "$FOLDER/failed"; then {NOW} > "$FOLDER/again.$RANK"; exit 0; fi
{FAIL}
"""
SLEEP = 'touch "$FOLDER/up.$RANK"; exec sleep 1000'
GRACE_S = 0.5


class Job:
    """A launcher, or one per node, with a folder for what its workers write."""

    def __init__(self, side, options, ranks, script, flags=(), nodes=1):
        self.folder = tempfile.TemporaryDirectory()
        self.launchers = []
        port = free_port()
        for node in range(nodes):
            argv = command(side, options, ranks) + list(flags) + node_flags(node, nodes, port)
            argv += ["--no_python", "sh", "-c", script]
            self.launchers.append(harness.start(
                [str(word) for word in argv], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                more={"FOLDER": self.folder.name}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.members():
            os.kill(pid, signal.SIGKILL)
        for launcher in self.launchers:
            launcher.kill()
            launcher.wait()
        self.folder.cleanup()

    def wait_for(self, name):
        path = pathlib.Path(self.folder.name, name)
        deadline = time.monotonic() + 120
        while not path.exists():
            if time.monotonic() > deadline:
                raise SystemExit(f"no {name} from {self.launchers[0].args}")
            time.sleep(0.01)

    def written(self, pattern):
        """The times that files of this name hold, in seconds."""
        return [int(path.read_text()) / 1e9
                for path in pathlib.Path(self.folder.name).glob(pattern)]

    def wait(self):
        """The time at which the last launcher has returned."""
        # wait(timeout=...) would look only every 50 ms.
        watchdog = threading.Timer(120, lambda: [launcher.kill() for launcher in self.launchers])
        watchdog.start()
        for launcher in self.launchers:
            launcher.wait()
        end = time.time()
        watchdog.cancel()
        return end

    def members(self):
        """Workers and their children, known by the folder in their environment."""
        found = []
        launchers = {launcher.pid for launcher in self.launchers}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or int(entry.name) in launchers:
                    continue
                # A process that has ended but is not yet buried has an empty environment.
                if f"FOLDER={self.folder.name}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(side, options, ranks):
    return harness.ddprun(options, ranks) if side == "ddprun" else harness.torchrun(ranks)


def node_flags(node, nodes, port):
    if nodes == 1:
        return [f"--master_port={port}"]
    return [f"--nnodes={nodes}", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}",
            "--rdzv_id=benchmark", "--local_addr=127.0.0.1"]


def failure_to_return(side, options, ranks, script=FAIL, flags=()):
    with Job(side, options, ranks, script, flags) as job:
        return job.wait() - job.written("failed")[0]


def stubborn(side, options, ranks):
    # torchrun has no such flag in 2.11: its 30 s are fixed.
    flags = [f"--shutdown_timeout={GRACE_S}"] if side == "ddprun" else []
    return failure_to_return(side, options, ranks, STUBBORN, flags)


def restart(side, options, ranks, nodes=1, flags=()):
    """From the exit of a worker until the last replacement runs."""
    flags = ["--max_restarts=1", *flags]
    with Job(side, options, ranks // nodes, RESTART, flags, nodes) as job:
        job.wait()
        return max(job.written("again.*")) - job.written("failed")[0]


def terminate(side, options, ranks):
    """From SIGTERM to the launcher until it has returned; workers end at once."""
    with Job(side, options, ranks, SLEEP) as job:
        for rank in range(ranks):
            job.wait_for(f"up.{rank}")
        time.sleep(0.5)
        begin = time.time()
        job.launchers[0].terminate()
        return job.wait() - begin


def survivors(side, options, ranks):
    """How many workers live a second after kill -9 of the launcher."""
    with Job(side, options, ranks, SLEEP) as job:
        for rank in range(ranks):
            job.wait_for(f"up.{rank}")
        job.launchers[0].kill()
        job.wait()
        time.sleep(1)
        return len(job.members())


def idle_memory(side, options, ranks):
    """(resident, proportional, private) MiB of the launcher while its workers sleep."""
    with Job(side, options, ranks, SLEEP) as job:
        for rank in range(ranks):
            job.wait_for(f"up.{rank}")
        time.sleep(0.5)
        pid = job.launchers[0].pid
        private = sum(harness.proc_kib(pid, "smaps_rollup", field)
                      for field in ("Private_Clean", "Private_Dirty"))
        return (harness.proc_kib(pid, "smaps_rollup", "Rss") / 1024,
                harness.proc_kib(pid, "smaps_rollup", "Pss") / 1024, private / 1024)


def cases(options):
    """(name, unit, how to measure one side, rounds)."""
    found = []
    for ranks in options.ranks:
        for name, measure in (
                ("failure to return", failure_to_return),
                ("SIGTERM to return", terminate),
                ("restart", restart)):
            found.append((f"{name}, {ranks} workers", "ms", measure, ranks, options.rounds))
    found.append(("restart, two nodes of 1 worker", "ms",
                  lambda *args: restart(*args, nodes=2), 2, options.rounds))
    if options.stubborn:
        found.append((f"failure to return, one ignores SIGTERM, grace {GRACE_S} s "
                      "(torchrun: 30 s, fixed), 2 workers", "ms", stubborn, 2, 1))
    for ranks in options.ranks:
        found.append((f"workers alive after kill -9, of {ranks}", "", survivors, ranks, 1))
    return found


def measure_case(options, sides, name, unit, measure, ranks, rounds):
    found = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            found[side].append(measure(side, options, ranks))
    return {"case": name, "unit": unit, "median": {side: harness.median(values)
                                                   for side, values in found.items()},
            "all": found}


def cell(value, unit):
    if value is None:
        return "-"
    return f"{value * 1e3:.1f} ms" if unit == "ms" else f"{value:g}"


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--stubborn", action="store_true",
                        help="also with a worker that ignores SIGTERM: 30 s more for torchrun")
    options = parser.parse_args()
    sides = harness.sides(options, {"ddprun": harness.ddprun(options, 2),
                                    "torchrun": harness.torchrun(2)})
    results = [measure_case(options, sides, *case) for case in cases(options)]
    rows = []
    for row in results:
        ours, theirs = (row["median"].get(side) for side in ("ddprun", "torchrun"))
        ratio = harness.ratio(ours, theirs) if row["unit"] else ""
        rows.append((row["case"], cell(ours, row["unit"]), cell(theirs, row["unit"]), ratio))
    harness.table(("launcher", "ddprun", "torchrun", "torchrun / ddprun"), rows)
    print()
    memory = []
    for ranks in options.ranks:
        for side in sides:
            values = [idle_memory(side, options, ranks) for _ in range(3)]
            medians = [harness.median(column) for column in zip(*values)]
            memory.append({"ranks": ranks, "side": side, "mib": medians})
    harness.table(("idle launcher", "resident", "proportional", "private"),
                  [(f"{row['side']}, {row['ranks']} workers",
                    *(f"{value:.1f} MiB" for value in row["mib"])) for row in memory])
    harness.write_json(options, "launcher", {"times": results, "memory": memory})


if __name__ == "__main__":
    main()
