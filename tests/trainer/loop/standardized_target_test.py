"""data.standardize_target: training, metrics and predictions beside PyTorch and scikit-learn."""

import csv
import itertools
import json
import random
import sys

import harness
import training

try:
    import numpy
    import torch
    from sklearn import metrics
    from sklearn.preprocessing import StandardScaler
    from torch import nn
    from torch.nn import functional
    from torch_batches import whole_batches
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STEPS = 40
BATCH = 5
RANKS = 2


def rows(count, seed):
    """Rooms, and the price of a house: numbers so large that plain steps of SGD diverge."""
    draw = random.Random(seed)
    for _ in range(count):
        a, b = draw.gauss(0, 1), draw.gauss(0, 1)
        yield [a, b, 250_000 + 60_000 * a - 20_000 * b + draw.gauss(0, 1000)]


class StandardizedTarget(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.tables = {"train": list(rows(80, 1)), "validation": list(rows(31, 2))}
        for name, table in self.tables.items():
            with open(self.path(f"{name}.csv"), "w", newline="") as file:
                csv.writer(file).writerows([["a", "b", "price"], *table])

    def config(self, **data):
        return {
            "run": {"name": "prices", "max_steps": STEPS, "seed": 5},
            "model": {"type": "mlp", "layer_sizes": [2, 8, 1]},
            "data": {"format": "csv", "train_files": ["train.csv"],
                     "validation_files": ["validation.csv"], "label_column": "price",
                     "target_type": "number", "standardize_target": True, "data_seed": 3, **data},
            "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": 0.05, "weight_decay": 0},
            "scheduler": {"lr_scheduler_type": "constant"},
            "evaluation": {"metrics": ["mse", "rmse", "mae", "r2"]},
            "report": {"logging_steps": 1},
        }

    def train_in_pytorch(self):
        """The losses, and the predictions and the loss for the validation data."""
        table = torch.tensor(self.tables["train"], dtype=torch.float64)
        scaler = StandardScaler().fit(table[:, 2:])
        inputs = table[:, :2].float()
        targets = torch.tensor(scaler.transform(table[:, 2:])).float()
        torch.manual_seed(5)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        losses = []
        for chosen in itertools.islice(whole_batches(len(inputs), RANKS, BATCH, seed=3), STEPS):
            loss = functional.mse_loss(net(inputs[chosen]), targets[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        table = torch.tensor(self.tables["validation"], dtype=torch.float64)
        with torch.no_grad():
            outputs = net(table[:, :2].float()).double()
        loss = functional.mse_loss(outputs, torch.tensor(scaler.transform(table[:, 2:])))
        return losses, scaler.inverse_transform(outputs)[:, 0], loss.item()

    def assert_near(self, found, expected, tolerance=1e-5):
        numpy.testing.assert_allclose(found, expected, rtol=tolerance)

    def test_trains_and_predicts_as_with_a_standard_scaler(self):
        self.train(self.config(), RANKS)
        losses, predictions, loss = self.train_in_pytorch()
        self.assert_near(self.losses("prices"), losses)
        actual = [row[2] for row in self.tables["validation"]]
        expected = {"loss": loss, "mse": metrics.mean_squared_error(actual, predictions),
                    "rmse": metrics.root_mean_squared_error(actual, predictions),
                    "mae": metrics.mean_absolute_error(actual, predictions),
                    "r2": metrics.r2_score(actual, predictions)}
        in_training = [line for line in self.metrics("prices")
                       if line.get("split") == "validation"][-1]
        evaluations = [in_training]
        for saved in ("prices", "prices/model", f"prices/checkpoints/step-{STEPS}"):
            with self.subTest(saved):
                evaluations.append(self.evaluate(saved, "validation.csv"))
                found = [row["value"] for row in self.predict(saved, "validation.csv")]
                self.assert_near(found, predictions)
        for evaluation in evaluations:
            for name, value in expected.items():
                self.assert_near(evaluation[name], value, 1e-4)

    def test_leaves_its_mean_and_deviation_beside_the_model(self):
        self.train(self.config(), 1)
        prices = [row[2] for row in self.tables["train"]]
        with open(self.path("runs/prices/model/data.json")) as file:
            target = json.load(file)["target"]
        self.assertEqual(target["column"], "price")
        self.assert_near(target["mean"], numpy.mean(prices))
        self.assert_near(target["deviation"], numpy.std(prices))

    def test_is_not_for_classes(self):
        job = self.run_ddprun(self.write_config(self.config(target_type="class")))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn("Classes have no mean and deviation:", job.err)


if __name__ == "__main__":
    harness.main()
