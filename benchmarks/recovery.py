#!/usr/bin/env python3
"""From the SIGKILL of a worker to the end of the step that is done again, less a step.

An MLP of 25 million parameters with AdamW, four ranks. "recovery": run.recovery "peer". "restart":
run.recovery "none", and a checkpoint of some steps before: all ranks start again. "torchrun": the
same model in Python, DistributedDataParallel over Gloo, started again by torchrun, which loads what
it has saved. Each round kills one rank once, at a moment within a step.

--nodes 2 divides the ranks among two agents, whose ranks are connected by TCP.

--machine kills a whole node of two instead, the agent with its ranks, while a third one waits as a
spare. "recovery": the spare takes its place. "restart": all ranks start again. Without torchrun.

--strategy zero1, zero2 or zero3: "recovery" is run.recovery "memory" with this strategy, and
"restart" and --cost compare with the same strategy. torchrun's side stays DistributedDataParallel.

Before each kill as much memory as the new process will need is used and given back. Hypervisors
that take free memory from a machine ("free page reporting") give it anew at its first use, which
was seen to take up to 5 ms for each MiB: that is no time of the program. --cold leaves it out.

--cost instead: the median step with run.recovery and with "none", in turns (turns.py).
"""

import json
import mmap
import os
import random
import signal
import tempfile
import time

import harness
import turns

SIZES = [1024, 4096, 4096, 1024]
BATCH = 8
WARM_STEPS = 12
SPARE_SECONDS = 8  # until a spare has loaded what its ranks need
WARM_BYTES = 1 << 30  # more than a rank's weights, gradients, moments and what it works with
TURNS, TURN_STEPS = 12, 8  # of each job of a round of --cost


def config(options, folder, recovery, saves):
    return {
        "run": {"name": "r", "output_dir": os.path.join(folder, "run"), "max_steps": 10**6,
                "recovery": recovery},
        "strategy": {"type": options.strategy},
        "model": {"type": "mlp", "layer_sizes": SIZES},
        "data": {"format": "random", "num_samples": 4096, "input_size": SIZES[0],
                 "target_size": SIZES[-1]},
        "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0,
                     "gradient_accumulation_steps": options.accumulate, "matmul_engine": "default"},
        "report": {"logging_steps": 1},
        "checkpoint": {"save_steps": WARM_STEPS if saves else 0, "save_at_end": False},
    }


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


def second_node(process):
    """The pids of the agent of the second node and of all that it has started."""
    agents = [pid for pid in harness.children(process.pid) if harness.children(pid)]
    return [agents[1], *harness.descendants(agents[1])]


def kill_one(process, program, folder, path, options):
    """Seconds from the kill to the end of the first step that was told after it, less the median
    step. FOLDER has what the process says."""
    turns.wait_for(lambda: len(turns.steps_of(path)) >= WARM_STEPS + 3, process, folder)
    if options.machine:
        time.sleep(SPARE_SECONDS)
    step = harness.median(turns.steps_between(turns.steps_of(path)[1:]))
    time.sleep(random.uniform(0, step))
    # Launchers come before workers.
    victims = second_node(process) if options.machine else [workers_of(process, program)[-2]]
    if not options.cold:
        warm_memory()  # last: some hypervisors take it within a tenth of a second
    begin = time.time()
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    # What ends sooner is the step under way, to which the victim had given all that it had.
    after = lambda: [told for told in turns.steps_of(path) if told > begin + step / 2]
    turns.wait_for(after, process, folder)
    return min(after()) - begin - step


def ours(options, recovery):
    made = lambda folder: config(options, folder, recovery, saves=recovery == "none")
    with turns.job(options, made) as (process, folder, path):
        return kill_one(process, b"ddp-trainer", folder, path, options)


def peer(options):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
            process = harness.start(
                harness.on_nodes(
                    options.nodes, harness.torchrun(options.ranks // options.nodes),
                    ["--max_restarts=1", "--monitor_interval=0.1",
                     str(harness.ROOT / "benchmarks/peers/recovery.py"), folder, str(BATCH),
                     str(WARM_STEPS), json.dumps(SIZES)]), {"OMP_NUM_THREADS": "1"},
                stdout=out, stderr=out)
            try:
                return kill_one(process, b"peers/recovery.py\0", folder,
                                os.path.join(folder, "metrics.jsonl"), options)
            finally:
                harness.stop(process)


def measure_cost(options):
    sides = {name: lambda folder, name=name: config(options, folder, name, saves=False)
             for name in (options.recovery, "none")}
    return turns.compare(options, sides, turns=TURNS, steps=TURN_STEPS, warm=WARM_STEPS)


def measure_recovery(options):
    sides = {"recovery": lambda: ours(options, options.recovery),
             "restart": lambda: ours(options, "none"), "torchrun": lambda: peer(options)}
    if options.machine:
        del sides["torchrun"]
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
    parser.add_argument("--nodes", type=int, default=1,
                        help="among which the ranks are divided, all on this machine")
    parser.add_argument("--machine", action="store_true",
                        help="kill a whole node of two; another one is a spare")
    parser.add_argument("--strategy", default="ddp", choices=("ddp", "zero1", "zero2", "zero3"),
                        help="default: %(default)s")
    parser.add_argument("--accumulate", type=int, default=1,
                        help="micro-batches of a step; default: %(default)s")
    parser.add_argument("--cost", action="store_true", help="the median step with it and without")
    parser.add_argument("--cold", action="store_true", help="leave the machine's free memory alone")
    options = parser.parse_args()
    if options.accumulate > 1 and not options.cost:
        parser.error("--accumulate is for --cost")
    if options.machine:
        options.nodes = 2
    options.recovery = "peer" if options.strategy == "ddp" else "memory"
    if options.cost and options.only:
        parser.error("--cost compares its two sides with each other: leave --only out")
    found = measure_cost(options) if options.cost else measure_recovery(options)
    harness.write_json(options, "recovery", found)


if __name__ == "__main__":
    main()
