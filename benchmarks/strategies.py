#!/usr/bin/env python3
"""Steps of strategies that share out a model, beside PyTorch's over Gloo: the same GPT-2 folder,
samples and micro-batches, as many processes with one thread each. The sides run in turns; times are
medians over rounds of each run's median step.
"""

import json
import pathlib
import statistics
import tempfile

import harness

WARM_UP = 3
LENGTH, BATCH, MICRO_BATCHES, VOCABULARY = 128, 16, 8, 2048
MODEL = """
import sys, torch, transformers
torch.manual_seed(3)
transformers.GPT2LMHeadModel(transformers.GPT2Config(
    n_embd=256, n_layer=8, n_head=8, vocab_size=int(sys.argv[2]), n_positions=int(sys.argv[3]),
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    tie_word_embeddings=False)).save_pretrained(sys.argv[1])
"""


def make_inputs(folder, steps):
    """The model folder and the tokens that all sides train on."""
    harness.output([str(harness.VENV / "python"), "-c", MODEL, str(folder / "model"),
                    str(VOCABULARY), str(LENGTH)])
    count = (steps + 1) * BATCH * LENGTH + 1
    tokens = bytearray()
    for i in range(count):
        tokens += (i * i * 7919 % VOCABULARY).to_bytes(2, "little")
    (folder / "tokens.bin").write_bytes(tokens)


def ours(options, folder, ranks, strategy):
    config = {
        "run": {"name": "run", "output_dir": str(folder / "run"), "max_steps": options.steps},
        "model": {"type": "gpt", "name_or_path": str(folder / "model")},
        "data": {"format": "tokens", "train_files": [str(folder / "tokens.bin")],
                 "max_seq_length": LENGTH},
        "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0},
        "strategy": strategy,
        "optimizer": {"type": "adam", "learning_rate": 1e-4},
        "scheduler": {"lr_scheduler_type": "constant"},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 1, "progress_bar": "off"},
    }
    path = folder / "job.json"
    path.write_text(json.dumps(config))
    harness.output(["env", "OMP_NUM_THREADS=1",
                    *(str(word) for word in harness.ddprun(options, ranks)), str(path)])
    (metrics,) = folder.glob("run*/metrics.jsonl")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line["step_seconds"] for line in lines if line.get("split") == "train"]


def pipeline(options, folder, ranks, schedule):
    return ours(options, folder, ranks, {
        "type": "pipeline", "pipeline_schedule": schedule,
        "pipeline_micro_batches": MICRO_BATCHES, "layers_per_stage": [8 // ranks] * ranks})


def torch_pipelining(options, folder, ranks, schedule):
    job = {"folder": str(folder / "model"), "file": str(folder / "tokens.bin"), "length": LENGTH,
           "stages": ranks, "schedule": schedule, "batch": BATCH, "micro_batches": MICRO_BATCHES,
           "steps": options.steps, "learning_rate": 1e-4, "seed": 42, "threads": 1,
           "meeting": str(folder / "meeting"), "result": str(folder / "result")}
    path = folder / "torch_job.json"
    path.write_text(json.dumps(job))
    (folder / "meeting").unlink(missing_ok=True)
    harness.output(["env", "GLOO_SOCKET_IFNAME=lo", str(harness.VENV / "python"),
                    str(harness.ROOT / "benchmarks/peers/torch_pipeline.py"), str(path)])
    return json.loads((folder / "result").read_text())["seconds"]


# {row: {side: steps of one run}}; called with the options, a folder with inputs and the ranks.
ROWS = {
    f"pipeline, {schedule}": {
        "ddprun": lambda *where, schedule=schedule: pipeline(*where, schedule),
        "torch": lambda *where, schedule=schedule: torch_pipelining(*where, schedule)}
    for schedule in ("gpipe", "1f1b")
}


def measure(options, ranks, side):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_inputs(folder, options.steps)
        return statistics.median(side(options, folder, ranks)[WARM_UP:])


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=15, help="default: %(default)s")
    options = parser.parse_args()
    found = {}
    for _ in range(options.rounds):
        for row, sides in ROWS.items():
            for ranks in options.ranks:
                for name, side in sides.items():
                    if options.only and name not in options.only:
                        continue
                    found.setdefault((row, ranks, name), []).append(measure(options, ranks, side))
    medians = {key: harness.median(values) for key, values in found.items()}
    rows = []
    for row in ROWS:
        for ranks in options.ranks:
            here, there = (medians.get((row, ranks, name)) for name in ("ddprun", "torch"))
            rows.append([f"{row}, {ranks} ranks",
                         *(f"{seconds * 1e3:.1f} ms" if seconds else "-"
                           for seconds in (here, there)),
                         f"{there / here:.2f}x" if here and there else "-"])
    harness.table(["step of", "ddprun", "torch", "torch / ddprun"], rows)
    harness.write_json(options, "strategies",
                       [{"row": row, "ranks": ranks, "side": side, "step": seconds}
                        for (row, ranks, side), seconds in medians.items()])


if __name__ == "__main__":
    main()
