#!/usr/bin/env python3
"""Two builds against each other: what a change must not make slower.

    pairs.py OLD_BIN NEW_BIN

Start-up, all-reduces of two ranks, the step of a small model, and whole runs of ddp-trainer, the
builds in turns. A line says "slower" where even the best of the new runs is slower than the middle
of the old ones.
"""

import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import time

import harness
from ddp import TOY
from published import milliseconds, size_text

SIZES = [4 << 10, 1 << 20, 25 << 20]


def start_up(folder):
    argv = [folder / "ddprun", "--nproc_per_node=2", "--no_python", "true"]
    begin = time.perf_counter()
    subprocess.run(argv, check=True, env=harness.environment())
    return {"start and end of 2 workers": time.perf_counter() - begin}


def all_reduce(folder):
    argv = [folder / "ddprun", "--nproc_per_node=2", "--no_python", folder / "ddp-allreduce"]
    lines = harness.output([str(word) for word in (*argv, *SIZES)]).splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return {f"all-reduce, {size_text(row['bytes'])}": row["seconds_median"] for row in found}


def small_model(folder):
    with tempfile.TemporaryDirectory() as scratch:
        result = pathlib.Path(scratch) / "result.json"
        harness.output([str(word) for word in (
            folder / "ddprun", "--nproc_per_node=2", "--no_python", folder / "ddp-bench", "--json",
            result, "overhead", *TOY[:-2], "--rounds", "5", "--steps", "400")])
        rows = json.loads(result.read_text())["results"]
    return {f"step of 10-10-5, {row['name']}": row["step"] for row in rows
            if row["name"] != "c10d::Reducer"}


def training(folder):
    """Steps of runs of ddp-trainer; the first ones, which warm up, are left out."""
    models = {"gpt": ({"type": "gpt", "vocab_size": 256, "hidden_size": 256},
                      {"train_files": [str(harness.ROOT / "base/*.cc")], "max_seq_length": 128}),
              "resnet18": ({"type": "resnet18"},
                           {"format": "cifar10", "train_files": ["images.bin"]})}
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        drawn = random.Random(1)
        (scratch / "images.bin").write_bytes(
            b"".join(bytes([i % 10]) + drawn.randbytes(3072) for i in range(512)))
        for name, (model, data) in models.items():
            for precision in ("fp32", "bf16"):
                run = scratch / f"{name}-{precision}"
                config = {"run": {"output_dir": str(run), "max_steps": 30}, "model": model,
                          "data": data, "checkpoint": {"save_at_end": False},
                          "training": {"per_device_train_batch_size": 4, "precision": precision},
                          "report": {"logging_steps": 1, "progress_bar": "off"}}
                (scratch / "train.json").write_text(json.dumps(config))
                harness.output([str(folder / "ddprun"), "--nproc_per_node=2",
                                str(scratch / "train.json")])
                lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
                steps = [line["step_seconds"] for line in lines if "step_seconds" in line]
                found[f"step of {name}, {precision}"] = harness.median(steps[5:])
    return found


def main():
    parser = harness.Parser(description=__doc__,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    options = parser.parse_args()
    seconds = {}
    for measure, rounds in ((start_up, options.rounds * 5), (all_reduce, options.rounds),
                            (small_model, options.rounds), (training, options.rounds)):
        for _ in range(rounds):
            for side, folder in enumerate((options.old.resolve(), options.new.resolve())):
                for what, value in measure(folder).items():
                    seconds.setdefault(what, ([], []))[side].append(value)
    rows = []
    for what, (old, new) in seconds.items():
        rows.append((what, milliseconds(harness.median(old)), milliseconds(harness.median(new)),
                     f"{harness.median(new) / harness.median(old):.3f}",
                     "slower" if min(new) > harness.median(old) else ""))
    harness.table(("two builds", "old", "new", "new / old", ""), rows)


if __name__ == "__main__":
    main()
