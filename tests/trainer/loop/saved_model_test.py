"""The files of model/ are enough to use the model without ddprun: with them alone PyTorch,
torchvision and transformers make the inputs, and get the validation loss and accuracy of the
run."""

import csv
import json
import os
import random
import struct
import sys

import harness
import training

try:
    import PIL.Image
    import safetensors.torch
    import torch
    import torchvision
    import transformers
    from torch.nn import functional as F
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

COLOURS = {"blue": (40, 60, 200), "green": (50, 190, 60), "red": (210, 50, 40)}


class SavedModel(training.TrainingTest):
    def run_and_read(self, model, data):
        """Trains; returns the last validation line, and model/, its config and weights."""
        self.train({
            "run": {"name": "run", "max_epochs": 2},
            "model": model,
            "data": data,
            "training": {"per_device_train_batch_size": 8},
            "optimizer": {"type": "adam", "learning_rate": 1e-3},
            "evaluation": {"metrics": ["accuracy"]},
        })
        last = [line for line in self.metrics("run") if line.get("split") == "validation"][-1]
        folder = self.path("runs/run/model")
        with open(os.path.join(folder, "config.json")) as file:
            config = json.load(file)
        weights = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
        return last, folder, config, weights

    def check(self, last, outputs, targets):
        with torch.no_grad():
            loss = F.cross_entropy(outputs, targets).item()
        self.assertAlmostEqual(last["loss"], loss, delta=2e-4)
        accuracy = (outputs.argmax(1) == targets).double().mean().item()
        self.assertAlmostEqual(last["accuracy"], accuracy, delta=1e-6)

    def test_images_of_many_sizes(self):
        numbers = random.Random(1)
        for split, count in (("train", 8), ("val", 5)):
            for label, colour in COLOURS.items():
                os.makedirs(self.path(f"{split}/{label}"))
                for i in range(count):
                    # The margins around the middle are even: transformers rounds odd ones down.
                    size = (40, 56) if i % 2 else (72, 48)
                    pixels = bytes(min(255, max(0, value + numbers.randint(-60, 60)))
                                   for _ in range(size[0] * size[1]) for value in colour)
                    PIL.Image.frombytes("RGB", size, pixels).save(
                        self.path(f"{split}/{label}/{i}.png"))
        data = {"format": "image_folder", "train_files": ["train"], "validation_files": ["val"],
                "image_size": 32, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
        last, folder, config, weights = self.run_and_read({"type": "resnet18"}, data)
        labels = {int(index): name for index, name in config["id2label"].items()}
        self.assertEqual(labels, dict(enumerate(COLOURS)))
        processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
        net = torchvision.models.resnet18(num_classes=len(labels))
        net.load_state_dict(weights)
        names = [(index, self.path(f"val/{name}/{i}.png"))
                 for index, name in labels.items() for i in range(5)]
        images = [PIL.Image.open(path) for _, path in names]
        with torch.no_grad():
            outputs = net.eval()(processor(images, return_tensors="pt")["pixel_values"])
        self.check(last, outputs, torch.tensor([index for index, _ in names]))

    def test_images_in_arrays(self):
        torch.manual_seed(1)
        for split, count in (("train", 64), ("t10k", 30)):
            images = torch.randint(0, 256, (count, 6, 5), dtype=torch.uint8)
            targets = (images.view(count, -1).double().mean(1) > 127).to(torch.uint8)
            for name, array in (("images-idx3", images), ("labels-idx1", targets)):
                with open(self.path(f"{split}-{name}-ubyte"), "wb") as file:
                    file.write(bytes([0, 0, 8, array.dim()]))
                    file.write(struct.pack(f">{array.dim()}I", *array.shape))
                    file.write(array.numpy().tobytes())
        data = {"format": "idx", "train_files": ["train-images-idx3-ubyte"], "image_mean": [0.3],
                "validation_files": ["t10k-images-idx3-ubyte"], "image_std": [0.2],
                "labels": ["dark", "bright"]}
        last, folder, config, weights = self.run_and_read({"type": "linear"}, data)
        self.assertEqual(config["id2label"], {"0": "dark", "1": "bright"})
        with open(os.path.join(folder, "preprocessor_config.json")) as file:
            made = json.load(file)
        self.assertEqual(made["size"], {"height": 6, "width": 5})
        inputs = images * made["rescale_factor"]
        inputs = (inputs - made["image_mean"][0]) / made["image_std"][0]
        [weight], [bias] = ([value for name, value in weights.items() if name.endswith(end)]
                            for end in (".weight", ".bias"))
        self.check(last, F.linear(inputs.view(len(images), -1), weight, bias), targets.long())

    def test_a_table(self):
        numbers = random.Random(2)
        rows = {"train.csv": 90, "val.csv": 40}
        for name, count in rows.items():
            with open(self.path(name), "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["width", "colour", "kind"])
                for _ in range(count):
                    kind = numbers.choice(("small", "big"))
                    writer.writerow([round(numbers.gauss(3 if kind == "big" else 1, 1), 3),
                                     numbers.choice(list(COLOURS)), kind])
        data = {"format": "csv", "train_files": ["train.csv"], "validation_files": ["val.csv"],
                "label_column": "kind", "standardize": True}
        last, folder, config, weights = self.run_and_read({"type": "linear"}, data)
        with open(os.path.join(folder, "data.json")) as file:
            made = json.load(file)
        self.assertEqual(config["label2id"],
                         {name: i for i, name in enumerate(made["target"]["labels"])})
        inputs, targets = [], []
        with open(self.path("val.csv"), newline="") as file:
            for row in csv.DictReader(file):
                values = []
                for column in made["inputs"]:
                    text = row[column["column"]]
                    if "categories" in column:
                        values += [float(text == name) for name in column["categories"]]
                    else:
                        values.append((float(text) - column["mean"]) / column["deviation"])
                inputs.append(values)
                targets.append(made["target"]["labels"].index(row[made["target"]["column"]]))
        [weight], [bias] = ([value for name, value in weights.items() if name.endswith(end)]
                            for end in (".weight", ".bias"))
        self.check(last, F.linear(torch.tensor(inputs), weight, bias), torch.tensor(targets))


if __name__ == "__main__":
    harness.main()
