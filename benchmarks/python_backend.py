#!/usr/bin/env python3
"""The backend "ddprun" of torch.distributed against Gloo, in one Python program on 2 ranks.

Both groups are in the same processes and take turns; the table has the medians of all rounds.
"""

import json
import os
import statistics
import sys
import time

import harness

SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "25 MiB": 25 << 20}
CALLS = {"4 KiB": 200, "1 MiB": 50, "25 MiB": 5, "DDP step": 100}  # of one side in a round


def training_step(torch, group):
    model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(20, 10)

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return step


def work(rounds):
    """One rank. Rank 0 prints the seconds of each round."""
    import torch
    import torch.distributed as dist

    import ddprun.torch  # registers the backend
    torch.set_num_threads(1)
    dist.init_process_group("ddprun")
    sides = {"ddprun": dist.group.WORLD, "Gloo": dist.new_group(backend="gloo")}
    for name, calls in CALLS.items():
        once = {}
        for side, group in sides.items():
            if name in SIZES:
                tensor = torch.zeros(SIZES[name] // 4)
                once[side] = lambda tensor=tensor, group=group: dist.all_reduce(tensor, group=group)
            else:
                once[side] = training_step(torch, group)
        for number in range(rounds + 1):
            for side, call in once.items():
                dist.barrier(sides[side])
                begin = time.perf_counter()
                for _ in range(calls):
                    call()
                seconds = (time.perf_counter() - begin) / calls
                if dist.get_rank() == 0 and number > 0:  # the first warms up
                    print(json.dumps({"case": name, "side": side, "seconds": seconds}), flush=True)
    dist.destroy_process_group()


def main():
    options = harness.parser(__doc__.splitlines()[0], rounds=15).parse_args()
    os.environ["PYTHONPATH"] = str(options.bin.parent / "python")
    argv = [*harness.torchrun(2), __file__, str(options.rounds)]
    seconds = {}
    for line in harness.output(argv).splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            seconds.setdefault((one["case"], one["side"]), []).append(one["seconds"])
    rows = []
    for name in CALLS:
        own, gloo = (statistics.median(seconds[name, side]) for side in ("ddprun", "Gloo"))
        label = f"all_reduce {name}" if name in SIZES else "DDP step, 10-10-5"
        rows.append([label, f"{own * 1e6:.1f} us", f"{gloo * 1e6:.1f} us", f"{gloo / own:.1f}"])
    harness.table(["2 ranks", "ddprun", "Gloo", "Gloo / ddprun"], rows)
    harness.write_json(options, "python_backend", [
        {"case": case, "side": side, "seconds_all": values}
        for (case, side), values in seconds.items()])


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(int(sys.argv[1]))
    else:
        main()
