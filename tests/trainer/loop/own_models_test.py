"""Models of images, and models defined in Python, against PyTorch; scikit-learn's digits."""

import copy
import struct

import harness
import safetensors.torch
import sklearn.datasets
import torch
import torch.nn.functional as F
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


class BasicBlock(nn.Module):
    """torchvision.models.resnet.BasicBlock, as He et al. describe it."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + past)


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        past = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return F.relu(self.bn3(self.conv3(x)) + past)


class ResNet(nn.Module):
    def __init__(self, block, blocks, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        width, inputs = 64, 64
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(block(inputs, width, 2 if stage > 0 and i == 0 else 1))
                inputs = width * (4 if block is Bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            width *= 2
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4 * 36, 10)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


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

    def test_a_resnet_trains_from_torchvisions_names_as_in_pytorch(self):
        images, targets = self.write_digits()
        for name, block, steps in (("resnet18", BasicBlock, 4), ("resnet50", Bottleneck, 2)):
            torch.manual_seed(3)
            net = ResNet(block, [2, 2, 2, 2] if block is BasicBlock else [3, 4, 6, 3], 1, 10)
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
