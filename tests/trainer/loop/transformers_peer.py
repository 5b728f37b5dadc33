"""Trains a model folder with transformers and PyTorch's DDP, ZeRO-1 or FSDP2 over Gloo;
transformers_test.py's peer.

Usage: transformers_peer.py JOBS.json    (writes for each job the losses of each step, averaged over
ranks, to the file of its "losses"; with an "average", also the averaged model and its loss on all
data to the folder of its "averages")
"""

import json
import os
import sys

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DistributedSampler

transformers.logging.set_verbosity_error()

CLASSES = {"bert": transformers.BertForSequenceClassification,
           "gpt": transformers.GPT2LMHeadModel,
           "llama": transformers.LlamaForCausalLM}


class Tokens:
    def __init__(self, job):
        self.tokens = numpy.fromfile(job["file"], dtype=numpy.uint16).astype(numpy.int64)
        self.length = job["length"]

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def batch(self, indices):
        rows = [torch.from_numpy(self.tokens[i * self.length:(i + 1) * self.length + 1])
                for i in indices]
        return ({"input_ids": torch.stack([row[:-1] for row in rows])},
                torch.stack([row[1:] for row in rows]))


class Pairs:
    def __init__(self, job):
        with open(job["file"]) as file:
            self.rows = [json.loads(line) for line in file]
        self.labels = job["labels"]
        self.length = job["length"]
        self.tokenizer = transformers.BertTokenizerFast.from_pretrained(job["folder"])

    def __len__(self):
        return len(self.rows)

    def batch(self, indices):
        rows = [self.rows[i] for i in indices]
        inputs = self.tokenizer([row["sentence1"] for row in rows],
                                [row["sentence2"] for row in rows], padding=True, truncation=True,
                                max_length=self.length, return_tensors="pt")
        return inputs, torch.tensor([self.labels.index(row["gold_label"]) for row in rows])


def grouped(model, job):
    """The trained parameters as groups of torch.optim: each name has at most one of the words of
    the rates, and of the decays."""
    def factor(name, factors):
        return next((factors[word] for word in factors if word in name), 1)

    groups = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            kind = factor(name, job["factors"]), factor(name, job["decays"])
            groups.setdefault(kind, []).append(parameter)
    return [{"params": found, "lr": job["learning_rate"] * rate,
             "weight_decay": job["weight_decay"] * decay}
            for (rate, decay), found in groups.items()]


def wrap(model, job, world):
    if job["strategy"] == "zero3":
        mesh = init_device_mesh("cpu", (world,))
        for blocks in model.modules():
            if isinstance(blocks, torch.nn.ModuleList):
                for block in blocks:
                    fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, torch.optim.Adam(grouped(model, job))
    model = DistributedDataParallel(model)
    if job["strategy"] == "zero1":
        groups = grouped(model, job)
        return model, ZeroRedundancyOptimizer(groups, torch.optim.Adam,
                                              lr=job["learning_rate"])
    return model, torch.optim.Adam(grouped(model, job))


def loss_of(logits, targets, job):
    """The mean of this rank, or its share of the weighted mean over all ranks, times the ranks."""
    if not job["weights"]:
        return F.cross_entropy(logits, targets)
    weights = torch.tensor(job["weights"])
    total = weights[targets].sum()
    dist.all_reduce(total)
    losses = F.cross_entropy(logits, targets, weight=weights, reduction="sum")
    return losses * job["world"] / total


def save_averages(averages, data, job):
    model = averages.module.eval()
    total = count = 0
    with torch.no_grad():
        for index in range(len(data)):
            inputs, targets = data.batch([index])
            logits = model(**inputs).logits.flatten(0, -2)
            total += F.cross_entropy(logits, targets.flatten(), reduction="sum").item()
            count += targets.numel()
    model.save_pretrained(job["averages"])
    with open(os.path.join(job["averages"], "loss.json"), "w") as file:
        json.dump(total / count, file)


def run_rank(rank, job):
    torch.set_num_threads(1)
    world = job["world"]
    dist.init_process_group("gloo", init_method=f"file://{job['meeting']}", rank=rank,
                            world_size=world)
    data = Pairs(job) if job["type"] == "bert" else Tokens(job)
    model = CLASSES[job["type"]].from_pretrained(job["folder"]).train()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(word in name for word in job["frozen"]))
    model, optimizer = wrap(model, job, world)
    sampler = DistributedSampler(range(len(data)), world, rank, shuffle=True, seed=job["seed"])
    averages = None
    if job["average"]:
        averages = AveragedModel(model.module, multi_avg_fn=get_ema_multi_avg_fn(job["average"]))
    losses = []
    epoch = 0
    while len(losses) < job["steps"]:
        sampler.set_epoch(epoch)
        epoch += 1
        order = list(sampler)
        for first in range(0, len(order), job["batch"]):
            inputs, targets = data.batch(order[first:first + job["batch"]])
            logits = model(**inputs).logits
            loss = loss_of(logits.flatten(0, -2), targets.flatten(), job)
            mean = loss.detach().double()
            dist.all_reduce(mean)
            losses.append(mean.item() / world)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if averages and len(losses) <= job["steps"]:
                averages.update_parameters(model.module)
    if rank == 0 and averages:
        save_averages(averages, data, job)
    if rank == 0:
        with open(job["losses"], "w") as file:
            json.dump(losses[:job["steps"]], file)
    dist.barrier()  # Gloo aborts a rank whose peer has closed while it still sends
    dist.destroy_process_group()


def main():
    with open(sys.argv[1]) as file:
        jobs = json.load(file)
    for job in jobs:
        # Forked: nobody imports all that again.
        torch.multiprocessing.start_processes(run_rank, (job,), job["world"], start_method="fork")


if __name__ == "__main__":
    main()
