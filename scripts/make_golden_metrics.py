#!/usr/bin/env python3
"""Makes tests/golden/metrics.json: classes, predictions, and what scikit-learn says of them.

Usage: scripts/make_golden_metrics.py [FOLDER]     (default: tests/golden of this checkout)

Needs scikit-learn (scripts/setup.sh --peers).
"""

import json
import pathlib
import random
import sys

import sklearn
from sklearn import metrics


def case(classes, targets, predictions):
    values = {
        "accuracy": metrics.accuracy_score(targets, predictions),
        "f1_macro": metrics.f1_score(targets, predictions, average="macro", zero_division=0),
        "mcc": metrics.matthews_corrcoef(targets, predictions),
    }
    values["f1"] = (
        metrics.f1_score(targets, predictions, zero_division=0)
        if classes == 2
        else values["f1_macro"]
    )
    return {
        "classes": classes,
        "targets": targets,
        "predictions": predictions,
        "values": {name: float(value) for name, value in values.items()},
    }


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "golden"
    draw = random.Random(7)

    def noisy(targets, choices):
        return [t if draw.random() < 0.6 else draw.choice(choices) for t in targets]

    two = [draw.randrange(2) for _ in range(41)]
    # Class 3 is only predicted, class 4 only a target, class 5 neither.
    six = [draw.choice([0, 1, 2, 4]) for _ in range(67)]
    six_predicted = [p if p != 4 else 3 for p in noisy(six, [0, 1, 2, 3])]
    numbers = [draw.gauss(0, 2) for _ in range(30)]
    guesses = [x + draw.gauss(0, 0.5) for x in numbers]
    golden = {
        "sklearn": sklearn.__version__,
        "classes": [
            case(2, two, noisy(two, [0, 1])),
            case(6, six, six_predicted),
            case(2, [0, 0, 1], [0, 0, 0]),  # class 1 is never predicted
            case(2, [0, 0, 0], [0, 0, 0]),  # nor is there any
        ],
        "numbers": {
            "targets": numbers,
            "predictions": guesses,
            "mse": metrics.mean_squared_error(numbers, guesses),
            "mae": metrics.mean_absolute_error(numbers, guesses),
        },
    }
    (folder / "metrics.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
