"""Classifies the rows of a table with Lightning, as its users write it: two ranks, averages of the
weights, a learning rate that falls on a plateau, clipping, the best checkpoint.

Usage: torchrun --nproc_per_node=2 lightning_table.py SETTINGS.json
"""

import csv
import json
import logging
import os
import sys
import warnings

import lightning
import torch
import torch.nn.functional as F
import torchmetrics
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def rows(path):
    with open(path) as file:
        lines = list(csv.reader(file))[1:]
    return TensorDataset(torch.tensor([[float(x) for x in line[:-1]] for line in lines]),
                         torch.tensor([int(line[-1]) for line in lines]))


class Classifier(lightning.LightningModule):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        sizes = settings["sizes"]
        self.net = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(),
                                 nn.Linear(sizes[1], sizes[2]))
        self.accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=sizes[2])

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, on_step=True, sync_dist=True)
        return loss

    def evaluate(self, batch, name):
        x, y = batch
        outputs = self.net(x)
        self.accuracy(outputs, y)
        self.log(f"{name}_loss", F.cross_entropy(outputs, y), on_epoch=True, sync_dist=True)
        self.log(f"{name}_accuracy", self.accuracy, on_epoch=True)

    def validation_step(self, batch, _):
        self.evaluate(batch, "val")

    def test_step(self, batch, _):
        self.evaluate(batch, "test")

    def configure_optimizers(self):
        adam = torch.optim.Adam(self.parameters(), lr=self.settings["learning_rate"])
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            adam, factor=0.5, patience=1, threshold=self.settings["threshold"])
        return {"optimizer": adam, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}


class Log(Callback):
    def __init__(self):
        self.losses, self.rates, self.evaluations = [], [], []

    def on_train_batch_start(self, trainer, *_):
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer, *_):
        self.losses.append(trainer.callback_metrics["train_loss"].item())

    def on_validation_end(self, trainer, *_):
        metrics = trainer.callback_metrics
        self.evaluations.append([metrics[key].item() for key in ("val_loss", "val_accuracy")])


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    torch.set_num_threads(1)
    lightning.seed_everything(settings["seed"])
    model = Classifier(settings)
    log = Log()
    best = ModelCheckpoint(settings["checkpoints"], monitor="val_loss")
    common = {"accelerator": "cpu", "devices": 2, "strategy": "ddp", "logger": False,
              "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        **common, max_epochs=settings["epochs"], gradient_clip_val=settings["clip"],
        num_sanity_val_steps=0, log_every_n_steps=1,
        callbacks=[EMAWeightAveraging(decay=settings["average"]), log, best])
    loaders = {name: DataLoader(rows(settings[name]), batch_size=settings["batch"],
                                shuffle=name == "train") for name in ("train", "val", "test")}
    trainer.fit(model, loaders["train"], loaders["val"])
    # A trainer with the callback of averages would load and test the weights without averages.
    tester = lightning.Trainer(**common, enable_checkpointing=False)
    tested = tester.test(model, loaders["test"], ckpt_path=best.best_model_path, verbose=False)[0]
    if trainer.global_rank == 0:
        state = torch.load(best.best_model_path, weights_only=True)["state_dict"]
        outputs = Classifier(settings)
        outputs.load_state_dict(state)
        outputs = outputs.eval().net(rows(settings["test"]).tensors[0]).softmax(-1)
        with open(settings["results"], "w") as file:
            json.dump({"losses": log.losses, "rates": log.rates, "evaluations": log.evaluations,
                       "best_step": int(best.best_model_path.split("step=")[1].split(".")[0]),
                       "test": [tested["test_loss"], tested["test_accuracy"]],
                       "probabilities": outputs.tolist()}, file)


if __name__ == "__main__":
    main()
    # PyTorch's Gloo group may hang for ever in its destructor: it waits for its thread with
    # Python's lock, for which its thread waits to free a tensor.
    os._exit(0)
