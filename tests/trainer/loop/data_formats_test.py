"""Whole runs on each kind of data file, with models that must learn what is in it."""

import csv
import gzip
import json
import os
import random
import struct
import zlib

import harness
import training

COLOURS = {"blue": (40, 60, 200), "green": (50, 190, 60), "red": (210, 50, 40)}


def png(pixels, width):
    """An RGB image, given as bytes row by row."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = [pixels[i:i + 3 * width] for i in range(0, len(pixels), 3 * width)]
    header = struct.pack(">2I5B", width, len(rows), 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body)
            + chunk(b"IEND", b""))


def noisy(numbers, colour, count):
    return bytes(min(255, max(0, value + numbers.randint(-40, 40)))
                 for _ in range(count) for value in colour)


class DataFormats(training.TrainingTest):
    def config(self, name, model, data, **sections):
        config = {
            "run": {"name": name, "max_epochs": 3},
            "model": model,
            "data": data,
            "training": {"per_device_train_batch_size": 8},
            "optimizer": {"type": "adam", "learning_rate": 3e-3},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return config

    def last_validation(self, run):
        return [line for line in self.metrics(run) if line.get("split") == "validation"][-1]

    def write_rows(self, name, header, rows, **format):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", newline="") as file:
            writer = csv.writer(file, **format)
            writer.writerow(header)
            writer.writerows(rows)

    # Texts

    def texts(self, numbers, count):
        """Pairs whose class is told by one word; every tenth has no label that people agree on."""
        words = {"entailment": "surely", "neutral": "perhaps", "contradiction": "never"}
        for i in range(count):
            label = numbers.choice(list(words))
            fill = [numbers.choice(("the", "old", "boat", "passes")) for _ in range(6)]
            fill[numbers.randrange(6)] = words[label]
            yield "the old boat", " ".join(fill), "-" if i % 10 == 5 else label

    def test_tokens_of_an_unknown_tokenizer_are_told_of_at_the_start(self):
        with open(self.path("ids.bin"), "wb") as file:
            file.write(struct.pack("<200H", *(i % 50 for i in range(200))))
        for words, told in ((256, False), (257, True)):
            name = f"of-{words}"
            model = {"type": "gpt", "vocab_size": words, "hidden_size": 8,
                     "num_hidden_layers": 1, "num_attention_heads": 1}
            data = {"format": "tokens", "train_files": ["ids.bin"], "max_seq_length": 8}
            out = self.train(self.config(name, model, data, run={"max_epochs": 1})).out
            start = out.partition("\nstep ")[0]
            self.assertEqual("warning: data.tokenizer is not given" in start, told, out)
            self.assertFalse([file for file in os.listdir(self.path(f"runs/{name}/model"))
                              if "token" in file or "vocab" in file])

    def test_labelled_pairs_as_glue_and_as_mnli_publish_them(self):
        numbers = random.Random(1)
        words = "the old boat passes surely perhaps never".split()
        os.mkdir(self.path("tokenizer"))
        self.script("tokenizer/vocab.txt",
                    "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
        # GLUE quotes nothing: a quote is a character of the text.
        with open(self.path("train.tsv"), "w") as file:
            file.write("index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n")
            for i, (first, second, label) in enumerate(self.texts(numbers, 400)):
                file.write(f'{i}\t{i}e\t"{first}\t{second}\tneutral\t{label}\n')
        with open(self.path("dev.jsonl"), "w") as file:
            for first, second, label in self.texts(numbers, 60):
                row = {"sentence1": first, "sentence2": second, "gold_label": label}
                file.write(json.dumps(row) + "\n")
        model = {"type": "bert", "hidden_size": 32, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "vocab_size": 12, "num_labels": 3}
        data = {"format": "text_classification", "tokenizer": self.path("tokenizer"),
                "train_files": ["train.tsv"], "validation_files": ["dev.jsonl"],
                "max_seq_length": 24, "length_grouped": True}
        config = self.config("pairs", model, data, run={"max_epochs": 12},
                             optimizer={"learning_rate": 2e-3, "betas": [0.9, 0.999]})
        job = self.train(config, 2)
        self.assertIn("360 samples", job.out)
        self.assertIn("40 rows skipped that have no label", job.out)
        self.assertIn("validation data: 6 rows skipped that have no label", job.out)
        last = self.last_validation("pairs")
        self.assertEqual(last["samples"], 54)
        self.assertGreater(last["accuracy"], 0.9)

    # Tables

    def test_a_table_with_classes(self):
        numbers = random.Random(2)
        centres = {"setosa, small": (1, 5, -2), 'the "big" one': (3, -4, 0), "other": (-2, 0, 3)}
        rows = []
        for _ in range(150):
            name = numbers.choice(list(centres))
            rows.append([*(round(x + numbers.gauss(0, 0.5), 3) for x in centres[name]), name])
        rows[7][1] = "wide"  # no number
        rows[9] = rows[9][:2]  # too few fields
        self.write_rows("t/train.csv", ["a", "b", "c", "kind"], rows[:120])
        self.write_rows("t/test.csv", ["a", "b", "c", "kind"], rows[120:])
        data = {"format": "csv", "train_files": ["t/train.csv"], "label_column": "kind",
                "validation_files": ["t/test.csv"], "standardize": True, "on_bad_row": "skip"}
        model = {"type": "mlp", "layer_sizes": [3, 16, 3]}
        config = self.config("classes", model, data, run={"max_epochs": 10},
                             optimizer={"learning_rate": 0.02})
        job = self.train(config, 2)
        self.assertIn("118 samples", job.out)
        self.assertIn("2 rows skipped that cannot be read", job.out)
        last = self.last_validation("classes")
        self.assertEqual(last["samples"], 30)
        self.assertGreater(last["accuracy"], 0.95)

        config["data"]["on_bad_row"] = "error"
        job = self.run_ddprun("--nproc_per_node=2", self.write_config(config))
        self.assertEqual(job.returncode, 2)
        for text in ("t/train.csv", "9", "wide"):
            self.assertIn(text, job.err)

    def test_rows_set_aside_are_as_if_they_stood_in_a_file_of_their_own(self):
        numbers = random.Random(5)
        rows = [[round(numbers.gauss(0, 1), 3), numbers.choice(["", 1, 3]), numbers.choice("pq")]
                for _ in range(100)]
        aside = [i for i in range(100) if (i + 1) * 10 // 100 > i * 10 // 100]
        for i in aside:
            rows[i][0] += 1000  # far outside
        names = ["a", "b", "kind"]
        self.write_rows("all.csv", names, rows)
        self.write_rows("train.csv", names, [rows[i] for i in range(100) if i not in aside])
        self.write_rows("val.csv", names, [rows[i] for i in aside])
        parts = {"fraction": {"train_files": ["all.csv"], "validation_fraction": 0.1},
                 "files": {"train_files": ["train.csv"], "validation_files": ["val.csv"]}}
        told, described = [], []
        for name, files in parts.items():
            data = {"format": "csv", "label_column": "kind", "standardize": True,
                    "on_missing": "mean", **files}
            model = {"type": "mlp", "layer_sizes": [2, 8, 2]}
            self.train(self.config(name, model, data, run={"max_epochs": 2}), 2)
            told.append([(line["split"], line["loss"]) for line in self.metrics(name)
                         if "split" in line])
            with open(self.path(f"runs/{name}/model/data.json")) as file:
                described.append(json.load(file))
        self.assertEqual(told[0], told[1])
        self.assertEqual(described[0], described[1])

    def test_a_table_with_numbers_to_predict(self):
        numbers = random.Random(3)
        rows = []
        for _ in range(200):
            a, b = numbers.uniform(-1, 1), numbers.uniform(-1, 1)
            colour = numbers.choice(list(COLOURS))
            rows.append([a, colour, b, 3 * a - 2 * b + len(colour)])
        self.write_rows("line.csv", ["a", "colour", "b", "y"], rows, delimiter=";")
        data = {"format": "csv", "train_files": ["line.csv"], "label_column": "y",
                "target_type": "number", "delimiter": ";", "validation_fraction": 0.2}
        config = self.config("line", {"type": "linear"}, data, run={"max_epochs": 30},
                             optimizer={"type": "sgd", "learning_rate": 0.2})
        job = self.train(config, 2)
        self.assertIn('column "colour" has 3 categories, an input each: blue, green, red', job.out)
        last = self.last_validation("line")
        self.assertEqual(last["samples"], 40)
        self.assertLess(last["loss"], 1e-6)
        with open(self.path("runs/line/model/data.json")) as file:
            inputs = json.load(file)["inputs"]
        self.assertEqual(inputs[1], {"column": "colour", "categories": ["blue", "green", "red"]})

    # Images

    def write_folder(self, name, numbers, count):
        for label, colour in COLOURS.items():
            os.makedirs(self.path(f"{name}/{label}"))
            for i in range(count):
                width = numbers.randint(14, 30)
                with open(self.path(f"{name}/{label}/{i}.png"), "wb") as file:
                    file.write(png(noisy(numbers, colour, width * 18), width))

    def test_a_folder_of_images_of_many_sizes_varied_at_random(self):
        numbers = random.Random(4)
        self.write_folder("train", numbers, 40)
        self.write_folder("val", numbers, 8)
        with open(self.path("train/red/broken.png"), "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n and no more")
        data = {"format": "image_folder", "train_files": ["train"], "validation_files": ["val"],
                "image_size": 12, "image_mean": [0.5], "image_std": [0.25], "random_flip": True,
                "random_resized_crop": True}
        model = {"type": "cnn", "channels": [4, 8], "hidden_size": 16}
        for ranks, threads in ((1, 0), (2, 2)):
            config = self.config(f"folder{ranks}", model, data,
                                 training={"per_device_train_batch_size": 16 // ranks})
            config["data"].update(dataloader_num_workers=threads, on_bad_row="skip")
            job = self.train(config, ranks)
            self.assertIn("120 samples", job.out)
            self.assertIn("1 image skipped", job.out)
        # How an image is varied depends neither on ranks nor on threads.
        one, two = self.losses("folder1"), self.losses("folder2")
        self.assertEqual(len(one), len(two))
        self.assertLess(max(abs(a - b) for a, b in zip(one, two)), 1e-4)
        last = self.last_validation("folder2")
        self.assertEqual(last["samples"], 24)
        self.assertGreater(last["accuracy"], 0.95)

    def write_idx(self, name, sizes, data):
        header = struct.pack(f">I{len(sizes)}I", 0x800 + len(sizes), *sizes)
        with gzip.open(self.path(name), "wb") as file:
            file.write(header + data)

    def test_idx_files_as_mnist_publishes_them(self):
        numbers = random.Random(6)
        for split, count in (("train", 160), ("t10k", 40)):
            digits = [numbers.randrange(10) for _ in range(count)]
            pixels = (min(255, numbers.randrange(60) + 190 * (at % 10 == digit))
                      for digit in digits for at in range(100))
            self.write_idx(f"{split}-images-idx3-ubyte.gz", (count, 10, 10), bytes(pixels))
            self.write_idx(f"{split}-labels-idx1-ubyte.gz", (count,), bytes(digits))
        data = {"format": "idx", "train_files": ["train-images-idx3-ubyte.gz"],
                "validation_files": ["t10k-images-idx3-ubyte.gz"]}
        self.train(self.config("digits", {"type": "linear"}, data, run={"max_epochs": 4},
                               optimizer={"learning_rate": 0.02}), 2)
        last = self.last_validation("digits")
        self.assertEqual(last["samples"], 40)
        self.assertGreater(last["accuracy"], 0.95)

        # Validation data of other classes or sizes is refused before a rank is started.
        digits[7] = 11
        self.write_idx("t10k-labels-idx1-ubyte.gz", (count,), bytes(digits))
        self.assert_refused(data, "t10k-labels-idx1-ubyte.gz", "Label 7 (from 0)", "is 11")
        self.write_idx("t10k-images-idx3-ubyte.gz", (2, 5, 5), bytes(50))
        self.write_idx("t10k-labels-idx1-ubyte.gz", (2,), bytes(2))
        self.assert_refused(data, "t10k-images-idx3-ubyte.gz", "1 x 5 x 5", "1 x 10 x 10")

    def test_cifars_binary_files_and_a_resnet(self):
        numbers = random.Random(5)
        classes = list(COLOURS.values())
        with open(self.path("data_batch_1.bin"), "wb") as file:
            for i in range(32):
                pixels = noisy(numbers, classes[i % 3], 1024)
                file.write(bytes([i % 3]) + pixels[0::3] + pixels[1::3] + pixels[2::3])
        data = {"format": "cifar10", "train_files": ["data_batch_*.bin"], "random_flip": True,
                "random_crop_padding": 4}
        config = self.config("cifar", {"type": "resnet18"}, data,
                             training={"per_device_train_batch_size": 4}, run={"max_steps": 4},
                             optimizer={"learning_rate": 1e-3})
        self.train(config, 2)
        losses = self.losses("cifar")
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])

    # Bad files

    def assert_refused(self, data, *texts):
        config = self.write_config(self.config("refused", {"type": "linear"}, data))
        job = self.run_ddprun("--nproc_per_node=2", config)
        self.assertEqual(job.returncode, 2, job.err)
        for text in texts:
            self.assertIn(text, job.err)

    def test_empty_files_of_every_kind_are_refused_by_name(self):
        os.makedirs(self.path("folder/red"))
        for name in ("table.csv", "x-images-idx3-ubyte", "x-labels-idx1-ubyte", "batch.bin",
                     "folder/red/a.png"):
            self.script(name, "")
        kinds = {"csv": ("table.csv", {"label_column": "y"}), "idx": ("x-images-idx3-ubyte", {}),
                 "cifar10": ("batch.bin", {}), "image_folder": ("folder", {})}
        for kind, (file, keys) in kinds.items():
            with self.subTest(format=kind):
                data = {"format": kind, "train_files": [file], **keys}
                config = self.config(kind, {"type": "linear"}, data)
                job = self.run_ddprun("--nproc_per_node=2", self.write_config(config))
                self.assertIn(job.returncode, (1, 2), job.err)
                self.assertIn(file, job.err)
                self.assertEqual(job.err.count("More: ddprun explain"), 1, job.err)
                self.assertFalse(os.path.exists(self.path("runs")))
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
