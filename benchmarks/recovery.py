#!/usr/bin/env python3
"""From the SIGKILL of a worker to the end of the step that is done again, less a step.

An MLP of 25 million parameters with AdamW, four ranks. "recovery": run.recovery "peer". "restart":
run.recovery "none", and a checkpoint of some steps before: all ranks start again. "torchrun": the
same model in Python, DistributedDataParallel over Gloo, started again by torchrun, which loads what
it has saved. Each round kills one rank once, at a moment within a step.

Before each kill as much memory as the new process will need is used and given back. Hypervisors
that take free memory from a machine ("free page reporting") give it anew at its first use, which
was seen to take up to 5 ms for each MiB: that is no time of the program. --cold leaves it out.

--cost instead: the median step with run.recovery "peer" and "none". Both jobs are started and by
turns stopped for some steps: two runs one after the other differ by more than is looked for, and so
do steps of a minute ago. What counts is therefore the ratio of turns that are neighbours.
"""

import contextlib
import json
import mmap
import os
import random
import signal
import statistics
import sys
import tempfile
import time

import harness

SIZES = [1024, 4096, 4096, 1024]
BATCH = 8
WARM_STEPS = 12
WARM_BYTES = 1 << 30  # more than a rank's weights, gradients, moments and what it works with
TURNS, TURN_STEPS = 12, 8  # of each job of a round of --cost


def config(folder, recovery, saves):
    return {
        "run": {"name": "r", "output_dir": os.path.join(folder, "run"), "max_steps": 10**6,
                "recovery": recovery},
        "model": {"type": "mlp", "layer_sizes": SIZES},
        "data": {"format": "random", "num_samples": 4096, "input_size": SIZES[0],
                 "target_size": SIZES[-1]},
        "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0,
                     "matmul_engine": "default"},
        "report": {"logging_steps": 1},
        "checkpoint": {"save_steps": WARM_STEPS if saves else 0, "save_at_end": False},
    }


def steps_of(path):
    """When each step was told so far."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")[:-1]
    except OSError:
        return []
    return [line["ts"] for line in map(json.loads, lines) if line.get("split") == "train"]


def steps_between(told):
    """Seconds from one step told to the next: a rank's own "step_seconds" leave out what it waits
    for the others after its update, which is where they meet without recovery."""
    return [after - before for before, after in zip(told, told[1:])]


def wait_for(condition, process, path, seconds=120, every=0.002):
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            with open(os.path.join(path, "out"), encoding="utf-8") as out:
                said = "".join(out.readlines()[-20:])
            sys.exit(f"{' '.join(map(str, process.args))} "
                     + ("goes on no more" if process.poll() is None else
                        f"has ended with code {process.returncode}") + f". Last lines:\n{said}")
        time.sleep(every)


def workers_of(process, program):
    """The pids of the ranks, in their order."""
    found = []
    for pid in harness.descendants(process.pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if program not in file.read():
                    continue
            with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
                if program != b"ddp-trainer" or "ddprun-node-memory" in file.read():
                    found.append(pid)
        except OSError:
            continue
    return sorted(found)


def warm_memory():
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared memory rarely has huge pages
    with mmap.mmap(-1, WARM_BYTES, flags=private) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for page in range(0, WARM_BYTES, mmap.PAGESIZE):
            memory[page] = 1


def kill_one(process, program, folder, path, cold):
    """Seconds from the kill to the end of the first step that was told after it, less the median
    step. FOLDER has what the process says."""
    wait_for(lambda: len(steps_of(path)) >= WARM_STEPS + 3, process, folder)
    step = harness.median(steps_between(steps_of(path)[1:]))
    time.sleep(random.uniform(0, step))
    victim = workers_of(process, program)[2]
    if not cold:
        warm_memory()  # last: some hypervisors take it within a tenth of a second
    begin = time.time()
    os.kill(victim, signal.SIGKILL)
    # What ends sooner is the step under way, to which the victim had given all that it had.
    after = lambda: [told for told in steps_of(path) if told > begin + step / 2]
    wait_for(after, process, folder)
    return min(after()) - begin - step


@contextlib.contextmanager
def job(options, recovery, saves=False):
    """A running job, its folder and its metrics."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "train.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config(folder, recovery, saves), file)
        with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
            process = harness.start([*harness.ddprun(options, options.ranks), "--max_restarts=1",
                                     path], stdout=out, stderr=out)
            try:
                yield process, folder, os.path.join(folder, "run/metrics.jsonl")
            finally:
                signal_all(process, signal.SIGCONT)
                harness.stop(process)


def ours(options, recovery):
    with job(options, recovery, saves=recovery == "none") as (process, folder, path):
        return kill_one(process, b"ddp-trainer", folder, path, options.cold)


def signal_all(process, number):
    for pid in (process.pid, *harness.descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def cost(options):
    """The median step of each turn with "peer" and "none": turns of a place are neighbours."""
    names = ("peer", "none")
    with contextlib.ExitStack() as stack:
        jobs = {}
        for name in names:
            process, folder, path = jobs[name] = stack.enter_context(job(options, name))
            wait_for(lambda: len(steps_of(path)) >= WARM_STEPS, process, folder)
            signal_all(process, signal.SIGSTOP)
        seconds = {name: [] for name in names}
        for turn in range(TURNS):
            for name in names if turn % 2 else reversed(names):
                process, folder, path = jobs[name]
                before = len(steps_of(path))
                signal_all(process, signal.SIGCONT)
                # The first one told was begun before the last stop. Asking often would take time
                # from the ranks: all lines are read.
                wait_for(lambda: len(steps_of(path)) > before + TURN_STEPS + 1, process, folder,
                         every=0.05)
                signal_all(process, signal.SIGSTOP)
                seconds[name].append(harness.median(steps_between(steps_of(path)[before:])))
    return seconds


def peer(options):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
            process = harness.start(
                [*harness.torchrun(options.ranks), "--max_restarts=1", "--monitor_interval=0.1",
                 str(harness.ROOT / "benchmarks/peers/recovery.py"), folder, str(BATCH),
                 str(WARM_STEPS), json.dumps(SIZES)], {"OMP_NUM_THREADS": "1"},
                stdout=out, stderr=out)
            try:
                return kill_one(process, b"peers/recovery.py\0", folder,
                                os.path.join(folder, "metrics.jsonl"), options.cold)
            finally:
                harness.stop(process)


def measure_cost(options):
    found = {"peer": [], "none": []}
    for _ in range(options.rounds):
        for name, turns in cost(options).items():
            found[name] += turns
    ratios = [peer / none for peer, none in zip(found["peer"], found["none"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    rows = [[name, f"{harness.median(turns) * 1e3:.1f} ms", ""] for name, turns in found.items()]
    harness.table(["", "median step", f"half of {len(ratios)} pairs of turns"],
                  [*rows, ["peer / none", f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]])
    return found


def measure_recovery(options):
    sides = {"recovery": lambda: ours(options, "peer"), "restart": lambda: ours(options, "none"),
             "torchrun": lambda: peer(options)}
    if options.only:
        sides = {name: sides[name] for name in options.only}
    found = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, measure in sides.items():
            found[name].append(measure())
    harness.table(["", "kill to the end of the step, less a step (ms)", "all"],
                  [[name, f"{harness.median(times) * 1e3:.1f}",
                    " ".join(f"{one * 1e3:.0f}" for one in times)]
                   for name, times in found.items()])
    return found


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--ranks", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--cost", action="store_true", help="the median step with it and without")
    parser.add_argument("--cold", action="store_true", help="leave the machine's free memory alone")
    options = parser.parse_args()
    if options.cost and options.only:
        parser.error("--cost compares its two sides with each other: leave --only out")
    found = measure_cost(options) if options.cost else measure_recovery(options)
    harness.write_json(options, "recovery", found)


if __name__ == "__main__":
    main()
