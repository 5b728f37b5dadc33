"""What ddp-allreduce measures, with torch.distributed over Gloo: for torchrun, sizes in bytes."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist


def once(tensor):
    begin = time.perf_counter()
    dist.all_reduce(tensor)
    return time.perf_counter() - begin


def median_seconds(size):
    tensor = torch.zeros(size // 4)
    for _ in range(10):
        once(tensor)
    estimate = torch.tensor([once(tensor)], dtype=torch.float64)
    dist.all_reduce(estimate, dist.ReduceOp.MAX)
    rounds = int(min(max(0.5 / estimate.item(), 11), 20000))
    return statistics.median(once(tensor) for _ in range(rounds))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for size in map(int, sys.argv[1:]):
        seconds = median_seconds(size)
        if dist.get_rank() == 0:
            print(json.dumps({"bytes": size, "ranks": dist.get_world_size(),
                              "seconds_median": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
