"""Classifies pairs of sentences with transformers.Trainer, as the scripts for GLUE do: warmup and
linear decay, weight decay, accumulation, an evaluation after each epoch, the best model at the end.

Usage: torchrun --nproc_per_node=2 trainer_pairs.py SETTINGS.json

It reads the samples in the order of the file, because Trainer's order of random samples is its own.
"""

import json
import os
import sys

import torch
import transformers
from sklearn.metrics import accuracy_score, f1_score
from torch.utils.data import SequentialSampler

transformers.logging.set_verbosity_error()


class Pairs(torch.utils.data.Dataset):
    def __init__(self, path, labels, tokenizer):
        with open(path) as file:
            rows = [json.loads(line) for line in file]
        self.samples = [{**tokenizer(row["sentence1"], row["sentence2"], truncation=True,
                                     max_length=32), "labels": labels.index(row["gold_label"])}
                        for row in rows]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset or self.train_dataset)


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.steps, self.evaluations = [], []

    def on_log(self, _args, _state, _control, logs=None, **_):
        if "eval_loss" in logs:
            self.evaluations.append([logs["eval_loss"], logs["eval_accuracy"], logs["eval_f1"]])
        elif "loss" in logs:
            self.steps.append([logs["loss"], logs["learning_rate"], float(logs["grad_norm"])])


def compute_metrics(found):
    classes = found.predictions.argmax(-1)
    return {"accuracy": accuracy_score(found.label_ids, classes),
            "f1": f1_score(found.label_ids, classes, average="macro")}


def main():
    with open(sys.argv[1]) as file:
        settings = json.load(file)
    torch.set_num_threads(1)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(settings["model"])
    model = transformers.BertForSequenceClassification.from_pretrained(settings["model"])
    data = {name: Pairs(settings[name], settings["labels"], tokenizer) for name in ("train", "val")}
    log = Log()
    trainer = InOrder(
        model=model, train_dataset=data["train"], eval_dataset=data["val"],
        processing_class=tokenizer, compute_metrics=compute_metrics, callbacks=[log],
        args=transformers.TrainingArguments(
            settings["checkpoints"], use_cpu=True, ddp_backend="gloo", report_to=[],
            num_train_epochs=settings["epochs"], disable_tqdm=True, logging_steps=1,
            per_device_train_batch_size=settings["batch"], gradient_accumulation_steps=2,
            per_device_eval_batch_size=settings["batch"], learning_rate=settings["learning_rate"],
            weight_decay=0.01, warmup_steps=3, eval_strategy="epoch", save_strategy="epoch",
            load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=False))
    trainer.train()
    logits = torch.from_numpy(trainer.predict(data["val"]).predictions)
    if trainer.is_world_process_zero():
        with open(settings["results"], "w") as file:
            json.dump({"steps": log.steps, "evaluations": log.evaluations,
                       "best_step": int(trainer.state.best_model_checkpoint.rsplit("-", 1)[1]),
                       "probabilities": logits.softmax(-1).tolist()}, file)


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    main()
    # The group is not destroyed: PyTorch's Gloo group may hang for ever in its destructor. It waits
    # for its thread with Python's lock, for which its thread waits to free a tensor.
    os._exit(0)
