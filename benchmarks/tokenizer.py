#!/usr/bin/env python3
"""Tokenizing documents, against Hugging Face's tokenizers (Rust), with 1 and 2 threads.

The text is what this machine has of prose and code: documentation and sources of Python and of the
packages in .deps/venv. The vocabularies are trained on half of the files, by `tokenizers`, and the
other half is measured. Loading is not measured; the ids of both sides must be the same. The peer
uses encode_batch_fast, which keeps no offsets, and is not charged for handing the ids to Python.
"""

import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

import harness

TRAIN = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1] + "/tests/trainer/text")
import texts
from tokenizers import pre_tokenizers
folder = pathlib.Path(sys.argv[2])
text = open(folder / "train", encoding="utf-8", newline="").read().split("\\0")
texts.write_bert(folder / "BERT cased", texts.word_piece_vocabulary(text, False, 30000),
                 {"do_lower_case": False})
texts.write_bert(folder / "BERT uncased", texts.word_piece_vocabulary(text, True, 30000), {})
byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
texts.write_tokenizer_json(folder / "GPT-2", texts.byte_pair(text, byte_level, 50000))
texts.write_tokenizer_json(folder / "Llama 3", texts.byte_pair(
    text, texts.split_first(texts.LLAMA3_RULE), 50000, ignore_merges=True))
"""
NAMES = ["BERT cased", "BERT uncased", "GPT-2", "Llama 3"]


def files():
    """Text files in an order that is the same each time."""
    roots = [pathlib.Path(sysconfig.get_paths()["stdlib"]), harness.VENV.parent / "lib"]
    endings = {".py", ".md", ".rst", ".txt", ".html"}
    return sorted({path for root in roots for path in root.rglob("*") if path.suffix in endings})


def write_corpus(folder, megabytes):
    """train and test: every other file, as many as make `megabytes` each."""
    halves = {"train": [], "test": []}
    sizes = {"train": 0, "test": 0}
    chosen = files()
    step = 7  # so that a part of all folders is taken, not all of a part
    for i, path in enumerate(chosen[j] for start in range(step)
                             for j in range(start, len(chosen), step)):
        half = "test" if i % 2 else "train"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if sizes[half] < megabytes * 1e6 and 500 < len(text) < 200_000 and "\0" not in text:
            halves[half].append(text)
            sizes[half] += len(text.encode())
    for half, documents in halves.items():
        (folder / half).write_text("".join(text + "\0" for text in documents), newline="")
    return sizes["test"], len(halves["test"])


class Side:
    """A process that encodes the documents when told to."""

    def __init__(self, argv, threads):
        environment = {**harness.environment(), "RAYON_NUM_THREADS": str(threads),
                       "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
        self.threads = threads
        self.process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env=environment, text=True)

    def measure(self):
        """(seconds, what the ids were)"""
        self.process.stdin.write(f"{self.threads}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if len(words) != 3:
            sys.exit(f"{self.process.args[0]} failed")
        return float(words[0]), words[1:]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(options, folder, name, threads):
    arguments = [folder / name, folder / "test"]
    sides = {"ddprun": Side([options.bin / "ddp-tokenizer-speed", *arguments], threads),
             "tokenizers": Side([harness.VENV / "python",
                                 harness.ROOT / "benchmarks/peers/tokenizer.py", *arguments],
                                threads)}
    results = {side: [] for side in sides}
    for round_ in range(options.rounds + 1):
        answers = {side: process.measure() for side, process in sides.items()}
        if answers["ddprun"][1] != answers["tokenizers"][1]:
            sys.exit(f"{name}: the ids differ")
        for side, (seconds, _) in answers.items():
            if round_ > 0:  # the first fills caches
                results[side].append(seconds)
    for process in sides.values():
        process.close()
    return results, int(answers["ddprun"][1][0])


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--megabytes", type=float, default=8, help="of text; default: %(default)s")
    options = parser.parse_args()
    rows, report = [], []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        size, documents = write_corpus(folder, options.megabytes)
        harness.output([str(harness.VENV / "python"), "-c", TRAIN, str(harness.ROOT), str(folder)])
        for name in [name for name in NAMES if not options.only or name in options.only]:
            for threads in (1, min(2, os.cpu_count())):
                results, tokens = compare(options, folder, name, threads)
                ours, theirs = (harness.median(results[side]) for side in ("ddprun", "tokenizers"))
                speeds = [f"{size / 1e6 / seconds:.1f}" for seconds in (ours, theirs)]
                rows.append([name, threads, *speeds, harness.ratio(ours, theirs)])
                report.append({"tokenizer": name, "threads": threads, "bytes": size,
                               "documents": documents, "tokens": tokens, "seconds": results})
    print(f"{documents} documents, {size / 1e6:.1f} MB\n")
    harness.table(["tokenizer", "threads", "ddprun, MB/s", "tokenizers, MB/s", "ratio"], rows)
    harness.write_json(options, "tokenizer", report)


if __name__ == "__main__":
    main()
