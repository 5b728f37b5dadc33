"""For benchmarks/recovery.py: an MLP under DistributedDataParallel over Gloo, started by torchrun.
Rank 0 saves once; a new start goes on from there. A line of metrics.jsonl for each step.

    peers/recovery.py FOLDER BATCH SAVE_AT SIZES
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    folder, batch, save_at, sizes = sys.argv[1], *map(json.loads, sys.argv[2:])
    # Ranks that are started again would find the addresses of those before in the same store.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    start = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
    dist.init_process_group("gloo", store=start, rank=int(os.environ["RANK"]),
                            world_size=int(os.environ["WORLD_SIZE"]))
    torch.manual_seed(42)
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    path = os.path.join(folder, "saved.pt")
    step = 0
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    parallel = DistributedDataParallel(model)
    data = torch.rand(4096, sizes[0])
    targets = torch.rand(4096, sizes[-1])
    with open(os.path.join(folder, "metrics.jsonl"), "a", buffering=1, encoding="utf-8") as metrics:
        while True:
            optimizer.zero_grad()
            rows = torch.randint(0, 4096, (batch,))
            torch.nn.functional.mse_loss(parallel(data[rows]), targets[rows]).backward()
            optimizer.step()
            step += 1
            if dist.get_rank() != 0:
                continue
            metrics.write(json.dumps({"ts": time.time(), "split": "train", "step": step}) + "\n")
            if step == save_at:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                         "step": step}
                torch.save(state, path + ".tmp")
                os.rename(path + ".tmp", path)


if __name__ == "__main__":
    main()
