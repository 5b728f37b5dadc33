#!/usr/bin/env python3
"""Makes tests/golden/local_sgd.json: post-local SGD by PyTorch, the losses of two ranks.

Usage: scripts/make_golden_local_sgd.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch and transformers (scripts/setup.sh --peers). The same versions give the same file.
"""

import json
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState, post_localSGD_hook)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

import make_golden as golden

RATE = 0.1
START, PERIOD = 5, 4
RANKS = 2


def train(rank, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
    alone = [dist.new_group([member]) for member in range(RANKS)][rank]
    data = golden.random_samples(80, 10, 5, golden.SEED)
    torch.manual_seed(golden.SEED)
    model = DistributedDataParallel(golden.ToyModel())
    model.register_comm_hook(
        PostLocalSGDState(None, alone, START, post_local_gradient_allreduce=False),
        post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        PeriodicModelAverager(period=PERIOD, warmup_steps=START))
    losses = []
    steps = zip(range(golden.STEPS), golden.batches(len(data), rank, RANKS, 20))
    for _, indices in steps:
        inputs, targets = (torch.stack(side) for side in zip(*(data[index] for index in indices)))
        loss = F.mse_loss(model(inputs), targets)
        losses.append(golden.mean_over_ranks(loss, RANKS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        pathlib.Path(meeting + ".json").write_text(json.dumps(losses))
    dist.destroy_process_group()


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as scratch:
        meeting = f"{scratch}/meeting"
        torch.multiprocessing.spawn(train, (meeting,), RANKS)
        losses = json.loads(pathlib.Path(meeting + ".json").read_text())
    golden.write_json(folder, "local_sgd.json", {
        "learning_rate": RATE, "start_step": START, "period": PERIOD, "ranks": RANKS,
        "losses": losses})


if __name__ == "__main__":
    main()
