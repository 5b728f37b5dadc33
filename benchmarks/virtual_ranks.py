#!/usr/bin/env python3
"""What training.virtual_ranks costs: steps of the small GPT with 8 virtual ranks on 1, 2, 4 and 8
processes, against plain ddp with the same global batch, in as many micro-batches and in one.

Every process has one thread, as virtual ranks have. Times are rank 0's, of all steps but the first
ones of each run.
"""

import json
import pathlib
import statistics
import tempfile

import gpt_case
import harness

VIRTUAL_RANKS = 8
WARM_UP = 3


def config(folder, processes, side, options):
    per_process = VIRTUAL_RANKS // processes
    training = {
        "virtual ranks": {"virtual_ranks": VIRTUAL_RANKS,
                          "per_device_train_batch_size": options.batch},
        "ddp, micro-batches": {"gradient_accumulation_steps": per_process,
                               "per_device_train_batch_size": options.batch},
        "ddp, one batch": {"per_device_train_batch_size": options.batch * per_process},
    }[side]
    sizes = {**gpt_case.SIZES, "hidden_size": options.width}
    return {
        "run": {"name": "run", "output_dir": str(pathlib.Path(folder) / "run"),
                "max_steps": WARM_UP + options.steps},
        "model": {"type": "gpt", "vocab_size": 256, **sizes},
        "data": {"train_files": [str(harness.ROOT / glob) for glob in gpt_case.TEXT],
                 "max_seq_length": gpt_case.SEQUENCE},
        "training": {"matmul_engine": "default", **training},
        "strategy": {"type": "ddp"},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 1, "progress_bar": "off"},
    }


def step_seconds(options, processes, side):
    """Of the steps of one run, and what of them was spent waiting for communication."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "gpt.json"
        path.write_text(json.dumps(config(folder, processes, side, options)))
        # The launcher would give a process all cores that are there for it.
        harness.output(["env", "OMP_NUM_THREADS=1",
                        *(str(word) for word in harness.ddprun(options, processes)), str(path)])
        (metrics,) = pathlib.Path(folder).glob("run*/metrics.jsonl")
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = [line for line in lines if line.get("split") == "train"][WARM_UP:]
    return ([line["step_seconds"] for line in steps],
            [line["exposed_comm_seconds"] for line in steps])


def main():
    parser = harness.parser(__doc__, rounds=5)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--steps", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=2, help="of a virtual rank; "
                        "default: %(default)s")
    parser.add_argument("--width", type=int, default=256, help="default: %(default)s")
    options = parser.parse_args()
    names = ("virtual ranks", "ddp, micro-batches", "ddp, one batch")
    names = [name for name in names if not options.only or name in options.only]
    found = {}
    for _ in range(options.rounds):
        for processes in options.processes:
            for name in names:
                seconds, exposed = step_seconds(options, processes, name)
                times = found.setdefault((processes, name), ([], []))
                times[0].append(statistics.median(seconds))
                times[1].append(statistics.median(exposed))
    results = [{"processes": processes, "side": name, "step": harness.median(seconds),
                "exposed": harness.median(exposed)}
               for (processes, name), (seconds, exposed) in found.items()]
    ours = {row["processes"]: row["step"] for row in results if row["side"] == "virtual ranks"}
    rows = [(f"{row['processes']} processes, {row['side']}", f"{row['step'] * 1e3:.1f} ms",
             f"{row['exposed'] * 1e3:.1f} ms", harness.ratio(row["step"], ours[row["processes"]])
             if row["processes"] in ours else "")
            for row in sorted(results, key=lambda row: row["processes"])]
    harness.table((f"{VIRTUAL_RANKS} virtual ranks", "step", "waiting", "price"), rows)
    harness.write_json(options, "virtual_ranks", results)


if __name__ == "__main__":
    main()
