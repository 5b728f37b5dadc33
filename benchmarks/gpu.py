#!/usr/bin/env python3
"""Tokens/s on GPUs: ddprun's against PyTorch's, eager and compiled, from the same start weights.

GPT-2 124M (batch 12 x 1024) and BERT-base (batch 32, length 128 and 512), bfloat16 by autocast,
scaled-dot-product attention, fused AdamW; torch.compile in its default mode. The sides take turns.
Steps 21 to 120 count: compiling does not. MFU is (6 N + 12 L W T) times the tokens/s over the
device's peak for dense bfloat16 (N parameters, L layers, W width, T sequence: nanoGPT's formula).
BERT's texts are long enough to be cut at the length. PyTorch's loader has 4 processes.
"""

import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

import bert_case
import harness
import training

TOLD = {"device": "cuda", "told_every": 20, "steps": 120, "dropout": 0.0, "loader_workers": 4}
BASE_SIZE = {**TOLD, "width": 768, "layers": 12, "heads": 12}
BERT = {**BASE_SIZE, "model": "bert", "vocab_size": bert_case.VOCABULARY, "batch": 32,
        "parameters": 108e6}
CASES = {
    "gpt2 124M": {**BASE_SIZE, "model": "gpt", "vocab_size": 50257, "sequence": 1024, "batch": 12,
                  "parameters": 124e6},
    "bert-base, 128": {**BERT, "sequence": 128},
    "bert-base, 512": {**BERT, "sequence": 512},
}
OWN = {"ddprun": {}, "ddprun, replayed": {"cuda_graph": True},
       "ddprun, LibTorch's kernels": {"fused_kernels": False}}  # keys of training
PEERS = {"PyTorch": "bf16", "torch.compile": "compile_bf16"}
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}  # dense bfloat16; NVIDIA's data sheets


def gpus(options):
    """What ddprun doctor knows of each: name, memory_used."""
    text = subprocess.run([options.bin / "ddprun", "doctor", "--json"], text=True,
                          stdout=subprocess.PIPE, check=False).stdout
    return [check["facts"] for check in json.loads(text)["checks"]
            if check["name"].startswith("GPU ")]


def timed(options, argv, step_of):
    """The lines of a run; seconds to step 20; most memory in use on a GPU after step 40."""
    begin, first, memory, lines = time.perf_counter(), None, None, []
    process = harness.start([str(word) for word in argv], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        lines.append(line)
        step = step_of(line)
        if step == TOLD["told_every"]:
            first = time.perf_counter() - begin
        if step == 2 * TOLD["told_every"]:
            memory = max(gpu["memory_used"] for gpu in gpus(options))
    if process.wait() != 0:
        raise SystemExit(f"{argv} failed")
    return lines, first, memory


def lengthen(path, words):
    """Makes the first text of each pair `words` tokens long: batches are full, and no side reads
    much more than it trains on."""
    rows = [json.loads(line) for line in pathlib.Path(path).open()]
    for row in rows:
        text = row["sentence1"].split()
        row["sentence1"] = " ".join((text * (words // len(text) + 1))[:words])
    pathlib.Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def step_of_line(line):
    found = re.match(r"step +(\d+)/", line)
    return found and int(found[1])


def own_run(options, case, weights, folder, keys):
    path = folder / "config.json"
    config = training.config(case, "bf16", False, weights, folder)
    config["training"] |= keys
    path.write_text(json.dumps(config))
    lines, first, memory = timed(options, [*harness.ddprun(options, options.ranks), path],
                                 step_of_line)
    run = next(line.split(": ", 1)[1].strip() for line in lines if line.startswith("run folder: "))
    rows = [json.loads(line) for line in (pathlib.Path(run) / "metrics.jsonl").open()]
    return [row for row in rows if row.get("split") == "train"], first, memory


def row_of(line):
    return json.loads(line) if line.startswith("{") else {}


def peer_run(options, case, side):
    argv = [*harness.torchrun(options.ranks), training.PEER, "--side", side, "--case",
            json.dumps(case)]
    lines, first, memory = timed(options, argv, lambda line: row_of(line).get("step"))
    return [row for row in map(row_of, lines) if row], first, memory


def measure(options, name, case, peak):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        case = {**case, "learning_rate": training.LEARNING_RATE,
                "files": training.write_data(case, folder)}
        if case["model"] == "bert":
            lengthen(case["files"][0], case["sequence"])
        weights = training.start_weights(case, folder)
        case |= {"weights": str(weights), "vocabulary": str(folder / "weights/vocab.txt"),
                 "labels": bert_case.LABELS}
        sides = {side: (lambda keys=keys: own_run(options, case, weights, folder, keys))
                 for side, keys in OWN.items()}
        sides |= {side: (lambda word=word: peer_run(options, case, word))
                  for side, word in PEERS.items()}
        runs = {side: [] for side in sides if not options.only or side in options.only}
        for _ in range(options.rounds):
            for side, rounds in runs.items():
                rounds.append(sides[side]())
    tokens = case["batch"] * case["sequence"] * options.ranks
    flops = 6 * case["parameters"] + 12 * case["layers"] * case["width"] * case["sequence"]
    for side, rounds in runs.items():
        seconds = statistics.median(row["step_seconds"] for rows, _, _ in rounds
                                    for row in rows if row["step"] > TOLD["told_every"])
        speed = tokens / seconds
        yield {"case": name, "side": side, "tokens_per_second": speed,
               "mfu": speed / options.ranks * flops / peak if peak else None,
               "seconds_to_20_steps": harness.median([first for _, first, _ in rounds]),
               "memory_bytes": rounds[0][2], "loss": rounds[0][0][-1]["loss"]}


def main():
    parser = harness.parser(__doc__, rounds=2)
    parser.add_argument("--case", action="append", choices=CASES, help="only these cases")
    parser.add_argument("--ranks", type=int, default=1)
    options = parser.parse_args()
    found = gpus(options)
    if not found:
        raise SystemExit("SKIPPED: this machine has no GPU (ddprun doctor --gpu)")
    peak = next((flops for name, flops in PEAK.items() if name in found[0]["name"]), None)
    print(f"{found[0]['name']}; {training.versions(options)}; {options.ranks} ranks")
    results = [row for name in options.case or CASES
               for row in measure(options, name, CASES[name], peak)]
    base = {row["case"]: row["tokens_per_second"] for row in results if row["side"] == "PyTorch"}
    harness.table(("training", "tokens/s", "of PyTorch", "MFU", "GPU memory", "to step 20", "loss"),
                  [(f"{row['case']}: {row['side']}", f"{row['tokens_per_second']:.0f}",
                    f"{row['tokens_per_second'] / base[row['case']]:.2f}x"
                    if row["case"] in base else "-",
                    f"{row['mfu']:.1%}" if row["mfu"] else "-",
                    f"{row['memory_bytes'] / 2**30:.1f} GiB", f"{row['seconds_to_20_steps']:.1f} s",
                    f"{row['loss']:.4f}") for row in results])
    harness.write_json(options, "gpu", results)


if __name__ == "__main__":
    main()
