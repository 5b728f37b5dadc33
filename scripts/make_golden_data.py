#!/usr/bin/env python3
"""Makes the values in tests/golden that the tests of the data sets compare with.

Usage: scripts/make_golden_data.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch and transformers (scripts/setup.sh --peers).
"""

import json
import pathlib
import random
import sys

import torch
import transformers
from transformers.trainer_pt_utils import DistributedLengthGroupedSampler

SEED = 42


def length_groups():
    """Index lists of all ranks, for lengths with ties."""
    cases = []
    draw = random.Random(SEED)
    for size, batch, replicas, drop_last in [
            (1, 1, 1, False), (7, 2, 1, False), (64, 4, 2, False), (65, 4, 2, False),
            (65, 4, 2, True), (101, 8, 3, False), (450, 2, 2, False)]:
        lengths = [draw.randint(1, 40) for _ in range(size)]
        for epoch in (0, 3):
            ranks = []
            for rank in range(replicas):
                sampler = DistributedLengthGroupedSampler(
                    batch, dataset=[None] * size, num_replicas=replicas, rank=rank, seed=SEED,
                    drop_last=drop_last, lengths=lengths)
                sampler.set_epoch(epoch)
                ranks.append(list(sampler))
            cases.append({"batch": batch, "replicas": replicas, "drop_last": drop_last,
                          "epoch": epoch, "lengths": lengths, "ranks": ranks})
    return {"seed": SEED, "cases": cases}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parent.parent / "tests/golden")
    value = {"torch": torch.__version__, "transformers": transformers.__version__,
             **length_groups()}
    text = json.dumps(value, separators=(",", ":")) + "\n"
    (folder / "length_groups.json").write_text(text)


if __name__ == "__main__":
    main()
