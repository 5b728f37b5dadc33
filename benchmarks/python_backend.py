#!/usr/bin/env python3
"""The backend "ddprun" of torch.distributed against Gloo, in one Python program on 2 and 4 ranks.

Both groups are in the same processes and take turns; the table has the medians of all rounds. With
--mbit the ranks are on two virtual hosts (tests/hosts).
"""

import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/hosts"))
import virtual_hosts  # noqa: E402

WIDTH = 256  # of the models that are divided


def stepping(torch, model, inputs):
    """A training step of the model."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    return step


def all_reduce(size):
    def make(torch, group):
        tensor = torch.zeros(size // 4)
        return lambda: torch.distributed.all_reduce(tensor, group=group)
    return make


def small_model(torch):
    return torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))


def single_step(torch, _group):
    return stepping(torch, small_model(torch), torch.randn(20, 10))


def ddp_step(torch, group):
    model = torch.nn.parallel.DistributedDataParallel(small_model(torch), process_group=group)
    return stepping(torch, model, torch.randn(20, 10))


def hooked_step(torch, group, act):
    """A step with DDP whose hook acts on each bucket and waits for that."""
    model = torch.nn.parallel.DistributedDataParallel(small_model(torch), process_group=group)

    def hook(_state, bucket):
        act(bucket.buffer())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future
    model.register_comm_hook(None, hook)
    return stepping(torch, model, torch.randn(20, 10))


def silent_step(torch, group):
    return hooked_step(torch, group, lambda bucket: None)


def waiting_step(torch, group):
    return hooked_step(torch, group,
                       lambda bucket: torch.distributed.all_reduce(bucket, group=group))


def blocks(torch):
    """Four pairs of linear layers: 2.1 million parameters."""
    return torch.nn.Sequential(*(torch.nn.Sequential(collections.OrderedDict(
        up=torch.nn.Linear(WIDTH, 4 * WIDTH), between=torch.nn.GELU(),
        down=torch.nn.Linear(4 * WIDTH, WIDTH))) for _ in range(4)))


def fsdp_step(torch, group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    mesh, model = DeviceMesh.from_group(group, "cpu"), blocks(torch)
    for block in model:
        fully_shard(block, mesh=mesh)
    return stepping(torch, fully_shard(model, mesh=mesh), torch.randn(4, WIDTH))


def tensor_step(torch, group):
    """DTensor: each pair of layers is divided, the first by its columns, the second by its rows."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    mesh, model = DeviceMesh.from_group(group, "cpu"), blocks(torch)
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return stepping(torch, model, torch.randn(4, WIDTH))


# {name: (one call of one side, calls in a round)}
CASES = {"all_reduce 4 KiB": (all_reduce(4 << 10), 200),
         "all_reduce 1 MiB": (all_reduce(1 << 20), 50),
         "all_reduce 25 MiB": (all_reduce(25 << 20), 5),
         "DDP step, 10-10-5": (ddp_step, 100),
         "FSDP2 step": (fsdp_step, 10),
         "DTensor step": (tensor_step, 10)}
# Steps of which the DDP step consists, in turns with it.
PARTS = {"one process": single_step, "DDP that sends nothing": silent_step,
         "DDP with a hook that waits": waiting_step}


def work(rounds):
    """One rank. Rank 0 prints the seconds of each round."""
    import torch
    import torch.distributed as dist

    import ddprun.torch  # registers the backend
    torch.set_num_threads(1)
    dist.init_process_group("ddprun")
    sides = {"ddprun": dist.group.WORLD, "Gloo": dist.new_group(backend="gloo")}
    for name, (make, calls) in CASES.items():
        once = {side: make(torch, group) for side, group in sides.items()}
        if make is ddp_step:
            once |= {side: part(torch, dist.group.WORLD) for side, part in PARTS.items()}
        for number in range(rounds + 1):
            for side, call in once.items():
                dist.barrier()
                begin = time.perf_counter()
                for _ in range(calls):
                    call()
                seconds = (time.perf_counter() - begin) / calls
                if dist.get_rank() == 0 and number > 0:  # the first warms up
                    print(json.dumps({"case": name, "side": side, "seconds": seconds}), flush=True)
    dist.destroy_process_group()


def on_one_host(options, ranks):
    return harness.output([*harness.torchrun(ranks), __file__, str(options.rounds)])


def on_hosts(options, mbit):
    """One rank on each of two virtual hosts."""
    target = [harness.VENV / "python", os.path.abspath(__file__), str(options.rounds)]
    with virtual_hosts.Hosts(2, mbit=mbit) as hosts:
        started = [host.start(*target, stdout=subprocess.PIPE, text=True, env={
            **harness.environment(), "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29500",
            "MASTER_ADDR": hosts[0].address, "GLOO_SOCKET_IFNAME": "eth0"})
                   for rank, host in enumerate(hosts)]
        outputs = [process.communicate()[0] for process in started]
        if any(process.returncode != 0 for process in started):
            sys.exit("python_backend.py: a rank failed, see above")
    return outputs[0]


def table(label, output):
    """Prints the table of one run, and returns its seconds by case and side."""
    seconds = {}
    for line in output.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            seconds.setdefault((one["case"], one["side"]), []).append(one["seconds"])
    rows = []
    for name in CASES:
        own, gloo = (statistics.median(seconds[name, side]) for side in ("ddprun", "Gloo"))
        rows.append([name, f"{own * 1e6:.1f} us", f"{gloo * 1e6:.1f} us", f"{gloo / own:.2f}"])
    harness.table([label, "ddprun", "Gloo", "Gloo / ddprun"], rows)
    step = {side: statistics.median(values) * 1e6 for (case, side), values in seconds.items()
            if case == "DDP step, 10-10-5"}
    alone = step.pop("one process")
    more = ", ".join(f"{side} {value - alone:.1f} us" for side, value in step.items())
    print(f"\nThe DDP step of one process: {alone:.1f} us. Beyond it: {more}.\n", flush=True)
    return [{"run": label, "case": case, "side": side, "seconds_all": values}
            for (case, side), values in seconds.items()]


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=15)
    parser.add_argument("--mbit", type=int, nargs="+", metavar="RATE",
                        help="between two virtual hosts whose links carry 10^6 times so many bits "
                             "per second")
    options = parser.parse_args()
    if options.mbit:
        virtual_hosts.as_root_of_own()
    os.environ["PYTHONPATH"] = str(options.bin.parent / "python")
    results = []
    for ranks in () if options.mbit else (2, 4):
        results += table(f"{ranks} ranks", on_one_host(options, ranks))
    for mbit in options.mbit or ():
        results += table(f"2 hosts, {mbit / 1000:g} Gbit/s", on_hosts(options, mbit))
    harness.write_json(options, "python_backend", results)


if __name__ == "__main__":
    if "RANK" in os.environ:
        work(int(sys.argv[1]))
    else:
        main()
