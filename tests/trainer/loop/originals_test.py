"""Scripts of Lightning and of transformers.Trainer, and the configs that do the same: the losses,
learning rates, evaluations, the best step and the predictions. Two ranks each, the scripts under
torchrun."""

import csv
import json
import os
import random
import subprocess
import sys

import harness
import training

os.environ["HF_HUB_OFFLINE"] = "1"  # all folders are here
try:
    import lightning  # noqa: F401
    import torch
    import torchmetrics  # noqa: F401
    import transformers_test
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "originals")
# Runs a script. If it hangs, as one did once before its first line, it says where, and ends.
RUN = ("import faulthandler, runpy, sys; faulthandler.dump_traceback_later(240, exit=True); "
       "del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')")


class Originals(transformers_test.Files):
    def run_original(self, script, settings):
        settings.update(results=self.path("results.json"), checkpoints=self.path("original"))
        subprocess.run([TORCHRUN, "--standalone", "--nproc_per_node=2", "--no_python",
                        sys.executable, "-c", RUN, os.path.join(SCRIPTS, script),
                        self.script("settings.json", json.dumps(settings))],
                       cwd=self.folder, env={**self.env(), "GLOO_SOCKET_IFNAME": "lo"}, check=True,
                       stdout=subprocess.DEVNULL)
        with open(settings["results"]) as file:
            return json.load(file)

    def probabilities(self, run, file):
        return [list(row["probabilities"].values()) for row in self.predict(run, file)]

    def assert_close(self, found, expected, tolerance=1e-5):
        found, expected = (torch.tensor(values, dtype=torch.float64) for values in
                           (found, expected))
        self.assertEqual(found.shape, expected.shape)
        self.assertLess((found - expected).abs().max().item(), tolerance)

    def lines(self, run, split, *keys):
        return [[line[key] for key in keys] for line in self.metrics(run)
                if line.get("split") == split]

    def write_table(self, name, count, seed):
        draw = random.Random(seed)
        with open(self.path(name), "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c", "d", "label"])
            for _ in range(count):
                row = [round(draw.uniform(-1, 1), 3) for _ in range(4)]
                writer.writerow([*row, int(row[0] * row[1] > 0) + int(row[2] > row[3])])
        return self.path(name)

    def test_a_table_as_with_lightning(self):
        settings = {"train": self.write_table("train.csv", 160, 1),
                    "val": self.write_table("val.csv", 40, 2),
                    "test": self.write_table("test.csv", 60, 3), "batch": 10, "epochs": 12,
                    "sizes": [4, 16, 3], "learning_rate": 0.2, "clip": 0.4, "average": 0.9,
                    "threshold": 0.1, "seed": 7}
        expected = self.run_original("lightning_table.py", settings)
        self.train({
            "run": {"name": "table", "max_epochs": settings["epochs"], "seed": 7},
            "model": {"type": "mlp", "layer_sizes": settings["sizes"]},
            "data": {"format": "csv", "train_files": "train.csv", "validation_files": "val.csv",
                     "test_files": "test.csv", "label_column": "label", "standardize": False},
            "training": {"per_device_train_batch_size": 10, "max_grad_norm": settings["clip"]},
            "optimizer": {"type": "adam", "learning_rate": settings["learning_rate"],
                          "betas": [0.9, 0.999], "ema_decay": settings["average"]},
            "scheduler": {"lr_scheduler_type": "reduce_lr_on_plateau", "warmup_steps": 0,
                          "plateau_factor": 0.5, "plateau_patience": 1,
                          "plateau_threshold": settings["threshold"]},
            "evaluation": {"eval_steps": "1 epochs"},
            "checkpoint": {"save_best": "loss", "load_best_model_at_end": True},
            "report": {"logging_steps": 1},
        }, 2)
        steps = self.lines("table", "train", "loss", "learning_rate")
        self.assert_close([loss for loss, _ in steps], expected["losses"])
        self.assert_close([rate for _, rate in steps], expected["rates"], 1e-9)
        self.assertEqual(sorted(set(expected["rates"])), [0.025, 0.05, 0.1, 0.2])
        evaluations = self.lines("table", "validation", "loss", "accuracy")
        self.assert_close(evaluations, expected["evaluations"])
        losses = [loss for loss, _ in evaluations]
        self.assertEqual((losses.index(min(losses)) + 1) * 8, expected["best_step"])
        self.assertLess(expected["best_step"], 96)
        self.assert_close(self.lines("table", "test", "loss", "accuracy"), [expected["test"]])
        self.assert_close(self.probabilities("table", "test.csv"), expected["probabilities"])

    def test_pairs_as_with_the_trainer_of_transformers(self):
        torch.manual_seed(3)
        folder = self.path("bert")
        transformers_test.bert().save_pretrained(folder)
        self.write_pairs(folder)
        draw = random.Random(4)
        words = ("the", "old", "boat", "quiet", "mill")
        for name, count in (("train", 192), ("val", 64)):
            with open(self.path(f"{name}.jsonl"), "w") as file:
                for _ in range(count):
                    texts = [" ".join(draw.choices(words, k=draw.randint(2, 6))) for _ in range(2)]
                    kind = sum("boat" in text for text in texts)
                    file.write(json.dumps({"sentence1": texts[0], "sentence2": texts[1],
                                           "gold_label": transformers_test.LABELS[kind]}) + "\n")
        settings = {"model": folder, "train": self.path("train.jsonl"),
                    "val": self.path("val.jsonl"), "labels": transformers_test.LABELS, "batch": 4,
                    "epochs": 4, "learning_rate": 3e-3}
        expected = self.run_original("trainer_pairs.py", settings)
        self.train({
            "run": {"name": "pairs", "max_epochs": 4},
            "model": {"type": "bert", "name_or_path": folder},
            "data": {"format": "text_classification", "train_files": "train.jsonl",
                     "validation_files": "val.jsonl", "tokenizer": folder, "shuffle": False,
                     "labels": transformers_test.LABELS, "max_seq_length": 32},
            "training": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
                         "max_grad_norm": 1.0},
            "optimizer": {"learning_rate": 3e-3, "betas": [0.9, 0.999], "weight_decay": 0.01},
            "scheduler": {"lr_scheduler_type": "linear", "warmup_steps": 3},
            "evaluation": {"eval_steps": "1 epochs", "metrics": ["accuracy", "f1_macro"]},
            "checkpoint": {"save_best": "loss", "load_best_model_at_end": True},
            "report": {"logging_steps": 1},
        }, 2)
        # Trainer rounds losses to four decimals.
        self.assert_close(self.lines("pairs", "train", "loss"),
                          [[loss] for loss, _, _ in expected["steps"]], 1e-4)
        self.assert_close(self.lines("pairs", "train", "learning_rate", "grad_norm"),
                          [step[1:] for step in expected["steps"]], 1e-4)
        evaluations = self.lines("pairs", "validation", "loss", "accuracy", "f1_macro")
        self.assert_close(evaluations, expected["evaluations"])
        losses = [evaluation[0] for evaluation in evaluations]
        self.assertEqual((losses.index(min(losses)) + 1) * 12, expected["best_step"])
        self.assert_close(self.probabilities("pairs", "val.jsonl"), expected["probabilities"])


if __name__ == "__main__":
    harness.main()
