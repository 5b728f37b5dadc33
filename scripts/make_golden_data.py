#!/usr/bin/env python3
"""Makes the values in tests/golden that the tests of the data sets compare with.

Usage: scripts/make_golden_data.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch and transformers (scripts/setup.sh --peers).
"""

import json
import pathlib
import random
import sys
import tempfile

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


WORDS = ("a the dog cat boat river runs sleeps carries never old young boxes fog seven light ##s "
         "##ing un ##finished bridge , . ! ?").split()


def pair_batch():
    """A padded and truncated batch of pairs, and one of single texts."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "vocab.txt"
        path.write_text("\n".join(vocab) + "\n")
        tokenizer = transformers.BertTokenizerFast(vocab_file=str(path), do_lower_case=False)
    draw = random.Random(SEED)
    sizes = [(1, 1), (3, 9), (9, 3), (12, 12), (11, 12), (30, 2), (2, 30), (0, 4), (5, 0)]
    words = [word for word in WORDS if not word.startswith("##")] + ["runs", "boxes", "xyz"]
    pairs = [[" ".join(draw.choices(words, k=size)) for size in pair] for pair in sizes]
    options = {"padding": True, "truncation": True, "max_length": 16}
    both = tokenizer([a for a, _ in pairs], [b for _, b in pairs], **options)
    single = tokenizer([a for a, _ in pairs], **options)
    return {"vocab": vocab, "max_length": 16, "pairs": pairs,
            "both": dict(both), "single": dict(single)}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).resolve().parent.parent / "tests/golden")
    for name, make in (("length_groups", length_groups), ("pair_batch", pair_batch)):
        value = {"torch": torch.__version__, "transformers": transformers.__version__, **make()}
        text = json.dumps(value, separators=(",", ":")) + "\n"
        (folder / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main()
