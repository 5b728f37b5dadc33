"""One rank of parallel_test.py: what torch.distributed has for the parallel training of models.

Usage: parallel_worker.py BACKEND FOLDER CASE...; leaves the case's numbers in FOLDER/CASE-RANK.pt
"""

import pathlib
import sys

import ddprun.torch  # registers the backend
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.distributed.nn.functional as differentiable
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import (all_gather_tensor, all_to_all_single,
                                                       reduce_scatter_tensor)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


class Block(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def blocks(count=2):
    torch.manual_seed(3)
    return nn.Sequential(*(Block() for _ in range(count)))


def batch(step, seed=0):
    generator = torch.Generator().manual_seed(1000 * step + seed)
    return torch.randn(8, 12, generator=generator)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach()


def weights(model):
    return [whole(parameter) for parameter in model.parameters()]


def train(model, optimizer, seed=0, steps=STEPS):
    losses = []
    for step in range(steps):
        loss = model(batch(step, seed)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + weights(model)


def sharded_optimizer(rank, _folder):
    model = DistributedDataParallel(blocks())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    found = train(model, optimizer, rank)
    optimizer.consolidate_state_dict(to=0)  # messages and objects
    return found


def uneven_inputs(rank, _folder):
    model = DistributedDataParallel(blocks())
    with model.join():
        train(model, torch.optim.SGD(model.parameters(), 0.1), rank, steps=2 + rank)
    return weights(model)


def averaging(rank, _folder):
    model = blocks()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    averager = PeriodicModelAverager(period=2)
    return train(model, PostLocalSGDOptimizer(optimizer, averager), rank)


def fully_sharded(rank, folder):
    """On a mesh of replicas and shards; bfloat16 on the way; a checkpoint goes to another mesh."""
    def sharded(mesh):
        model = blocks()
        policy = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)
        for block in model:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        return fully_shard(model, mesh=mesh, mp_policy=policy)

    model = sharded(init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards")))
    found = train(model, torch.optim.AdamW(model.parameters(), lr=0.01), rank)
    checkpoint.save(get_model_state_dict(model), checkpoint_id=folder / "checkpoint")
    other = sharded(init_device_mesh("cpu", (4,)))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    state = get_model_state_dict(other)
    checkpoint.load(state, checkpoint_id=folder / "checkpoint")
    set_model_state_dict(other, state)
    for after, before in zip(weights(other), weights(model), strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0)
    return found


def tensor_parallel(_rank, _folder):
    """With FSDP2 along the other dimension."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = blocks()
    for block in model:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(),
                                                   "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.01), mesh["data"].get_rank())


def sequence_parallel(_rank, _folder):
    torch.manual_seed(3)
    model = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 12))
    parallelize_module(model, init_device_mesh("cpu", (4,)), {
        "0": SequenceParallel(sequence_dim=0),
        "1": ColwiseParallel(input_layouts=Shard(0)),
        "3": RowwiseParallel()})
    return train(model, torch.optim.SGD(model.parameters(), 0.1))


def placements(_rank, _folder):
    """Every way from a placement to another, with shards of different sizes."""
    mesh = init_device_mesh("cpu", (2, 2))
    torch.manual_seed(4)
    tensor = torch.randn(7, 5)
    ways = [Replicate(), Shard(0), Shard(1)]
    pairs = [(a, b) for a in ways for b in ways]
    found = []
    for begin in pairs:
        for end in pairs:
            moved = distribute_tensor(tensor, mesh, begin).redistribute(mesh, end)
            torch.testing.assert_close(moved.full_tensor(), tensor, rtol=0, atol=0)
            found.append(moved.to_local())
    left = distribute_tensor(tensor, mesh, (Shard(0), Shard(1)))
    right = distribute_tensor(tensor.t().contiguous(), mesh, (Replicate(), Shard(0)))
    product = left @ right
    assert any(isinstance(way, Partial) for way in product.placements)
    found.append(product.full_tensor())
    torch.testing.assert_close(found[-1], tensor @ tensor.t())
    return found


def pipelines(rank, _folder):
    size = dist.get_world_size()
    found = []
    for schedule_of in (ScheduleGPipe, Schedule1F1B):
        model = blocks(size)
        stage = PipelineStage(model[rank], rank, size, torch.device("cpu"))
        schedule = schedule_of(stage, 4, loss_fn=lambda output, target: F.mse_loss(output, target))
        losses = []
        if rank == 0:
            schedule.step(batch(1))
        elif rank == size - 1:
            schedule.step(target=batch(2), losses=losses)
        else:
            schedule.step()
        found += losses + [parameter.grad for parameter in model[rank].parameters()]
    return found


def gradients_of_collectives(rank, _folder):
    found = []
    world = dist.group.WORLD
    for collective in (
            lambda x: differentiable.all_reduce(x, op=dist.ReduceOp.SUM),
            lambda x: torch.cat(differentiable.all_gather(x)),
            lambda x: torch.cat(differentiable.all_to_all(
                [torch.empty(2, 3) for _ in range(4)], list(x.chunk(4)))),
            lambda x: differentiable.reduce_scatter(torch.empty(2, 3), list(x.chunk(4))),
            lambda x: differentiable.broadcast(x, src=1),
            lambda x: all_gather_tensor(x, 0, world),
            lambda x: reduce_scatter_tensor(x, "sum", 0, world),
            lambda x: reduce_scatter_tensor(x.detach(), "avg", 0, world),
            lambda x: all_to_all_single(x, [2] * 4, [2] * 4, world)):
        x = (torch.arange(24.0).view(8, 3) * (rank + 1)).requires_grad_()
        result = collective(x)
        found.append(result.detach() + 0)
        if result.requires_grad:
            result.square().sum().backward()
            found.append(x.grad)
    return found


def main():
    backend, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    rank = dist.get_rank()
    for case in sys.argv[3:]:
        torch.save(globals()[case](rank, folder), folder / f"{case}-{rank}.pt")
    assert dist.get_backend() == backend
    dist.barrier()
    dist.destroy_process_group()


main()
