#!/usr/bin/env python3
"""What it costs a step to be observed: two ranks with ddp, both jobs in turns (turns.py).

"watched": a log line and a line of metrics.jsonl after every --logging_steps ("log"), TensorBoard's
event files ("events", which get the same numbers), a trace of every step ("trace"), and
`ddprun top` looking each second ("top"); --part leaves out the others. "plain": a line after every
30 steps.

    observing.py [--model gpt|mlp] [--part log|events|trace|top]...
"""

import contextlib
import os
import subprocess
import threading

import harness
import turns

PARTS = ("log", "events", "trace", "top")
EVERY = 30  # steps from one line of "plain" to the next
MODELS = {
    "gpt": ({"type": "gpt", "vocab_size": 256, "hidden_size": 128, "num_hidden_layers": 2},
            {"train_files": [str(harness.ROOT / "base/*.cc")], "max_seq_length": 64}),
    "mlp": ({"type": "mlp", "layer_sizes": [64, 256, 256, 8]},
            {"format": "random", "num_samples": 4096, "input_size": 64, "target_size": 8}),
}


def config(folder, model, report):
    kind, data = MODELS[model]
    return {
        "run": {"name": "r", "output_dir": os.path.join(folder, "run"), "max_steps": 10**6},
        "model": kind, "data": data,
        "training": {"per_device_train_batch_size": 8},
        "report": {"progress_bar": "off", **report},
        "checkpoint": {"save_steps": 0, "save_at_end": False},
    }


@contextlib.contextmanager
def top(options):
    """Looks at the machine's jobs each second, as the screen of `ddprun top` does."""
    ended = threading.Event()

    def look():
        while not ended.wait(1):
            subprocess.run([options.bin / "ddprun", "top", "--json"], check=False,
                           stdout=subprocess.DEVNULL)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=3)
    parser.add_argument("--ranks", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--model", choices=MODELS, default="gpt", help="default: %(default)s")
    parser.add_argument("--logging_steps", type=int, choices=(1, 2, 3, 5, 10), default=10,
                        help="default: %(default)s, as of a config")
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all of them")
    options = parser.parse_args()
    parts = options.part or PARTS
    watched = {
        "logging_steps": options.logging_steps if {"log", "events"} & set(parts) else EVERY,
        "tensorboard": "events" in parts,
        "trace_steps": [1, 10**6] if "trace" in parts else [],
    }
    reports = {"watched": watched, "plain": {"logging_steps": EVERY}}
    sides = {name: lambda folder, report=report: config(folder, options.model, report)
             for name, report in reports.items()}
    found = turns.compare(options, sides, turns=10, steps=3, warm=2, every=EVERY,
                          beside={"watched": lambda process: top(options)}
                          if "top" in parts else {})
    harness.write_json(options, "observing", found)


if __name__ == "__main__":
    main()
