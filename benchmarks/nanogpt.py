#!/usr/bin/env python3
"""nanoGPT's example for a CPU (its README's command), beside the same run as a config of ddprun.

Both start with the weights of nanoGPT's seed and read the same windows of the text in the same
order: nanoGPT's train.py runs unchanged, and its draws of windows are answered with the order of
torch's DistributedSampler, which ddprun has. nanoGPT runs with --bias=True, because GPT-2 as
transformers knows it has biases. Shown are the losses of both and the time of a step.

    nanogpt.py --nanogpt FOLDER --text input.txt    # a clone of nanoGPT; Shakespeare of char-rnn
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

import harness

PEER = harness.ROOT / "benchmarks/peers/nanogpt.py"
BATCH, BLOCK, EVERY, EVALUATED, WARM_UP = 12, 64, 250, 20, 100
MODEL = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": BLOCK, "bias": True,
         "vocab_size": 65}
RATE, LAST_RATE = 1e-3, 1e-4
SEED = 1337


def order(torch, windows, steps):
    """For each step the first tokens of its batch."""
    sampler = torch.utils.data.DistributedSampler(range(windows), 1, 0, shuffle=True, seed=SEED)
    batches, epoch = [], 0
    while len(batches) < steps:
        sampler.set_epoch(epoch)
        places = [BLOCK * index for index in sampler]
        batches += [places[i:i + BATCH] for i in range(0, windows - BATCH + 1, BATCH)]
        epoch += 1
    return batches[:steps]


def prepare(options, folder):
    """A copy of nanoGPT with its data, the order of the windows, and the weights at the start."""
    for name in ("train.py", "model.py", "configurator.py"):
        shutil.copy(options.nanogpt / name, folder)
    shutil.copytree(options.nanogpt / "config", folder / "config")
    data = folder / "data/shakespeare_char"
    shutil.copytree(options.nanogpt / "data/shakespeare_char", data, dirs_exist_ok=True)
    shutil.copy(options.text, data / "input.txt")
    harness.output([options.python, data / "prepare.py"])

    import torch
    tokens = (data / "train.bin").stat().st_size // 2
    batches = order(torch, (tokens - 1) // BLOCK, options.steps + 3)
    (folder / "order.json").write_text(json.dumps({
        "train": batches, "eval": list(range(0, EVALUATED * BATCH, BATCH))}))
    # As in nanoGPT's README, with biases.
    sizes = {name: size for name, size in MODEL.items() if name != "vocab_size"}
    arguments = {"device": "cpu", "compile": False, "eval_iters": EVALUATED, "log_interval": 1,
                 **sizes, "batch_size": BATCH, "max_iters": options.steps,
                 "lr_decay_iters": options.steps, "dropout": 0.0}
    (folder / "settings.json").write_text(json.dumps({
        "model": MODEL, "threads": len(os.sched_getaffinity(0)),
        "arguments": ["config/train_shakespeare_char.py",
                      *(f"--{name}={value}" for name, value in arguments.items())]}))
    peer(options, folder, "weights", folder / "weights")


def peer(options, folder, *arguments):
    return harness.output(["env", "-C", folder, options.python, PEER, *arguments])


def config(folder, options, ranks):
    data = folder / "data/shakespeare_char"
    return {
        "run": {"output_dir": str(folder / f"run-{ranks}"), "max_steps": options.steps},
        "model": {"type": "gpt", "name_or_path": str(folder / "weights"), "dropout": 0.0},
        "data": {"format": "tokens", "train_files": str(data / "train.bin"),
                 "validation_files": str(data / "val.bin"), "max_seq_length": BLOCK,
                 "data_seed": SEED, "dataloader_drop_last": True,
                 "max_eval_samples": EVALUATED * BATCH},
        "training": {"per_device_train_batch_size": BATCH // ranks, "max_grad_norm": 1.0},
        "optimizer": {"learning_rate": RATE, "betas": [0.9, 0.99], "weight_decay": 0.1},
        "scheduler": {"warmup_steps": WARM_UP, "warmup_from_zero": False,
                      "min_lr_ratio": LAST_RATE / RATE},
        "evaluation": {"eval_steps": EVERY, "eval_on_start": True},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 1, "progress_bar": "off"},
    }


def original(options, folder):
    """{step: loss}, {step: loss of the validation text}, ms of each step."""
    text = peer(options, folder, "train", "order.json")
    steps = re.findall(r"^iter (\d+): loss (\S+), time (\S+)ms", text, re.MULTILINE)
    checked = re.findall(r"^step (\d+): train loss \S+, val loss (\S+)", text, re.MULTILINE)
    return ({int(step): float(loss) for step, loss, _ in steps},
            {int(step): float(loss) for step, loss in checked},
            [float(time) for _, _, time in steps])


def own(options, folder, ranks):
    (folder / "config.json").write_text(json.dumps(config(folder, options, ranks)))
    harness.output([*harness.ddprun(options, ranks), folder / "config.json"])
    lines = [json.loads(line) for line in
             (folder / f"run-{ranks}/metrics.jsonl").read_text().splitlines()]
    train = [line for line in lines if line.get("split") == "train"]
    return ({line["step"] - 1: line["loss"] for line in train},  # nanoGPT counts from 0
            {line["step"]: line["loss"] for line in lines if line.get("split") == "validation"},
            [1e3 * line["step_seconds"] for line in train])


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=1)
    parser.add_argument("--nanogpt", required=True, type=pathlib.Path, help="a clone of nanoGPT")
    parser.add_argument("--text", required=True, type=pathlib.Path, help="char-rnn's input.txt")
    parser.add_argument("--steps", type=int, default=2000, help="default: %(default)s")
    options = parser.parse_args()
    options.python = harness.VENV / "python3"
    if sys.prefix != str(harness.VENV.parent):
        sys.exit(f"Run it by {options.python}, which has torch and transformers.")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        prepare(options, folder)
        sides = {"nanoGPT": original(options, folder)}
        for ranks in (1, 2):
            sides[f"ddprun, {ranks} rank{'s' if ranks > 1 else ''}"] = own(options, folder, ranks)
    shown = [step for step in sides["nanoGPT"][1] if step <= options.steps]
    harness.table(["loss of the validation text", *map(str, shown)],
                  [[name, *(f"{checked[step]:.4f}" for step in shown)]
                   for name, (_, checked, _) in sides.items()])
    print()
    reference = sides["nanoGPT"][0]
    rows = []
    for name, (losses, _, times) in sides.items():
        differences = [abs(losses[step] - reference[step]) for step in range(options.steps)]
        last = range(options.steps - 100, options.steps)
        rows.append([name, f"{max(differences[:100]):.4f}", f"{max(differences):.4f}",
                     f"{statistics.mean(losses[step] for step in last):.4f}",
                     f"{statistics.median(times):.1f} ms"])
    harness.table(["side", "largest difference, first 100 steps", "all steps",
                   "mean loss, last 100 steps", "step"], rows)
    harness.write_json(options, "nanogpt", {
        name: {"losses": losses, "validation": checked, "ms": times}
        for name, (losses, checked, times) in sides.items()})


if __name__ == "__main__":
    main()
