#!/usr/bin/env python3
"""Steps of strategies that share out the work, beside PyTorch's own over Gloo: the same GPT-2
folder, samples and optimizer, as many processes with one thread each. The sides run in turns; times
are medians over rounds of each run's median step. A time counts only where both sides have the same
losses, step by step.

Both sides multiply matrices with LibTorch's default engine, so that what differs is the strategy;
--engine auto lets ddprun take the fastest one, as it does where nothing is said.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import harness
import published

WARM_UP = 3
LENGTH, BATCH, MICRO_BATCHES, VOCABULARY, LAYERS = 128, 8, 4, 2048, 8
LEARNING_RATE, SEED = 1e-4, 42
LARGEST_DIFFERENCE = 1e-4  # of the losses of one step
PEERS = harness.ROOT / "benchmarks/peers"
MODEL = """
import sys, torch, transformers
torch.manual_seed(3)
transformers.GPT2LMHeadModel(transformers.GPT2Config(
    n_embd=256, n_layer=int(sys.argv[4]), n_head=8, vocab_size=int(sys.argv[2]),
    n_positions=int(sys.argv[3]), resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    tie_word_embeddings=False)).save_pretrained(sys.argv[1])
"""


def make_inputs(folder, steps):
    """The model folder and the tokens that all sides train on, less than an epoch."""
    harness.output([str(harness.VENV / "python"), "-c", MODEL, str(folder / "model"),
                    str(VOCABULARY), str(LENGTH), str(LAYERS)])
    count = (steps + 1) * BATCH * LENGTH + 1
    tokens = bytearray()
    for i in range(count):
        tokens += (i * i * 7919 % VOCABULARY).to_bytes(2, "little")
    (folder / "tokens.bin").write_bytes(tokens)


def ours(options, inputs, ranks, strategy, replicas):
    """(losses, seconds) of the steps of one run."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = {
            "run": {"name": "run", "output_dir": str(folder / "run"), "max_steps": options.steps},
            "model": {"type": "gpt", "name_or_path": str(inputs / "model")},
            "data": {"format": "tokens", "train_files": [str(inputs / "tokens.bin")],
                     "max_seq_length": LENGTH, "data_seed": SEED},
            "training": {"per_device_train_batch_size": BATCH // replicas, "max_grad_norm": 0,
                         "matmul_engine": options.engine},
            "strategy": strategy,
            "optimizer": {"type": "adam", "learning_rate": LEARNING_RATE, "betas": [0.9, 0.999]},
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
    steps = [line for line in lines if line.get("split") == "train"]
    return [line["loss"] for line in steps], [line["step_seconds"] for line in steps]


def theirs(options, inputs, script, job):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = {"folder": str(inputs / "model"), "file": str(inputs / "tokens.bin"),
               "length": LENGTH, "batch": BATCH, "steps": options.steps,
               "learning_rate": LEARNING_RATE, "seed": SEED, "threads": 1,
               "meeting": str(folder / "meeting"), "result": str(folder / "result"), **job}
        path = folder / "job.json"
        path.write_text(json.dumps(job))
        harness.output(["env", "GLOO_SOCKET_IFNAME=lo", str(harness.VENV / "python"),
                        str(PEERS / script), str(path)])
        result = json.loads((folder / "result").read_text())
    return result["losses"], result["seconds"]


# A row's two sides: functions of the options, the inputs and the ranks.
def shared(strategy):
    together = strategy == "tensor_parallel"  # all ranks have the same samples
    return {
        "ddprun": lambda options, inputs, ranks: ours(
            options, inputs, ranks, {"type": strategy}, 1 if together else ranks),
        "torch": lambda options, inputs, ranks: theirs(
            options, inputs, "torch_strategies.py", {"strategy": strategy, "ranks": ranks})}


def pipeline(schedule):
    return {
        "ddprun": lambda options, inputs, ranks: ours(
            options, inputs, ranks,
            {"type": "pipeline", "pipeline_schedule": schedule,
             "pipeline_micro_batches": MICRO_BATCHES,
             "layers_per_stage": [LAYERS // ranks] * ranks}, 1),
        "torch": lambda options, inputs, ranks: theirs(
            options, inputs, "torch_pipeline.py",
            {"schedule": schedule, "stages": ranks, "micro_batches": MICRO_BATCHES})}


# {row: (PyTorch's name of it, its sides)}
ROWS = {
    "ddp": ("DistributedDataParallel", shared("ddp")),
    "zero1": ("ZeroRedundancyOptimizer", shared("zero1")),
    "zero2": ("fully_shard, kept after forward", shared("zero2")),
    "zero3": ("fully_shard", shared("zero3")),
    "tensor_parallel": ("DTensor", shared("tensor_parallel")),
    "pipeline, gpipe": ("ScheduleGPipe", pipeline("gpipe")),
    "pipeline, 1f1b": ("Schedule1F1B", pipeline("1f1b")),
}


def check_losses(row, ranks, losses, expected):
    same = len(losses) == len(expected)
    largest = max(abs(a - b) for a, b in zip(losses, expected)) if same else float("inf")
    if not largest < LARGEST_DIFFERENCE:
        sys.exit(f"{row}, {ranks} ranks: the sides do not train the same, losses {losses} and "
                 f"{expected}")
    return largest


def measure(options, inputs):
    """{(row, ranks, side): median steps of the rounds}, and the largest difference of losses."""
    found, largest = {}, 0
    for _ in range(options.rounds):
        for row in options.row:
            for ranks in options.ranks:
                losses = None
                for name, side in ROWS[row][1].items():
                    if options.only and name not in options.only:
                        continue
                    now, seconds = side(options, inputs, ranks)
                    largest = max(largest, check_losses(row, ranks, now, losses or now))
                    losses = now
                    found.setdefault((row, ranks, name), []).append(
                        statistics.median(seconds[WARM_UP:]))
    return found, largest


def main():
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--steps", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--row", action="append", choices=ROWS, help="only these rows")
    parser.add_argument("--engine", choices=("default", "auto"), default="default",
                        help="ddprun's training.matmul_engine; default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="two ranks, one round")
    published.add_options(parser, "runs/strategies.html")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.ranks = 1, [2]
    options.row = options.row or list(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder)
        make_inputs(inputs, options.steps)
        found, largest = measure(options, inputs)
    medians = {key: harness.median(values) for key, values in found.items()}
    rows = [["a step of", "PyTorch's", "ddprun", "PyTorch", "ddprun, steps/s", "PyTorch, steps/s",
             "PyTorch / ddprun"]]
    for row in options.row:
        for ranks in options.ranks:
            here, there = (medians.get((row, ranks, name)) for name in ("ddprun", "torch"))
            rows.append([f"{row}, {ranks} ranks", ROWS[row][0],
                         *(published.milliseconds(seconds) if seconds else "-"
                           for seconds in (here, there)),
                         *(f"{1 / seconds:.2f}" if seconds else "-" for seconds in (here, there)),
                         harness.ratio(here, there)])
    published.publish("Strategies beside PyTorch's",
                      {"strategies": ("Strategies", [rows], [])}, options)
    if not options.only:
        print(f"\nlargest difference of the sides' losses in any step: {largest:.1g}")
    harness.write_json(options, "strategies",
                       [{"row": row, "ranks": ranks, "side": side, "engine": options.engine,
                         "step": seconds, "rounds": found[row, ranks, side]}
                        for (row, ranks, side), seconds in medians.items()])


if __name__ == "__main__":
    main()
