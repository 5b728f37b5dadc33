#!/usr/bin/env python3
"""Makes tests/golden/early_stopping.json: after which evaluation the EarlyStoppingCallback of
transformers ends a run, for many rows of values of the metric.

Usage: scripts/make_golden_early_stopping.py [FOLDER]     (default: tests/golden of this checkout)

Needs transformers (scripts/setup.sh --peers). The same version gives the same file.
"""

import json
import pathlib
import random
import sys
import types

import transformers


def end_of(values, patience, threshold, greater):
    """The number of the evaluation after which the run ends; 0: it does not end early."""
    args = types.SimpleNamespace(metric_for_best_model="loss", greater_is_better=greater,
                                 save_strategy="no", load_best_model_at_end=True)
    state = transformers.TrainerState()
    control = transformers.TrainerControl()
    callback = transformers.EarlyStoppingCallback(patience, threshold)
    trainer = types.SimpleNamespace(args=args, state=state)
    for number, value in enumerate(values, 1):
        metrics = {"eval_loss": float(value)}
        callback.on_evaluate(args, state, control, metrics)
        transformers.Trainer._determine_best_metric(trainer, metrics, None)
        if control.should_training_stop:
            return number
    return 0


def main():
    checkout = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else checkout / "tests/golden").resolve()
    draw = random.Random(1)
    cases = []
    for _ in range(200):
        greater = draw.random() < 0.5
        patience = draw.randint(1, 4)
        threshold = draw.choice((0.0, 0.1, 0.3))
        values = [draw.choice(("nan", "inf", "-inf")) if draw.random() < 0.05 else
                  str(round(draw.random() + draw.choice((0, 0.1)) * i, 1)) for i in range(15)]
        cases.append({"greater_is_better": greater, "patience": patience, "threshold": threshold,
                      "values": values, "end": end_of(values, patience, threshold, greater)})
    (folder / "early_stopping.json").write_text(
        json.dumps({"transformers": transformers.__version__, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
