"""What ddp-bench measures of training steps, with PyTorch's DistributedDataParallel over Gloo: for
torchrun. Rank 0 prints one JSON line in ddp-bench's form.
"""

import argparse
import copy
import json
import statistics
import time
import types

import torch
import torch.distributed as dist
from gpt_ddp import Gpt
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARMUP = 2


def make_model(options):
    torch.manual_seed(42)
    if options.model == "gpt":
        width, layers, heads = options.sizes
        return Gpt(types.SimpleNamespace(width=width, layers=layers, heads=heads,
                                         sequence=options.sequence))
    layers = []
    for inputs, outputs in zip(options.sizes, options.sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def make_loss(options):
    if options.model == "gpt":
        shape = (options.batch, options.sequence)
        tokens, targets = torch.randint(256, shape), torch.randint(256, shape)
        return lambda model: model(tokens, targets)
    inputs = torch.randn(options.batch, options.sizes[0])
    targets = torch.randn(options.batch, options.sizes[-1])
    return lambda model: nn.functional.mse_loss(model(inputs), targets)


def make_optimizer(options, model):
    if options.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True)


def one_step(model, optimizer, loss_of, times):
    optimizer.zero_grad()
    begin = time.perf_counter()
    loss = loss_of(model)
    forward = time.perf_counter()
    loss.backward()
    backward = time.perf_counter()
    optimizer.step()
    times["forward"].append(forward - begin)
    times["backward"].append(backward - forward)
    times["update"].append(time.perf_counter() - backward)


def one_round(model, optimizer, loss_of, steps):
    times = {"forward": [], "backward": [], "update": []}
    for _ in range(WARMUP):
        one_step(model, optimizer, loss_of, times)
    dist.barrier()
    for values in times.values():
        values.clear()
    begin = time.perf_counter()
    for _ in range(steps):
        one_step(model, optimizer, loss_of, times)
    result = {"step": (time.perf_counter() - begin) / steps}
    dist.barrier()
    return {**result, **{phase: statistics.median(values) for phase, values in times.items()}}


def measure(options):
    variants = {"no communication": make_model(options)}
    for size in options.buckets_mb:
        module = copy.deepcopy(variants["no communication"])
        variants[f"{size:g} MiB"] = DistributedDataParallel(module, bucket_cap_mb=size,
                                                            gradient_as_bucket_view=True)
    torch.manual_seed(100 + dist.get_rank())
    loss_of = make_loss(options)
    optimizers = {name: make_optimizer(options, model) for name, model in variants.items()}
    rounds = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, model in variants.items():
            rounds[name].append(one_round(model, optimizers[name], loss_of, options.steps))
    results = []
    for name, values in rounds.items():
        result = {phase: statistics.median(value[phase] for value in values) for phase in values[0]}
        exposed = [value["step"] - local["step"]
                   for value, local in zip(values, rounds["no communication"])]
        results.append({"name": name, "exposed": statistics.median(exposed), **result})
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["gpt", "mlp"], required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    parser.add_argument("--buckets_mb", type=float, nargs="+", default=[25])
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    for name, default in (("batch", 1), ("sequence", 64), ("rounds", 5), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    results = measure(options)
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "results": results}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
