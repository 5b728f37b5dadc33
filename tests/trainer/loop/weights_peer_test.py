"""data.weight_column: losses and evaluations of weighted rows beside PyTorch and scikit-learn."""

import csv
import itertools
import json
import random
import sys

import harness
import training

try:
    import torch
    from sklearn import metrics
    from torch import nn
    from torch.nn import functional
    from torch_batches import whole_batches
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STEPS = 30
BATCH = 6
CLASSES = ["ash", "birch", "cedar"]
RANKS = 2


def rows(count, seed):
    """Two numbers, the class and the number that follow from them, and a weight."""
    draw = random.Random(seed)
    for _ in range(count):
        a, b = draw.gauss(0, 1), draw.gauss(0, 1)
        name = CLASSES[(a > 0) + (a + b > 0.5)]
        yield [a, b, name, 2 * a - b + draw.gauss(0, 0.1), draw.choice((0.125, 0.5, 1, 7))]


class Weights(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.tables = {"train": list(rows(100, 1)), "validation": list(rows(41, 2))}
        for name, table in self.tables.items():
            with open(self.path(f"{name}.csv"), "w", newline="") as file:
                # The weight stands between two inputs, and is none.
                csv.writer(file).writerows(
                    [["a", "weight", "b", "name", "number"],
                     *([a, weight, b, name, number] for a, b, name, number, weight in table)])

    def config(self, name, kind, **sections):
        number = kind == "number"
        target, other = ("number", "name") if number else ("name", "number")
        config = {
            "run": {"name": name, "max_steps": STEPS, "seed": 7},
            "model": {"type": "mlp", "layer_sizes": [2, 8, 1 if number else 3]},
            "data": {"format": "csv", "train_files": ["train.csv"],
                     "validation_files": ["validation.csv"], "label_column": target,
                     "feature_columns": ["a", "b"], "weight_column": "weight",
                     "target_type": kind, "data_seed": 3},
            "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": 0.05, "weight_decay": 0},
            "scheduler": {"lr_scheduler_type": "constant"},
            "evaluation": {"eval_steps": 10,
                           "metrics": ["mse"] if number else ["accuracy"]},
            "report": {"logging_steps": 1},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return config

    def tensors(self, table, number, of_classes):
        inputs = torch.tensor([row[:2] for row in self.tables[table]])
        weights = torch.tensor([row[4] for row in self.tables[table]])
        if number:
            return inputs, torch.tensor([[row[3]] for row in self.tables[table]]), weights
        classes = torch.tensor([CLASSES.index(row[2]) for row in self.tables[table]])
        return inputs, classes, weights * torch.tensor(of_classes)[classes]

    def train_in_pytorch(self, number, accumulated=1, of_classes=(1, 1, 1)):
        """The losses of the steps, and (loss, metric) of each evaluation, in one process."""
        loss_of = functional.mse_loss if number else functional.cross_entropy
        inputs, targets, weights = self.tensors("train", number, of_classes)
        validation = self.tensors("validation", number, of_classes)
        torch.manual_seed(7)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1 if number else 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

        def mean(inputs, targets, weights):
            losses = loss_of(net(inputs), targets, reduction="none").flatten()
            return (losses * weights).sum() / weights.sum()

        losses, evaluations = [], []
        batches = whole_batches(len(inputs), RANKS, BATCH * accumulated, seed=3)
        for chosen in itertools.islice(batches, STEPS):
            loss = mean(inputs[chosen], targets[chosen], weights[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 10 == 0:
                evaluations.append(self.evaluate_in_pytorch(net, mean, *validation))
        return losses, evaluations

    def evaluate_in_pytorch(self, net, mean, inputs, targets, weights):
        with torch.no_grad():
            loss, outputs = mean(inputs, targets, weights).item(), net(inputs)
        # Metrics count each row once.
        if targets.is_floating_point():
            return loss, metrics.mean_squared_error(targets, outputs)
        return loss, metrics.accuracy_score(targets, outputs.argmax(1))

    def assert_equal_to(self, expected, name, metric, tolerance=2e-6):
        losses, evaluations = expected
        lines = self.metrics(name)
        found = self.losses(name)
        self.assertEqual(len(found), STEPS)
        for step, pair in enumerate(zip(found, losses), 1):
            self.assertLess(abs(pair[0] - pair[1]), tolerance * max(1, pair[1]), step)
        found = [(line["loss"], line[metric]) for line in lines
                 if line.get("split") == "validation"]
        self.assertEqual(len(found), len(evaluations))
        for pair in zip(found, evaluations):
            for ours, theirs in zip(*pair):
                self.assertLess(abs(ours - theirs), tolerance * max(1, theirs), pair)

    def test_of_classes_equal_pytorchs_weighted_mean(self):
        expected = self.train_in_pytorch(number=False)
        for strategy in ("ddp", "zero1", "zero2", "zero3"):
            with self.subTest(strategy):
                self.train(self.config(strategy, "class", strategy={"type": strategy}), RANKS)
                self.assert_equal_to(expected, strategy, "accuracy")

    def test_of_numbers_and_micro_batches_do_too(self):
        expected = self.train_in_pytorch(number=True)
        self.train(self.config("number", "number"), RANKS)
        self.assert_equal_to(expected, "number", "mse")
        expected = self.train_in_pytorch(number=True, accumulated=3)
        self.train(self.config("micro", "number", training={"gradient_accumulation_steps": 3}),
                   RANKS)
        self.assert_equal_to(expected, "micro", "mse")

    def test_multiply_the_weights_of_classes(self):
        expected = self.train_in_pytorch(number=False, of_classes=[0.5, 1.0, 3.0])
        config = self.config("both", "class", training={"class_weights": [0.5, 1, 3]})
        self.train(config, RANKS)
        self.assert_equal_to(expected, "both", "accuracy")

    def test_are_no_input_of_a_run_without_named_inputs(self):
        config = self.config("all", "class", run={"max_steps": 1})
        config["model"]["layer_sizes"] = [3, 8, 3]  # a, b and number
        del config["data"]["feature_columns"]
        self.train(config, 1)
        with open(self.path("runs/all/model/data.json")) as file:
            self.assertEqual([column["column"] for column in json.load(file)["inputs"]],
                             ["a", "b", "number"])

    def test_are_not_asked_for_in_predictions(self):
        self.train(self.config("used", "class"), 1)
        expected = None
        for columns in (["a", "b"], ["a", "weight", "b"]):
            with self.subTest(columns):
                with open(self.path("new.csv"), "w", newline="") as file:
                    csv.writer(file).writerows(
                        [columns, *([row[0], row[1]] if len(columns) == 2 else
                                    [row[0], "?", row[1]] for row in self.tables["validation"])])
                found = self.predict("used", "new.csv")
                expected = expected or found
                self.assertEqual(found, expected)
                self.assertEqual(len(found), 41)

    def test_must_be_positive_numbers(self):
        for wrong, shown in (("0", '"0"'), ("-1", '"-1"'), ("", '""'), ("much", '"much"'),
                             ("inf", '"inf"')):
            with self.subTest(wrong):
                self.script("train.csv", f"a,weight,b,name\n1,2,3,ash\n1,{wrong},3,birch\n")
                config = self.config("wrong", "class")
                del config["data"]["validation_files"]
                job = self.run_ddprun(self.write_config(config))
                self.assertEqual(job.returncode, 2, job.err)
                self.assertIn("train.csv:3", job.err)
                self.assertIn(f'"weight", which data.weight_column names, is {shown}; a number '
                              "above 0 was expected.", " ".join(job.err.split()))


if __name__ == "__main__":
    harness.main()
