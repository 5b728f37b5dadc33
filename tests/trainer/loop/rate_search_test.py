"""scheduler.range_test: a run finds where numpy and scipy find that the loss falls fastest."""

import csv
import math
import os
import random
import re
import subprocess
import sys

import harness
import training

try:
    import numpy
    from scipy import ndimage
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STEPS = 120


class RateSearch(training.TrainingTest):
    def config(self, **scheduler):
        draw = random.Random(1)
        with open(self.path("rows.csv"), "w", newline="") as file:
            numbers = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(400)]
            csv.writer(file).writerows(
                [["a", "b", "sum"], *([a, b, 3 * a - 2 * b + 5] for a, b in numbers)])
        return {
            "run": {"name": "search", "max_steps": STEPS},
            "model": {"type": "mlp", "layer_sizes": [2, 16, 1]},
            "data": {"format": "csv", "train_files": ["rows.csv"], "label_column": "sum",
                     "target_type": "number", "validation_fraction": 0.1},
            "training": {"per_device_train_batch_size": 8, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": 0.003},
            "scheduler": {"warmup_steps": 10, "range_test": [1e-6, 100], **scheduler},
        }

    def test_names_the_rate_at_which_the_loss_falls_fastest(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                config = self.config()
                config["run"]["name"] = f"search{ranks}"
                job = self.train(config, ranks)
                lines = [line for line in self.metrics(f"search{ranks}")
                         if line.get("split") == "train"]
                rates = numpy.array([line["learning_rate"] for line in lines])
                self.assertEqual(len(rates), STEPS)
                numpy.testing.assert_allclose(rates, numpy.geomspace(1e-6, 100, STEPS), rtol=1e-6)
                losses = numpy.array([float(line["loss"]) for line in lines])
                self.assertFalse(numpy.isfinite(losses).all())  # and the run went on
                self.assert_suggests(job.out, rates, losses)

    def assert_suggests(self, out, rates, losses):
        broken = int(numpy.argmin(numpy.isfinite(losses)))
        medians = ndimage.median_filter(losses[:broken], size=5, mode="nearest")
        good = medians <= 4 * numpy.minimum.accumulate(medians)
        end = broken if good.all() else int(numpy.argmin(good))
        smooth = ndimage.uniform_filter1d(
            ndimage.median_filter(losses[:end], size=5, mode="nearest"),
            size=2 * (end // 40) + 1, mode="nearest")
        slopes = numpy.gradient(smooth, numpy.log(rates[:end]))
        fastest = 1 + int(numpy.argmin(slopes[1:-1]))
        least = int(numpy.argmin(smooth))
        found = re.search(
            r"learning rate: the loss falls fastest at (\S+), is least at (\S+), and diverges "
            r"above (\S+); to train: --set optimizer.learning_rate=\1\n", out)
        self.assertIsNotNone(found, out)
        for text, place in zip(found.groups(), (fastest, least, end - 1)):
            self.assertTrue(math.isclose(float(text), rates[place], rel_tol=0.01), text)

    def test_shows_its_curve_and_leaves_no_weights(self):
        self.train(self.config(), 1)
        self.assertFalse(os.path.exists(self.path("runs/search/model")))
        subprocess.run([os.environ["DDPRUN_TRAINER_PROGRAM"], "report", "runs/search"], check=True,
                       cwd=self.path("."), stdout=subprocess.DEVNULL, timeout=60)
        with open(self.path("runs/search/report.html")) as file:
            page = file.read()
        self.assertIn("<h3>loss by learning rate</h3>", page)
        self.assertIn("; falls fastest at ", page)

    def test_refuses_ends_that_are_no_range(self):
        for ends in ([1e-3], [1, 1e-3], [1e-3, 1, 2]):
            with self.subTest(ends=ends):
                job = self.run_ddprun(self.write_config(self.config(range_test=ends)))
                self.assertEqual(job.returncode, 2, job.err)
                self.assertIn("A search has a first and a higher last learning rate:", job.err)


if __name__ == "__main__":
    harness.main()
