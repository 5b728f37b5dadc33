#!/usr/bin/env python3
"""Makes tests/golden/metrics.json: classes, numbers, scores, and what scikit-learn says of them.

Usage: scripts/make_golden_metrics.py [FOLDER]     (default: tests/golden of this checkout)

Needs scikit-learn (scripts/setup.sh --peers).
"""

import json
import pathlib
import random
import sys

import numpy
import scipy.special
import sklearn
from sklearn import metrics


def case(classes, targets, predictions):
    values = {
        "accuracy": metrics.accuracy_score(targets, predictions),
        "f1_macro": metrics.f1_score(targets, predictions, average="macro", zero_division=0),
        "mcc": metrics.matthews_corrcoef(targets, predictions),
    }
    average = "binary" if classes == 2 else "macro"
    for name in ("precision", "recall", "f1"):
        values[name] = getattr(metrics, f"{name}_score")(targets, predictions, average=average,
                                                         zero_division=0)
    return {
        "classes": classes,
        "targets": targets,
        "predictions": predictions,
        "values": {name: float(value) for name, value in values.items()},
        "confusion": metrics.confusion_matrix(targets, predictions,
                                              labels=range(classes)).ravel().tolist(),
        # Rows of precision, recall, F1 and samples; a column for each class.
        "by_class": [[float(x) for x in row] for row in metrics.precision_recall_fscore_support(
            targets, predictions, labels=range(classes), zero_division=0)],
    }


def scored(draw, classes, samples):
    """Scores, and the area under the ROC curve of their softmax. Of two classes they are eighths:
    many ties, which are ties in float32, too. Those of more classes are float32 without ties."""
    targets = [i % classes for i in range(samples)]
    scores = [[draw.gauss(1 if c == target else 0, 1) for c in range(classes)]
              for target in targets]
    scores = [[round(8 * x) / 8 if classes == 2 else float(numpy.float32(x)) for x in row]
              for row in scores]
    probabilities = scipy.special.softmax(numpy.array(scores), axis=1)
    area = (metrics.roc_auc_score(targets, probabilities[:, 1]) if classes == 2 else
            metrics.roc_auc_score(targets, probabilities, multi_class="ovr"))
    return {"targets": targets, "scores": scores, "roc_auc": float(area)}


def rows(draw, columns, offset):
    """Targets of several numbers far from 0, and guesses."""
    targets = [[offset + draw.gauss(0, 2) for _ in range(columns)] for _ in range(30)]
    guesses = [[x + draw.gauss(0, 1 + column) for column, x in enumerate(row)] for row in targets]
    return {"targets": targets, "predictions": guesses,
            "r2": metrics.r2_score(targets, guesses),
            "rmse": metrics.mean_squared_error(targets, guesses) ** 0.5}


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
        "scores": [scored(draw, classes, 61) for classes in (2, 2, 3, 5)],
        "rows": [rows(draw, 1, 0), rows(draw, 3, 1000)],
    }
    (folder / "metrics.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
