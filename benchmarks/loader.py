#!/usr/bin/env python3
"""Batches per second of the loader, against torch.utils.data.DataLoader over the same files.

Pairs of sentences to tokenize and to pad (MNLI's lengths), JPEG images of 500 x 375 to decode, to
crop at random to 224 and to mirror, and a table of numbers. Nothing computes on the batches. Ours
has two threads; the peer is measured without, with 1 and with 2 worker processes, which it keeps
between the epochs, and its best is compared. In "pairs, tokenized before" the peer has tokenized
all texts beforehand and only pads them; ours tokenizes them in every epoch. Sums of all token ids
and classes must be the same.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

import harness
import tokenizer as texts_of_this_machine

VOCABULARY = """
import pathlib, sys
sys.path.insert(0, sys.argv[1] + "/tests/trainer/text")
import texts
folder = pathlib.Path(sys.argv[2])
text = open(folder / "train", encoding="utf-8", newline="").read().split("\\0")
texts.write_bert(folder / "vocab", texts.word_piece_vocabulary(text, True, 30000), {})
"""
PICTURES = """
import pathlib, random, sys
from PIL import Image
folder = pathlib.Path(sys.argv[1])
draw = random.Random(3)
for i in range(int(sys.argv[2])):
    # Large shapes with finer ones over them: JPEG files of the size that photographs have.
    image = Image.new("RGB", (500, 375))
    for size, weight in ((8, 1.0), (60, 0.4), (250, 0.2)):
        noise = Image.frombytes("RGB", (size, size), draw.randbytes(3 * size * size))
        image = Image.blend(image, noise.resize((500, 375), Image.BICUBIC), weight)
    path = folder / "images" / str(i % 2) / f"{i}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, quality=90)
"""
LABELS = ["entailment", "neutral", "contradiction"]
# Case: what the table calls it, batch, what our config says of model and data.
CASES = {
    "pairs": ("pairs", 32, {"type": "bert", "vocab_size": 30000, "num_labels": 3},
              {"format": "text_classification", "train_files": "pairs.jsonl", "tokenizer": "vocab",
               "max_seq_length": 512, "labels": LABELS}),
    "pairs_ready": ("pairs, tokenized before", 32, None, None),
    "images": ("images", 32, {"type": "resnet18"},
               {"format": "image_folder", "train_files": "images", "image_size": 224,
                "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                "random_resized_crop": True, "random_flip": True}),
    "table": ("table", 256, {"type": "linear"},
              {"format": "csv", "train_files": "table.csv", "label_column": "class",
               "standardize": True}),
}


def write_pairs(folder, count):
    texts_of_this_machine.write_corpus(folder, 4)
    words = (folder / "test").read_text(encoding="utf-8").replace("\0", " ").split()
    draw = random.Random(1)

    def sentence(least, most):
        size = draw.randint(least, most)
        begin = draw.randrange(len(words) - size)
        return " ".join(words[begin:begin + size])

    with open(folder / "pairs.jsonl", "w", encoding="utf-8") as file:
        for _ in range(count):
            row = {"sentence1": sentence(5, 35), "sentence2": sentence(3, 17),
                   "gold_label": draw.choice(LABELS)}
            file.write(json.dumps(row) + "\n")


def write_table(folder, rows):
    draw = random.Random(2)
    with open(folder / "table.csv", "w") as file:
        file.write(",".join(f"x{i}" for i in range(20)) + ",class\n")
        for _ in range(rows):
            values = [f"{draw.gauss(5, 3):.5g}" for _ in range(20)]
            file.write(",".join(values) + f",{draw.randrange(5)}\n")


def write_files(folder, options, names):
    python = str(harness.VENV / "python")
    if "pairs" in names or "pairs_ready" in names:
        write_pairs(folder, options.pairs)
        harness.output([python, "-c", VOCABULARY, str(harness.ROOT), str(folder)])
    if "images" in names:
        harness.output([python, "-c", PICTURES, str(folder), str(options.images)])
    if "table" in names:
        write_table(folder, options.rows)
    for name, (_, batch, model, data) in CASES.items():
        if model:
            config = {"run": {"name": name, "max_epochs": 1}, "model": model,
                      "data": {**data, "dataloader_num_workers": 2},
                      "training": {"per_device_train_batch_size": batch}}
            (folder / f"{name}.json").write_text(json.dumps(config))


class Side:
    """A process that goes through an epoch when told to."""

    def __init__(self, argv):
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=harness.environment(),
                                        text=True)

    def measure(self, epoch):
        """(seconds, batches, checksum)"""
        self.process.stdin.write(f"{epoch}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 3:
            sys.exit(f"{self.process.args[0]} failed")
        return float(words[0]), int(words[1]), int(words[2])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(options, folder, name):
    config = folder / ("pairs.json" if name == "pairs_ready" else f"{name}.json")
    peer = [harness.VENV / "python", harness.ROOT / "benchmarks/peers/loader.py", name]
    sides = {"ddprun": Side([options.bin / "ddp-loader-speed", config])}
    for workers in (0, 1, 2):
        sides[workers] = Side([*peer, workers, folder])
    speeds = {side: [] for side in sides}
    for round_ in range(options.rounds + 1):
        answers = {side: process.measure(round_) for side, process in sides.items()}
        if len({answer[1:] for answer in answers.values()}) != 1:
            sys.exit(f"{name}: the sides give different batches: {answers}")
        for side, (seconds, batches, _) in answers.items():
            if round_ > 0:  # the first starts workers and fills caches
                speeds[side].append(batches / seconds)
    for process in sides.values():
        process.close()
    return speeds


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--pairs", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--images", type=int, default=640, help="default: %(default)s")
    parser.add_argument("--rows", type=int, default=200_000, help="default: %(default)s")
    options = parser.parse_args()
    names = [name for name in CASES if not options.only or name in options.only]
    rows, report = [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_files(folder, options, names)
        for name in names:
            speeds = compare(options, folder, name)
            medians = {side: harness.median(values) for side, values in speeds.items()}
            best = max((0, 1, 2), key=medians.get)
            rows.append([CASES[name][0], CASES[name][1], f"{medians['ddprun']:.1f}",
                         f"{medians[best]:.1f}", best, f"{medians['ddprun'] / medians[best]:.3g}x"])
            report.append({"case": name, "batches_per_second": speeds})
    harness.table(["samples", "batch", "ddprun, batches/s", "DataLoader, batches/s",
                   "its workers", "ratio"], rows)
    harness.write_json(options, "loader", report)


if __name__ == "__main__":
    main()
