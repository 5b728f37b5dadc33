"""The example plugin, trained by ddprun with two ranks, against the same module in PyTorch."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

EXAMPLE = os.environ["DDPRUN_PLUGIN_EXAMPLE"]
STEPS, BATCH, RATE = 12, 16, 0.05


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv1d(16, 16, 5, padding=2)
        self.head = nn.Linear(16 * 32, 1)

    def forward(self, x):
        return self.head(F.gelu(self.conv2(F.gelu(self.conv1(x[:, None])))).flatten(1))


def read_waves():
    with open(os.path.join(EXAMPLE, "train.waves"), "rb") as file:
        magic, count, length = struct.unpack("<8sii", file.read(16))
        assert magic == b"WAVES 1\n"
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).view(count, length)


def validation_rows(size, count):
    """Returns the rows that a validation_fraction sets aside: at equal distances."""
    return [i for i in range(size) if (i + 1) * count // size > i * count // size]


class Plugin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_ddprun(self, ranks=2, **sections):
        config = {
            "run": {"name": "waves", "max_steps": STEPS, "output_dir": self.path("run")},
            "model": {
                "type": "plugin",
                "path": os.path.join(EXAMPLE, "build/libwaves.so"),
                "options": {"huber_delta": 0.1},
            },
            "data": {
                "format": "plugin",
                "train_files": os.path.join(EXAMPLE, "train.waves"),
                "shuffle": False,
            },
            "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": RATE},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        with open(self.path("train.json"), "w") as file:
            json.dump(config, file)
        return subprocess.run(
            [os.environ["DDPRUN_PROGRAM"], f"--nproc_per_node={ranks}", self.path("train.json")],
            capture_output=True, text=True, timeout=120)

    def lines(self, split):
        with open(self.path("run/metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        return [line for line in lines if line.get("split") == split]

    def losses(self):
        return [line["loss"] for line in self.lines("train")]

    def test_gradients_clipped_by_value_are_those_of_pytorch(self):
        most = 0.002
        for strategy in ("ddp", "zero1", "zero2"):
            with self.subTest(strategy=strategy):
                torch.manual_seed(3)
                net = Net()
                safetensors.torch.save_file(net.state_dict(), self.path("start.safetensors"))
                job = self.run_ddprun(
                    model={"name_or_path": self.path("start.safetensors")},
                    run={"max_steps": 60, "name": strategy, "output_dir": self.path("run")},
                    training={"max_grad_value": most}, strategy={"type": strategy})
                self.assertEqual(job.returncode, 0, job.stderr)
                waves = read_waves()
                optimizer = torch.optim.SGD(net.parameters(), RATE)
                found = self.losses()
                self.assertEqual(len(found), 60)
                for step in range(60):
                    rows = waves[step * 2 * BATCH : (step + 1) * 2 * BATCH]
                    optimizer.zero_grad()
                    loss = F.huber_loss(net(rows[:, :-1]), rows[:, -1:], delta=0.1)
                    loss.backward()
                    clipped = sum((p.grad.abs() > most).sum().item() for p in net.parameters())
                    if step == 0:
                        self.assertGreater(clipped, 100)
                    torch.nn.utils.clip_grad_value_(net.parameters(), most)
                    optimizer.step()
                    self.assertLess(abs(found[step] - loss.item()), 1e-5, f"step {step + 1}")
                shutil.rmtree(self.path("run"))

    def test_losses_and_weights_are_those_of_pytorch(self):
        torch.manual_seed(3)
        net = Net()
        safetensors.torch.save_file(net.state_dict(), self.path("start.safetensors"))
        job = self.run_ddprun(model={"name_or_path": self.path("start.safetensors")})
        self.assertEqual(job.returncode, 0, job.stderr)
        waves = read_waves()
        optimizer = torch.optim.SGD(net.parameters(), RATE)
        found = self.losses()
        self.assertEqual(len(found), STEPS)
        for step in range(STEPS):
            rows = waves[step * 2 * BATCH : (step + 1) * 2 * BATCH]
            optimizer.zero_grad()
            loss = F.huber_loss(net(rows[:, :-1]), rows[:, -1:], delta=0.1)
            loss.backward()
            optimizer.step()
            self.assertLess(abs(found[step] - loss.item()), 1e-5, f"step {step + 1}")
        saved = safetensors.torch.load_file(self.path("run/model/model.safetensors"))
        self.assertEqual(sorted(saved), sorted(net.state_dict()))
        for name, tensor in net.state_dict().items():
            self.assertTrue(torch.allclose(saved[name], tensor, atol=1e-5), name)

    def test_bfloat16_and_evaluation_work_with_a_plugin(self):
        job = self.run_ddprun(
            run={"max_steps": 60}, training={"precision": "bf16"},
            optimizer={"type": "adam", "learning_rate": 0.003}, data={"validation_fraction": 0.01})
        self.assertEqual(job.returncode, 0, job.stderr)
        losses = self.losses()
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertIn("validation loss", job.stdout)

    def test_own_metrics_are_those_of_pytorch_over_all_validation_samples(self):
        # 11 samples: some ranks have one more than others, and the last batches are shorter.
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                job = self.run_ddprun(
                    ranks=ranks, run={"max_steps": 20}, data={"validation_fraction": 0.0028},
                    training={"per_device_eval_batch_size": 4},
                    optimizer={"type": "adam", "learning_rate": 0.003},
                    evaluation={"metrics": "mae"})
                self.assertEqual(job.returncode, 0, job.stderr)
                (found,) = self.lines("validation")
                self.assertEqual(found["samples"], 11)
                net = Net()
                net.load_state_dict(
                    safetensors.torch.load_file(self.path("run/model/model.safetensors")))
                waves = read_waves()[validation_rows(4000, 11)]
                with torch.no_grad():
                    errors = (net(waves[:, :-1]) - waves[:, -1:]).double().abs()
                self.assertAlmostEqual(found["within_0.1"], (errors <= 0.1).double().mean().item())
                self.assertLess(abs(found["rmse"] - errors.square().mean().sqrt()), 1e-5)
                self.assertLess(abs(found["mae"] - errors.mean()), 1e-5)
                self.assertRegex(
                    job.stdout, r"validation loss \S+  mae \S+  within_0.1 0\.\d+  rmse 0\.\d+")
                shutil.rmtree(self.path("run"))

    def test_a_mistake_in_its_options_is_told_once_before_any_rank_starts(self):
        job = self.run_ddprun(data={"options": {"scale": "large"}})
        self.assertEqual(job.returncode, 1)
        self.assertEqual(job.stderr.count("ERROR IN THE PLUGIN"), 1, job.stderr)
        self.assertIn("While opening the data set, the plugin threw:", job.stderr)
        self.assertIn("type must be number, but is string", job.stderr)

    def test_a_file_that_is_no_plugin_is_a_mistake_in_the_config(self):
        job = self.run_ddprun(model={"path": os.environ["DDPRUN_PROGRAM"]})
        self.assertEqual(job.returncode, 2)
        self.assertEqual(job.stderr.count("PLUGIN CANNOT BE USED"), 1, job.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
