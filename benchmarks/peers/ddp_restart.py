"""One rank of preload.py: a step of DistributedDataParallel over Gloo. The first attempt fails
after it."""

import os
import sys
import time

import torch
import torch.distributed as dist

attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["RANK"])
size = int(os.environ["WORLD_SIZE"])
# A prefix for each attempt, because torchrun's store keeps the addresses of the first one.
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size)
dist.init_process_group("gloo", store=dist.PrefixStore(attempt, store), rank=rank, world_size=size)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
model(torch.ones(2, 8)).sum().backward()
if rank == 0:
    print(f"step 1 of attempt {attempt}", flush=True)
if attempt == "0":
    if rank == 0:
        print("fails", flush=True)
        sys.exit(1)
    time.sleep(600)  # until the launcher stops this rank
dist.destroy_process_group()
