"""Models of images, and models defined in Python, against PyTorch; scikit-learn's digits."""

import copy
import struct

import harness
import safetensors.torch
import sklearn.datasets
import torch
import torch.nn.functional as F
import torchvision
import training
from torch import nn


def write_idx(path, array):
    code = {torch.uint8: 0x08}[array.dtype]
    with open(path, "wb") as file:
        file.write(bytes([0, 0, code, array.dim()]))
        file.write(struct.pack(f">{array.dim()}I", *array.shape))
        file.write(array.contiguous().numpy().tobytes())


def digits():
    """1797 images [8, 8] of values up to 255, and their classes."""
    images, targets = sklearn.datasets.load_digits(return_X_y=True)
    images = torch.tensor(images).mul(255 / 16).round().to(torch.uint8).view(-1, 8, 8)
    return images, torch.tensor(targets).to(torch.uint8)


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4 * 36, 10)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


class TiedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.tanh(self.first(x.flatten(1)))
        return self.head(torch.tanh(self.second(x)))


class NetWithLoss(SmallNet):
    def forward(self, x, targets):
        outputs = self.head(self.body(x).flatten(1))
        return F.cross_entropy(outputs, targets), outputs


def train_in_pytorch(net, images, targets, steps, ranks, batch, lr):
    """DistributedDataParallel in one process: running statistics are those of rank 0."""
    optimizer = torch.optim.SGD(net.parameters(), lr)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        buffers = copy.deepcopy(dict(net.named_buffers()))
        total = 0.0
        for rank in reversed(range(ranks)):  # rank 0 last: its buffers stay
            with torch.no_grad():
                for name, buffer in net.named_buffers():
                    buffer.copy_(buffers[name])
            mine = [ranks * (step * batch + i) + rank for i in range(batch)]
            loss = F.cross_entropy(net(images[mine]), targets[mine])
            (loss / ranks).backward()
            total += loss.item() / ranks
        optimizer.step()
        losses.append(total)
    return losses


class OwnModels(training.TrainingTest):
    steps, batch, lr = 10, 8, 0.05

    def write_digits(self, count=None):
        images, targets = digits()
        write_idx(self.path("digits-images-idx3-ubyte"), images[:count])
        write_idx(self.path("digits-labels-idx1-ubyte"), targets[:count])
        return images[:count].unsqueeze(1) / 255, targets[:count].long()

    def config(self, name, model, **sections):
        config = {
            "run": {"name": name, "max_steps": self.steps},
            "model": model,
            "data": {
                "format": "idx",
                "train_files": [self.path("digits-images-idx3-ubyte")],
                "shuffle": False,
            },
            "training": {"per_device_train_batch_size": self.batch, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": self.lr},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return config

    def assert_equal_losses(self, name, expected, tolerance):
        found = self.losses(name)
        self.assertEqual(len(found), len(expected))
        for step, (a, b) in enumerate(zip(found, expected)):
            self.assertLess(abs(a - b), tolerance, f"step {step + 1}: {a} instead of {b}")

    def saved(self, name):
        return safetensors.torch.load_file(self.path(f"runs/{name}/model/model.safetensors"))

    def assert_same_state(self, found, expected, tolerance):
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            difference = (found[name].double() - tensor.double()).abs().max().item()
            self.assertLess(difference, tolerance, name)

    def test_a_resnet_trains_from_torchvisions_weights_as_in_pytorch(self):
        images, targets = self.write_digits()
        for name, steps in (("resnet18", 4), ("resnet50", 2)):
            torch.manual_seed(3)
            net = getattr(torchvision.models, name)(num_classes=10)
            net.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)  # the digits are grey
            safetensors.torch.save_file(net.state_dict(), self.path(f"{name}.safetensors"))
            model = {"type": name, "name_or_path": self.path(f"{name}.safetensors")}
            config = self.config(
                name, model, run={"max_steps": steps}, optimizer={"learning_rate": 0.01}
            )
            self.train(config, 2)
            losses = train_in_pytorch(net, images, targets, steps, 2, self.batch, 0.01)
            self.assert_equal_losses(name, losses, 1e-3)
            state = net.state_dict()
            found = self.saved(name)
            self.assertEqual(found["bn1.num_batches_tracked"].item(), steps)
            self.assert_same_state(found, state, 2e-2)

    def test_a_cnn_learns_the_digits(self):
        self.write_digits()
        config = self.config(
            "digits",
            {"type": "cnn", "channels": [16, 32], "hidden_size": 64},
            run={"max_steps": -1, "max_epochs": 12},
            data={"shuffle": True, "validation_fraction": 0.2},
            training={"per_device_train_batch_size": 16},
            optimizer={"type": "adam", "learning_rate": 3e-3},
            evaluation={"metrics": ["accuracy", "f1_macro", "mcc"]},
            report={"logging_steps": 100},
        )
        job = self.train(config, 2)
        last = [line for line in self.metrics("digits") if line.get("split") == "validation"][-1]
        self.assertEqual(last["samples"], 359)
        for metric in ("accuracy", "f1_macro", "mcc"):
            self.assertGreater(last[metric], 0.95, metric)
        self.assertIn(f"accuracy {last['accuracy']:.4f}", job.out)

    def test_a_scripted_module_trains_as_in_pytorch_and_is_read_back(self):
        images, targets = self.write_digits()
        torch.manual_seed(5)
        net = SmallNet()
        torch.jit.script(net).save(self.path("small.pt"))
        self.train(self.config("small", {"type": "torchscript", "path": self.path("small.pt")}), 2)
        losses = train_in_pytorch(net, images, targets, self.steps, 2, self.batch, self.lr)
        self.assert_equal_losses("small", losses, 1e-5)
        saved = torch.jit.load(self.path("runs/small/model/model.pt"))
        self.assert_same_state(saved.state_dict(), net.state_dict(), 1e-5)
        saved.eval(), net.eval()
        self.assertTrue(torch.allclose(saved(images[:9]), net(images[:9]), atol=1e-4))

    def test_a_traced_module_trains_as_in_pytorch(self):
        images, targets = self.write_digits()
        torch.manual_seed(6)
        net = SmallNet().train()  # a trace keeps the mode: batch norm goes on as in training
        traced = torch.jit.trace(copy.deepcopy(net), images[:3])
        traced.save(self.path("traced.pt"))
        net.load_state_dict(traced.state_dict())  # tracing has run it
        self.train(
            self.config("traced", {"type": "torchscript", "path": self.path("traced.pt")}), 2
        )
        losses = train_in_pytorch(net, images, targets, self.steps, 2, self.batch, self.lr)
        self.assert_equal_losses("traced", losses, 1e-5)
        saved = torch.jit.load(self.path("runs/traced/model/model.pt"))
        self.assert_same_state(saved.state_dict(), net.state_dict(), 1e-5)

    def test_of_a_traced_module_tied_weights_are_trained_once_and_frozen_ones_never(self):
        images, targets = self.write_digits()
        torch.manual_seed(7)
        net = TiedNet()
        torch.jit.trace(copy.deepcopy(net), images[:3]).save(self.path("tied.pt"))
        model = {"type": "torchscript", "path": self.path("tied.pt")}
        for ranks in (1, 2):
            name = f"tied{ranks}"
            self.train(self.config(name, model), ranks)
            expected = copy.deepcopy(net)
            losses = train_in_pytorch(
                expected, images, targets, self.steps, ranks, self.batch, self.lr
            )
            self.assert_equal_losses(name, losses, 1e-5)
            saved = torch.jit.load(self.path(f"runs/{name}/model/model.pt"))
            self.assert_same_state(saved.state_dict(), expected.state_dict(), 1e-5)

    def test_layers_that_tracing_left_in_one_mode_are_told_of(self):
        images, _ = self.write_digits()
        net = nn.Sequential(SmallNet(), nn.Dropout(0.5))
        cases = {
            "eval": (torch.jit.trace(net.eval(), images[:3]),
                     "traced after eval(): the mode of its batch norm and dropout is that of "
                     "evaluation, also in training"),
            "train": (torch.jit.trace(net.train(), images[:3], check_trace=False),
                      "traced after train(): the mode of its batch norm and dropout is that of "
                      "training, also in validation"),
            "script": (torch.jit.script(net), None),
        }
        for name, (module, text) in cases.items():
            module.save(self.path(f"{name}.pt"))
            job = self.train(self.config(
                name, {"type": "torchscript", "path": self.path(f"{name}.pt")}))
            self.assertEqual(job.out.count("model: traced"), 0 if text is None else 1, job.out)
            self.assertIn(text or "", job.out)

    def test_a_module_that_takes_targets_gives_its_own_loss(self):
        images, targets = self.write_digits()
        torch.manual_seed(5)
        net = NetWithLoss()
        torch.jit.script(net).save(self.path("loss.pt"))
        config = self.config("loss", {"type": "torchscript", "path": self.path("loss.pt")})
        config["data"]["validation_fraction"] = 0.1
        self.train(config, 1)
        accuracy = [m["accuracy"] for m in self.metrics("loss") if m.get("split") == "validation"]
        self.assertEqual(len(accuracy), 1)
        for key, value in (("label_smoothing", 0.1), ("class_weights", [1] * 9 + [2])):
            refused = {**config, "training": {**config["training"], key: value}}
            job = self.run_ddprun("--nproc_per_node=1", self.write_config(refused))
            self.assertNotEqual(job.returncode, 0)
            self.assertIn("gives the loss itself", job.err)

    def test_a_module_without_parameters_is_refused(self):
        self.write_digits(20)
        frozen = torch.jit.freeze(torch.jit.script(SmallNet()).eval())
        frozen.save(self.path("frozen.pt"))
        config = self.config("frozen", {"type": "torchscript", "path": self.path("frozen.pt")})
        job = self.run_ddprun("--nproc_per_node=1", self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn("-- NOTHING TO TRAIN", job.err)
        self.assertIn("torch.jit.freeze", job.err)

    def test_a_file_that_is_no_torchscript_is_refused(self):
        self.write_digits(20)
        torch.save({"weights": torch.zeros(3)}, self.path("other.pt"))
        config = self.config("other", {"type": "torchscript", "path": self.path("other.pt")})
        job = self.run_ddprun("--nproc_per_node=1", self.write_config(config))
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("TORCHSCRIPT FILE CANNOT BE USED", job.err)
        self.assertIn("other.pt", job.err)


if __name__ == "__main__":
    torch.set_num_threads(1)
    harness.main()
