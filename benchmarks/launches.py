#!/usr/bin/env python3
"""Counts the kernels of one training step by name, ddprun's and PyTorch's, without a GPU: both on
the stand-in for CUDA of tests/trainer/standin. Products of cuBLAS and collectives of NCCL count as
one kernel each. PyTorch's side (eager, torch.optim.AdamW with and without fused=True) needs the
packages of scripts/setup.sh --peers.

  benchmarks/launches.py [--bin FOLDER] [--model gpt|bert] [--layers N] [--hidden N]
                         [--precision bf16|fp32] [--batch N] [--tensor-ranks N] [--top N]
                         [--no-peer]
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import tempfile

import bert_case

VOCABULARY = {"gpt": 50257, "bert": bert_case.VOCABULARY}
LENGTH = 64
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--model", choices=["gpt", "bert"], default="gpt")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--tensor-ranks", type=int, default=1,
                        help="more than one: ranks that split each layer, ddprun's side only")
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--no-peer", action="store_true", help="ddprun's side only")
    return parser.parse_args()


def model_and_data(args, folder):
    model = {"type": args.model, "hidden_size": args.hidden, "num_hidden_layers": args.layers,
             "num_attention_heads": args.hidden // 64, "vocab_size": VOCABULARY[args.model],
             "dropout": 0.0}
    if args.model == "gpt":
        return model, {"train_files": [os.path.join(ROOT, "tests/golden/text.txt")],
                       "max_seq_length": LENGTH}
    tokenizer = pathlib.Path(folder, "tokenizer")
    tokenizer.mkdir(exist_ok=True)
    bert_case.write_vocabulary(tokenizer)
    (tokenizer / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    pairs = tokenizer / "pairs.jsonl"
    bert_case.write_pairs(pairs)
    return ({**model, "num_labels": len(bert_case.LABELS)},
            {"format": "text_classification", "train_files": [str(pairs)],
             "labels": bert_case.LABELS, "tokenizer": str(tokenizer), "max_seq_length": LENGTH})


def own_command(args, folder, steps):
    model, data = model_and_data(args, folder)
    config = {
        "run": {"max_steps": steps, "device": "cuda", "output_dir": f"{folder}/{steps}"},
        "model": model,
        "data": data,
        "training": {"per_device_train_batch_size": args.batch, "precision": args.precision},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 100},
    }
    if args.tensor_ranks > 1:
        config["strategy"] = {"type": "tensor_parallel"}
    path = pathlib.Path(folder, f"{steps}.json")
    path.write_text(json.dumps(config))
    return [f"{args.bin}/ddprun", f"--nproc_per_node={args.tensor_ranks}", str(path)]


def peer_command(args, steps, *fused):
    sizes = {"model": args.model, "precision": args.precision, "steps": steps,
             "layers": args.layers, "hidden": args.hidden, "batch": args.batch, "length": LENGTH,
             "vocabulary": VOCABULARY[args.model],
             "library": os.path.join(libraries_of(args), "libstandin_cuda.so")}
    return [os.path.join(ROOT, ".deps/venv/bin/python"),
            os.path.join(ROOT, "benchmarks/peers/launches.py"), *fused,
            *(f"--{name}={value}" for name, value in sizes.items())]


def libraries_of(args):
    return os.path.join(os.path.dirname(args.bin.rstrip("/")), "tests/trainer/standin/libraries")


def launches(args, command, folder):
    """The names of all launches of a command."""
    libraries, log = libraries_of(args), pathlib.Path(folder, "launches")
    # Python loads LibTorch, which would load its own libraries.
    first = [f"{libraries}/lib{name}" for name in (
        "cudart.so.13", "cuda.so.1", "cublasLt.so.13", "cublas.so.13", "cudnn.so.9", "nccl.so.2")]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL,
                   env={**os.environ, "STANDIN_LAUNCHES": str(log),
                        "FAKE_GPUS": str(args.tensor_ranks), "LD_LIBRARY_PATH": libraries,
                        "LD_PRELOAD": ":".join(first[:1] if "ddprun" in command[0] else first),
                        "DDPRUN_CUDA_MODULE": f"{libraries}/libstandin_cuda.so"})
    with log.open(encoding="utf-8") as file:
        names = subprocess.run(["c++filt"], stdin=file, capture_output=True, text=True, check=True)
    log.unlink()
    return collections.Counter(names.stdout.splitlines())


def step_of(args, command_of):
    """The kernels of one step by name: those of four steps without those of two, halved."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (launches(args, command_of(folder, steps), folder) for steps in (2, 4))
    step = collections.Counter()
    for name, count in many.items():
        step[short(name)] += (count - few[name]) / 2
    return step


def short(name):
    name = re.sub(r"at::native::|\(anonymous namespace\)::|^void ", "", name)
    functors = re.findall(r"(\w*(?:[Ff]unctor|kernel_cuda|Op|ops?)\w*)", name.split("(")[0])
    return " ".join(dict.fromkeys([re.split(r"[<(]", name)[0], *functors]))[:100]


def main():
    args = options()
    sides = {"ddprun": lambda folder, steps: own_command(args, folder, steps)}
    if not args.no_peer and args.tensor_ranks == 1:
        sides["PyTorch"] = lambda _, steps: peer_command(args, steps)
        sides["fused"] = lambda _, steps: peer_command(args, steps, "--fused")
    found = {side: step_of(args, command_of) for side, command_of in sides.items()}
    print(f"kernels of a step of {args.model}, {args.layers} layers, {args.precision}:")
    print(*(f"{side:>8}" for side in found))
    print(*(f"{sum(step.values()):8.0f}" for step in found.values()), " all")
    names = sorted(set().union(*found.values()), reverse=True,
                   key=lambda name: max(step[name] for step in found.values()))
    for name in names[:args.top]:
        print(*(f"{step[name]:8.1f}" for step in found.values()), f" {name}")


if __name__ == "__main__":
    main()
