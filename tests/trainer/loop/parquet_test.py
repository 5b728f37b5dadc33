"""Parquet files, as pyarrow writes them: runs as with the same rows as JSON lines or CSV."""

import csv
import json
import math
import os
import random
import sys

import training

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

WORDS = "one two three four five six seven eight nine ten".split()
BERT = {"type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_labels": 3}


class Parquet(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.random = random.Random(3)

    def words(self, count):
        return " ".join(self.random.choice(WORDS) for _ in range(count))

    def write(self, name, rows, schema=None):
        """The rows as JSON lines and as Parquet, in small row groups."""
        with open(self.path(f"{name}.jsonl"), "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        table = pyarrow.Table.from_pylist(rows, schema=schema)
        pyarrow.parquet.write_table(table, self.path(f"{name}.parquet"), row_group_size=7)
        return table

    def tokenizer(self):
        folder = self.path("tokenizer")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
        with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
            json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, file)
        return folder

    def run_on(self, name, model, data, env=None):
        config = {
            "run": {"name": name, "max_steps": 6},
            "model": model,
            "data": data,
            "training": {"per_device_train_batch_size": 4},
            "scheduler": {"lr_scheduler_type": "constant"},
            "evaluation": {"sample_length": 0},
            "report": {"logging_steps": 1},
        }
        return self.run_ddprun("--nproc_per_node=2", self.write_config(config),
                               env=env or {"PYTHON_EXEC": sys.executable})

    def losses(self, name):
        return [line["loss"] for line in self.metrics(name) if line.get("split") == "train"]

    def expect_the_same(self, kind, model, data, plain):
        """Runs on kind.parquet and on the file `plain`; both have the same losses, bit for bit."""
        for name, file in (("parquet", f"{kind}.parquet"), ("plain", plain)):
            job = self.run_on(name, model, {**data, "train_files": self.path(file)})
            self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(len(self.losses("plain")), 6)
        self.assertEqual(self.losses("parquet"), self.losses("plain"))

    def test_rows_with_a_text(self):
        self.write("rows", [{"id": i, "text": self.words(30)} for i in range(40)])
        gpt = {"type": "gpt", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        self.expect_the_same("rows", gpt, {"format": "jsonl", "max_seq_length": 16,
                                           "tokenizer": self.tokenizer()}, "rows.jsonl")

    def test_labelled_texts(self):
        rows = [{"sentence": self.words(5), "label": i % 3, "picture": None} for i in range(40)]
        self.write("labelled", rows, pyarrow.schema([
            ("sentence", pyarrow.large_string()), ("label", pyarrow.int8()),
            ("picture", pyarrow.binary())]))
        # JSON, in which the trainer gets the rows, has no such numbers.
        path = self.path("labelled.parquet")
        table = pyarrow.parquet.read_table(path)
        for name, value in (("score", math.nan), ("limits", [math.inf, 1.0])):
            table = table.append_column(name, pyarrow.array([value] * len(rows)))
        pyarrow.parquet.write_table(table, path)
        self.expect_the_same("labelled", BERT, {"format": "text_classification",
                                                "tokenizer": self.tokenizer()}, "labelled.jsonl")

    def test_tables(self):
        rows = []
        for i in range(40):
            colour = self.random.choice(["red", 'dark "blue"', "yel,low"])
            rows.append({"width": self.random.random(), "count": i % 5 or None, "colour": colour,
                         "list": [1, 2], "kind": f"k{i % 2}"})
        schema = pyarrow.schema([
            ("width", pyarrow.float64()), ("count", pyarrow.int32()),
            ("colour", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
            ("list", pyarrow.list_(pyarrow.int32())), ("kind", pyarrow.string())])
        self.write("table", rows, schema)
        with open(self.path("table.csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, ["width", "count", "colour", "kind"],
                                    extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
        mlp = {"type": "mlp", "layer_sizes": [5, 8, 2]}
        self.expect_the_same("table", mlp, {"format": "csv", "label_column": "kind",
                                            "on_missing": "mean", "standardize": True}, "table.csv")

    def test_says_why_a_file_cannot_be_read(self):
        self.write("rows", [{"text": self.words(30)} for i in range(40)])
        data = {"format": "jsonl", "train_files": self.path("rows.parquet"), "max_seq_length": 16,
                "tokenizer": self.tokenizer()}
        gpt = {"type": "gpt", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}

        def expect(words, changes=None, env=None):
            job = self.run_on("wrong", gpt, {**data, **(changes or {})}, env)
            self.assertEqual(job.returncode, 2, job.err)
            for word in words:
                self.assertIn(word, job.err)
            self.assertFalse(os.path.exists(self.path("runs/wrong")))

        expect(["a Parquet file", "there-is-none cannot be started", "PYTHON_EXEC"],
               env={"PYTHON_EXEC": "/there-is-none"})
        without = self.path("python")
        with open(without, "w") as file:
            file.write('#!/bin/sh\nexec python3 -S -E -I "$@"\n')
        os.chmod(without, 0o755)
        expect(["No module named 'pyarrow'", "pip install pyarrow"], env={"PYTHON_EXEC": without})
        expect(["Set data.format to \"jsonl\""], {"format": "text", "tokenizer": ""})
        expect(["it is a Parquet file", "\"jsonl\""], {"format": "text"})
        expect(["rows.parquet:1", "no \"content\""], {"text_column": "content"})
        with open(self.path("rows.parquet"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("rows.parquet")) - 100)
        expect(["rows.parquet", "pyarrow says: "])


if __name__ == "__main__":
    import unittest
    unittest.main()
