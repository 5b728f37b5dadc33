"""A GPT-2 folder trained by torch.distributed.pipelining over Gloo, a process for each stage.

Usage: torch_pipeline.py JOB.json    (writes {"losses": [...], "seconds": [...]} of the steps to
the job's "result"). Job: folder (GPT2LMHeadModel, embeddings not tied), file (uint16 tokens),
length, stages, schedule ("gpipe" or "1f1b"), batch, micro_batches, steps, learning_rate, seed,
meeting and result (files to be made), threads (of each process).
"""

import json
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.utils.data import DistributedSampler

transformers.logging.set_verbosity_error()

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Stage(nn.Module):
    """The blocks of one stage; on the first one the embeddings, on the last one norm and head."""

    def __init__(self, model, index, stages):
        super().__init__()
        blocks = model.transformer.h
        each = len(blocks) // stages
        self.blocks = blocks[index * each:(index + 1) * each]
        first, last = index == 0, index + 1 == stages
        self.wte = model.transformer.wte if first else None
        self.wpe = model.transformer.wpe if first else None
        self.ln_f = model.transformer.ln_f if last else None
        self.lm_head = model.lm_head if last else None

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
            x = x[0] if isinstance(x, tuple) else x
        return x if self.ln_f is None else self.lm_head(self.ln_f(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def run_rank(rank, job):
    torch.set_num_threads(job["threads"])
    stages = job["stages"]
    dist.init_process_group("gloo", init_method=f"file://{job['meeting']}", rank=rank,
                            world_size=stages)
    model = transformers.GPT2LMHeadModel.from_pretrained(job["folder"]).train()
    width = model.config.n_embd
    module = Stage(model, rank, stages)
    del model
    micro = job["batch"] // job["micro_batches"]
    tokens = torch.zeros(micro, job["length"], dtype=torch.long)
    hidden = torch.zeros(micro, job["length"], width)
    example = tokens if rank == 0 else hidden
    stage = PipelineStage(module, rank, stages, torch.device("cpu"), input_args=(example,),
                          output_args=(module(example),))
    schedule = SCHEDULES[job["schedule"]](stage, job["micro_batches"], loss_fn=loss_of)
    optimizer = torch.optim.Adam(module.parameters(), lr=job["learning_rate"], fused=True)
    data = numpy.fromfile(job["file"], dtype=numpy.uint16).astype(numpy.int64)
    rows = (len(data) - 1) // job["length"]
    sampler = DistributedSampler(range(rows), 1, 0, shuffle=True, seed=job["seed"])
    losses, seconds = [], []
    for epoch in range(job["steps"]):
        sampler.set_epoch(epoch)
        order = list(sampler)
        for first in range(0, len(order) - job["batch"] + 1, job["batch"]):
            if len(losses) == job["steps"]:
                break
            begin = time.perf_counter()
            chosen = [torch.from_numpy(data[i * job["length"]:(i + 1) * job["length"] + 1])
                      for i in order[first:first + job["batch"]]]
            optimizer.zero_grad()
            parts = []
            inputs = (torch.stack([row[:-1] for row in chosen]),) if rank == 0 else ()
            targets = torch.stack([row[1:] for row in chosen]) if rank + 1 == stages else None
            schedule.step(*inputs, target=targets, losses=parts)
            optimizer.step()
            seconds.append(time.perf_counter() - begin)
            losses.append(torch.stack(parts).mean().item() if parts else 0.0)
    if rank + 1 == stages:
        with open(job["result"], "w") as file:
            json.dump({"losses": losses, "seconds": seconds}, file)
    dist.destroy_process_group()


def main():
    with open(sys.argv[1]) as file:
        job = json.load(file)
    torch.multiprocessing.start_processes(run_rank, (job,), job["stages"], start_method="fork")


if __name__ == "__main__":
    main()
