#!/usr/bin/env python3
"""Makes tests/golden/table.json: tables with categories, and what scikit-learn makes of them.

Usage: scripts/make_golden_table.py [FOLDER]     (default: tests/golden of this checkout)

Needs scikit-learn 1.9 (scripts/requirements/peers.txt has it).
"""

import csv
import io
import json
import pathlib
import random
import sys

import numpy
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

COLUMNS = ["width", "colour", "zone", "height", "maker", "label"]
# Columns in order: numbers, names, numbers that are names, numbers, names.
CATEGORIES = [1, 2, 4]
COLOURS = ["red", "Green", "blue, dark", 'a "loud" one', "Ärger", "green", "日本", "Zinc"]
MAKERS = ["b", "a", "ab", "B"]


def table(draw, rows):
    return [[draw.gauss(3, 7), draw.choice(COLOURS), draw.choice([1, 2, 9, 10, 11, 100]),
             draw.gauss(-1000, 0.5), draw.choice(MAKERS), draw.choice(["yes", "no"])]
            for _ in range(rows)]


def text(rows, order):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([COLUMNS[i] for i in order])
    writer.writerows([row[i] for i in order] for row in rows)
    return out.getvalue()


def inputs(train, rows, standardize):
    """The columns in their order, each by the transformer that its kind asks for."""
    def array(table):
        result = numpy.empty((len(table), 5), dtype=object)
        for i, row in enumerate(table):
            result[i] = row[:5]
        return result

    steps = []
    for i in range(5):
        if i in CATEGORIES:
            steps.append((str(i), OneHotEncoder(sparse_output=False), [i]))
        else:
            steps.append((str(i), StandardScaler() if standardize else "passthrough", [i]))
    transformer = ColumnTransformer(steps, sparse_threshold=0).fit(array(train))
    return numpy.asarray(transformer.transform(array(rows)), dtype=numpy.float32).tolist()


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parents[1] / "tests/golden")
    draw = random.Random(7)
    train, validation = table(draw, 60), table(draw, 12)
    golden = {"made_by": f"scikit-learn {sklearn.__version__}, numpy {numpy.__version__}",
              "categorical": ["zone"],
              "train": text(train, range(6)),
              "validation": text(validation, [5, 3, 1, 4, 0, 2]),
              "cases": [{"standardize": standardize,
                         "train": inputs(train, train, standardize),
                         "validation": inputs(train, validation, standardize)}
                        for standardize in (False, True)]}
    (folder / "table.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
