#!/usr/bin/env python3
"""DataParallel against DistributedDataParallel: steps of a small GPT with the same batch by one
device; by one process with N devices, whose outputs or whose losses are gathered; and by N
processes, whose gradients travel after backward or beside it.

Devices are logical ones of the CPU, with cores / N threads each, as the processes have. Times are
medians over the steps of a run, then over the rounds. "copies": parameters to the replicas and
gradients back, or what of the all-reduce the step waited for. Bytes: what docs/data_parallel.md
says is counted.

Answers the questions of that page, and with --docs docs/data_parallel.md writes its tables.
"""

import json
import pathlib
import statistics
import tempfile

import gpt_case
import harness
import published

WARM_UP = 3
GATHERED, PARALLEL = "dp, outputs gathered", "dp, losses gathered"
ALONE, DDP = "ddp, without overlap", "ddp"
SIDES = ("single", GATHERED, PARALLEL, ALONE, DDP)


def config(folder, side, options):
    devices = {"type": "dp", "devices": ["cpu"] * options.devices}
    strategy = {"single": {"type": "single"},
                GATHERED: {**devices, "loss": "gathered"},
                PARALLEL: {**devices, "loss": "parallel"},
                ALONE: {"type": "ddp", "overlap": "none"},
                DDP: {"type": "ddp"}}[side]
    batch = options.batch * (options.devices if side == "single" else 1)
    sizes = {**gpt_case.SIZES, "hidden_size": options.width}
    return {
        "run": {"name": "run", "output_dir": str(pathlib.Path(folder) / "run"),
                "max_steps": WARM_UP + options.steps},
        "model": {"type": "gpt", "vocab_size": options.vocabulary, **sizes},
        "data": {"train_files": [str(harness.ROOT / glob) for glob in gpt_case.TEXT],
                 "max_seq_length": gpt_case.SEQUENCE},
        "training": {"matmul_engine": "default", "per_device_train_batch_size": batch},
        "strategy": strategy,
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 1, "progress_bar": "off"},
    }


def run(options, side):
    """Seconds of the steps of one run, those of copies, and bytes of each device."""
    ranks = options.devices if side.startswith("ddp") else 1
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "gpt.json"
        path.write_text(json.dumps(config(folder, side, options)))
        harness.output([*(str(word) for word in harness.ddprun(options, ranks)), str(path)])
        (metrics,) = pathlib.Path(folder).glob("run*/metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = [line for line in lines if line.get("split") == "train"][WARM_UP:]
    memory = next((line["devices"] for line in lines if line.get("event") == "device_memory"), [])
    return (statistics.median(line["step_seconds"] for line in steps),
            statistics.median(line["exposed_comm_seconds"] for line in steps),
            [device["bytes"] for device in memory])


def megabytes(count):
    return f"{count / 2**20:.1f} MiB"


def devices_table(options, results):
    best = min(row["step"] for row in results.values())
    rows = [[f"{options.devices} devices", "step", "of it copies", "against the fastest",
             "first device", "last device"]]
    for side, row in results.items():
        held = [megabytes(row["bytes"][i]) for i in (0, -1)] if row["bytes"] else ["", ""]
        rows.append([side, published.milliseconds(row["step"]),
                     published.milliseconds(row["copies"]), f"{row['step'] / best:.2f}x", *held])
    return rows


def answers_table(found, results):
    """What the sides' differences say, each the median of the rounds' own."""
    def more(side, other, what=0):
        return published.milliseconds(harness.median(
            [a[what] - b[what] for a, b in zip(found[side], found[other])]))

    def saved(device):
        return megabytes(results[GATHERED]["bytes"][device] - results[PARALLEL]["bytes"][device])

    return [
        ["question", "in a step"],
        ["why is DataParallel slower: what it takes longer than ddp", more(GATHERED, DDP)],
        ["of it parameters to the replicas and gradients back, which ddp does not wait for",
         more(GATHERED, DDP, what=1)],
        ["what does the parallel loss save: time", more(GATHERED, PARALLEL)],
        ["memory on the first device", saved(0)],
        ["memory on the last device", saved(-1)],
        ["what does overlap save: time", more(ALONE, DDP)],
        ["of it waiting for the all-reduce", more(ALONE, DDP, what=1)],
    ]


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--devices", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=4, help="of a device; default: %(default)s")
    parser.add_argument("--width", type=int, default=256, help="default: %(default)s")
    parser.add_argument("--vocabulary", type=int, default=8192,
                        help="of which the text uses 256 tokens; default: %(default)s")
    published.add_options(parser, "runs/data_parallel.html")
    options = parser.parse_args()
    sides = [side for side in SIDES if not options.only or side in options.only]
    found = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            found[side].append(run(options, side))
    results = {side: {"step": harness.median([one[0] for one in rounds]),
                      "copies": harness.median([one[1] for one in rounds]), "bytes": rounds[0][2]}
               for side, rounds in found.items()}
    parts = {"devices": ("One process against several", [devices_table(options, results)], [])}
    if not options.only:
        parts["answers"] = ("The questions", [answers_table(found, results)], [])
    published.publish("DataParallel and DistributedDataParallel", parts, options)
    harness.write_json(options, "data_parallel",
                       [{"side": side, **row} for side, row in results.items()])


if __name__ == "__main__":
    main()
