#!/usr/bin/env python3
"""Samples/s of whole training runs, ddprun's against PyTorch's, from the same start weights.

Each case is trained by ddprun in float32 and bfloat16 and by PyTorch (transformers, DDP over Gloo)
with its defaults, with its fastest float32, with autocast in bfloat16, and both of these compiled
by torch.compile; the sides take turns.
Shown are medians of a step's time, private memory of a worker, and the loss of the last step: equal
where nothing is random, which is the check that all sides train the same thing.

  --quick: BERT, GPT and the small multi-layer perceptron, one round
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

import bert_case
import harness

TEXT = ["base/*.cc", "base/*.h", "benchmarks/*.py", "scripts/*.py"]
PEER = harness.ROOT / "benchmarks/peers/training.py"
WARM_UP = 3  # steps that are not counted: first use of memory, buckets laid out anew
LEARNING_RATE = 3e-4
GPT = {"model": "gpt", "vocab_size": 256, "width": 256, "layers": 4, "heads": 4, "sequence": 128,
       "batch": 8, "dropout": 0.0, "steps": 13}
BERT = {"model": "bert", "vocab_size": bert_case.VOCABULARY, "width": 256, "layers": 4, "heads": 4,
        "sequence": 128, "batch": 16, "dropout": 0.0, "steps": 23}
CASES = {
    "bert": BERT,
    "bert, dropout 0.1": {**BERT, "dropout": 0.1},
    "gpt": GPT,
    "gpt, dropout 0.1": {**GPT, "dropout": 0.1},
    "gpt, vocabulary 50257": {**GPT, "vocab_size": 50257, "steps": 9},
    "mlp 512-2048-2048-512": {"model": "mlp", "sizes": [512, 2048, 2048, 512], "batch": 64,
                              "samples": 4096, "steps": 23},
    "mlp 10-10-5": {"model": "mlp", "sizes": [10, 10, 5], "batch": 32, "samples": 65536,
                    "steps": 1003},
}
QUICK = ["bert", "gpt", "mlp 10-10-5"]
BASE = "PyTorch, defaults"
PEER_SIDES = {BASE: "default", "PyTorch, best fp32": "best", "PyTorch, bf16": "bf16",
              "torch.compile, fp32": "compile", "torch.compile, bf16": "compile_bf16"}
OWN_SIDES = {"ddprun, fp32": ("fp32", False), "ddprun, bf16": ("bf16", False)}
# Batches of texts of similar length, so other losses; only where texts are padded.
GROUPED_SIDES = {"ddprun, fp32, length_grouped": ("fp32", True)}


def write_data(case, folder):
    """One file for all runs, whatever happens to the sources meanwhile."""
    path = folder / "text"
    if case["model"] == "bert":
        bert_case.write_pairs(path)
    else:
        path.write_bytes(b"".join(source.read_bytes() for glob in TEXT
                                  for source in sorted(harness.ROOT.glob(glob))))
    return [str(path)]


def start_weights(case, folder):
    """The folder with transformers' random weights; None for a model that the seed determines."""
    if case["model"] == "mlp":
        return None
    weights = folder / "weights"
    weights.mkdir()
    if case["model"] == "bert":
        bert_case.write_vocabulary(weights)
    harness.output([str(word) for word in (harness.VENV / "python", PEER, "--make", weights,
                                           "--case", json.dumps(case))])
    return weights


def model_and_data(case, weights):
    """The two sections of the config that tell the cases apart."""
    if case["model"] == "mlp":
        sizes = case["sizes"]
        return ({"type": "mlp", "layer_sizes": sizes},
                {"format": "random", "num_samples": case["samples"],
                 "input_size": sizes[0], "target_size": sizes[-1]})
    data = {"train_files": case["files"], "max_seq_length": case["sequence"]}
    if case["model"] == "bert":
        return ({"type": "bert", "name_or_path": str(weights), "num_labels": 3},
                {**data, "format": "text_classification", "labels": bert_case.LABELS})
    return ({"type": "gpt", "name_or_path": str(weights), "vocab_size": case["vocab_size"],
             "hidden_size": case["width"], "num_hidden_layers": case["layers"],
             "num_attention_heads": case["heads"], "dropout": case["dropout"]}, data)


def config(case, precision, grouped, weights, folder):
    model, data = model_and_data(case, weights)
    grouped_key = {"length_grouped": True} if grouped else {}
    return {
        "run": {"output_dir": str(folder / "run"), "max_steps": case["steps"], "seed": 42,
                "device": case.get("device", "cpu")},
        "model": model,
        "data": {**data, **grouped_key, "data_seed": 42, "dataloader_drop_last": True},
        "training": {"per_device_train_batch_size": case["batch"], "precision": precision},
        "optimizer": {"learning_rate": LEARNING_RATE, "weight_decay": 0.0},
        "scheduler": {"lr_scheduler_type": "constant"},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": case.get("told_every", 1), "progress_bar": "off"},
    }


def watched(argv, ranks, steps, is_step):
    """stdout of a run, and the private MiB of each worker in the middle of it."""
    process = harness.start([str(word) for word in argv], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.PIPE)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    watchdog = threading.Timer(600, process.kill)
    watchdog.start()
    lines, memory, seen = [], [], 0
    for line in process.stdout:
        lines.append(line)
        seen += is_step(line)
        if is_step(line) and seen == steps // 2:
            memory = [private_mib(pid) for pid in harness.children(process.pid)[-ranks:]]
    watchdog.cancel()
    reader.join()
    if process.wait() != 0:
        sys.exit(f"{argv} failed:\n{''.join(errors)[-3000:]}")
    return lines, memory


def private_mib(pid):
    return sum(harness.proc_kib(pid, "smaps_rollup", field)
               for field in ("Private_Clean", "Private_Dirty")) / 1024


def own_run(options, case, precision, grouped, weights, folder):
    path = folder / "config.json"
    path.write_text(json.dumps(config(case, precision, grouped, weights, folder)))
    argv = [*harness.ddprun(options, options.ranks), path]
    lines, memory = watched(argv, options.ranks, case["steps"],
                            lambda line: line.startswith("step "))
    run = next(line.split(": ", 1)[1].strip() for line in lines if line.startswith("run folder: "))
    rows = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").open()]
    return [row for row in rows if row.get("split") == "train"], memory


def peer_run(options, case, side):
    argv = [*harness.torchrun(options.ranks), PEER, "--side", side, "--case", json.dumps(case)]
    lines, memory = watched(argv, options.ranks, case["steps"], lambda line: line.startswith("{"))
    return [json.loads(line) for line in lines if line.startswith("{")], memory


def measure_case(options, name, case):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        case = {**case, "learning_rate": LEARNING_RATE, "files": write_data(case, folder)}
        weights = start_weights(case, folder)
        case |= {"weights": str(weights), "vocabulary": str(folder / "weights/vocab.txt"),
                 "labels": bert_case.LABELS}
        own = {**OWN_SIDES, **(GROUPED_SIDES if case["model"] == "bert" else {})}
        sides = {side: (lambda how=how: own_run(options, case, *how, weights, folder))
                 for side, how in own.items()}
        sides |= {side: (lambda w=word: peer_run(options, case, w))
                  for side, word in PEER_SIDES.items()}
        found = {side: {"seconds": [], "memory": [], "loss": None} for side in sides}
        for _ in range(options.rounds):
            for side, run in sides.items():
                if options.only and side not in options.only:
                    continue
                steps, memory = run()
                found[side]["seconds"] += [row["step_seconds"] for row in steps[WARM_UP:]]
                found[side]["memory"] += memory
                found[side]["loss"] = steps[-1]["loss"]
    return [{"case": name, "side": side,
             "samples_per_second": case["batch"] * options.ranks / statistics.median(
                 values["seconds"]),
             "step_seconds": statistics.median(values["seconds"]), "loss": values["loss"],
             "private_mib": harness.median(values["memory"])}
            for side, values in found.items() if values["seconds"]]


def show(results):
    base = {row["case"]: row["samples_per_second"] for row in results if row["side"] == BASE}
    rows = []
    for row in results:
        of_base = base.get(row["case"])
        rows.append((f"{row['case']}: {row['side']}", f"{row['samples_per_second']:.4g}",
                     f"{row['samples_per_second'] / of_base:.2f}x" if of_base else "-",
                     f"{row['loss']:.5f}",
                     f"{row['private_mib']:.0f} MiB" if row["private_mib"] else "-"))
    harness.table(("training", "samples/s", "of PyTorch", "last loss", "private memory"), rows)


def versions(options):
    own = harness.output([str(options.bin / "ddp-trainer"), "--version"]).replace("\n", ", ")
    peer = harness.output([str(harness.VENV / "python"), "-c", "import torch, transformers as t; "
                           "print('torch', torch.__version__, 'transformers', t.__version__)"])
    return own.strip(", ") + "; " + peer.strip()


def main():
    parser = harness.parser(__doc__, rounds=2)
    parser.add_argument("--quick", action="store_true", help="three cases, one round")
    parser.add_argument("--case", action="append", choices=CASES, help="only these cases")
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    names = options.case or (QUICK if options.quick else list(CASES))
    print(f"{versions(options)}; {options.ranks} ranks, 1 thread each; {options.rounds} rounds")
    results = []
    for name in names:
        results += measure_case(options, name, CASES[name])
    show(results)
    harness.write_json(options, "training", results)


if __name__ == "__main__":
    main()
