#!/usr/bin/env python3
"""Counts the kernels of one training step by name, without a GPU: on the stand-in for CUDA of
tests/trainer/standin. Products of cuBLAS and collectives of NCCL count as one kernel each.

  benchmarks/launches.py [--bin FOLDER] [--layers N] [--hidden N] [--precision bf16|fp32] [--top N]
"""

import argparse
import collections
import json
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--top", type=int, default=30)
    return parser.parse_args()


def launches(args, folder, steps):
    """The names of all launches of a run of so many steps."""
    libraries = os.path.join(os.path.dirname(args.bin.rstrip("/")),
                             "tests/trainer/standin/libraries")
    config = {
        "run": {"max_steps": steps, "device": "cuda", "output_dir": f"{folder}/{steps}"},
        "model": {"type": "gpt", "hidden_size": args.hidden, "num_hidden_layers": args.layers,
                  "num_attention_heads": args.hidden // 64, "vocab_size": 50257},
        "data": {"train_files": [os.path.join(ROOT, "tests/golden/text.txt")],
                 "max_seq_length": 64},
        "training": {"per_device_train_batch_size": 1, "precision": args.precision},
        "checkpoint": {"save_steps": 0},
        "report": {"logging_steps": 100},
    }
    with open(f"{folder}/{steps}.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    log = f"{folder}/{steps}.launches"
    subprocess.run([f"{args.bin}/ddprun", "--nproc_per_node=1", file.name], check=True, cwd=folder,
                   stdout=subprocess.DEVNULL,
                   env={**os.environ, "STANDIN_LAUNCHES": log, "FAKE_GPUS": "1",
                        "LD_LIBRARY_PATH": libraries,
                        "LD_PRELOAD": f"{libraries}/libcudart.so.13",
                        "DDPRUN_CUDA_MODULE": f"{libraries}/libstandin_cuda.so"})
    with open(log, encoding="utf-8") as file:
        names = subprocess.run(["c++filt"], stdin=file, capture_output=True, text=True, check=True)
    return collections.Counter(names.stdout.splitlines())


def short(name):
    name = re.sub(r"at::native::|\(anonymous namespace\)::|^void ", "", name)
    functors = re.findall(r"(\w*(?:[Ff]unctor|kernel_cuda|Op|ops?)\w*)", name.split("(")[0])
    return " ".join(dict.fromkeys([re.split(r"[<(]", name)[0], *functors]))[:100]


def main():
    args = options()
    with tempfile.TemporaryDirectory() as folder:
        few, many = launches(args, folder, 2), launches(args, folder, 4)
    step = collections.Counter()
    for name, count in many.items():
        step[short(name)] += (count - few[name]) / 2
    print(f"{sum(step.values()):.0f} kernels a step, {args.layers} layers, {args.precision}")
    for name, count in step.most_common(args.top):
        if count > 0:
            print(f"{count:7.1f}  {name}")


if __name__ == "__main__":
    main()
