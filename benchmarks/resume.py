#!/usr/bin/env python3
"""What a resume in the middle of an epoch costs, beside Hugging Face's Trainer and accelerate.

One rank, the 10-10-5 model, one epoch of --at batches and a half more. "first step": for the peers
from the call that trains to the end of its first step, for ddprun from the start of the program
(LibTorch, data, weights) to that step's line in metrics.jsonl; fresh, and at the late batch. The
difference is what going on costs; "in the loop" is how long that step took by itself, from the
entry to the loop on; "step" is the median of those after it. The peers need accelerate beside the
other ones: .deps/venv/bin/python -m pip install --no-deps accelerate psutil
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import harness

BATCH = 8


def run(command, folder):
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder,
                          env={**harness.environment(), "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"{command} failed ({done.returncode}):\n{done.stderr[-3000:]}")
    return done.stdout


def ours(options, at):
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "run": {"name": "r", "max_steps": options.at + 20},
            "model": {"type": "mlp", "layer_sizes": options.sizes},
            "data": {"format": "random", "num_samples": BATCH * (options.at + options.at // 2),
                     "input_size": options.sizes[0], "target_size": options.sizes[-1]},
            "training": {"per_device_train_batch_size": BATCH},
            "checkpoint": {"save_steps": options.at, "save_at_end": False},
            "report": {"logging_steps": options.at},
        }
        path = os.path.join(folder, "train.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        ddprun = [options.bin / "ddprun", "--nproc_per_node=1"]
        if at:
            run([*ddprun, path, "--set", f"run.max_steps={at}"], folder)
        begin = time.time()
        run([*ddprun, path, "--set", "run.resume=auto", "--set", "report.logging_steps=1",
             "--set", f"run.max_steps={at + 20}"], folder)
        with open(os.path.join(folder, "runs/r/metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps = [line for line in lines if line.get("split") == "train" and line["step"] > at]
        assert steps[0]["step"] == at + 1, steps[0]
        return {"first": steps[0]["ts"] - begin, "loop": steps[0]["step_seconds"],
                "step": harness.median([line["step_seconds"] for line in steps[1:]])}


def peer(side, options, at):
    with tempfile.TemporaryDirectory() as folder:
        program = harness.ROOT / "benchmarks/peers/resume.py"
        batches = options.at + options.at // 2
        out = run([harness.VENV / "python", program, side, str(BATCH), str(batches), str(at),
                   folder], folder)
        return json.loads(out.splitlines()[-1])


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--at", type=int, default=100_000, help="batch; default: %(default)s")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 10, 5],
                        help="of ddprun's layers; with others than the default's, --only ddprun")
    options = parser.parse_args()
    sides = {
        "ddprun": lambda at: ours(options, at),
        "transformers": lambda at: peer("transformers", options, at),
        "accelerate": lambda at: peer("accelerate", options, at)}
    if options.only:
        sides = {name: sides[name] for name in options.only}
    found = {name: {0: [], options.at: []} for name in sides}
    for _ in range(options.rounds):
        for name, measure in sides.items():
            for at, results in found[name].items():
                results.append(measure(at))
    rows = []
    for name, by_start in found.items():
        fresh, late = (harness.median([one["first"] for one in results])
                       for results in by_start.values())
        step = harness.median([one["step"] for one in by_start[options.at]])
        loop = [one["loop"] for one in by_start[options.at] if "loop" in one]
        rows.append([name, f"{fresh * 1e3:.1f}", f"{late * 1e3:.1f}", f"{(late - fresh) * 1e3:.1f}",
                     f"{harness.median(loop) * 1e3:.3f}" if loop else "-", f"{step * 1e3:.3f}"])
    harness.table(["", "first step, fresh (ms)", "resumed (ms)", "difference (ms)",
                   "in the loop (ms)", "step (ms)"],
                  rows)
    harness.write_json(options, "resume", found)


if __name__ == "__main__":
    main()
