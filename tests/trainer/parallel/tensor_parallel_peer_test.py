"""Losses of examples/tensor_parallel beside those of PyTorch over Gloo, from the same weights and
data: of DTensor's tensor parallelism, and of a column-parallel layer as one writes it by hand.

Usage: tensor_parallel_peer_test.py DDPRUN EXAMPLE
"""

import os
import re
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

DDPRUN, EXAMPLE = None, None  # from the command line


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 64)
        self.down = nn.Linear(64, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class IdentityThenAllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x = gradient @ weight
        work = dist.all_reduce(of_x, async_op=True)
        of_weight = gradient.reshape(-1, gradient.shape[-1]).t() @ x.reshape(-1, x.shape[-1])
        work.wait()
        return of_x, of_weight


class AllReduceThenIdentity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ByHand(nn.Module):
    """This rank's part of a block."""

    def __init__(self, block):
        super().__init__()
        rank, size = dist.get_rank(), dist.get_world_size()
        self.up = nn.Parameter(block.up.weight.detach().chunk(size, 0)[rank].clone())
        self.up_bias = nn.Parameter(block.up.bias.detach().chunk(size)[rank].clone())
        self.down = nn.Parameter(block.down.weight.detach().chunk(size, 1)[rank].clone())
        self.down_bias = nn.Parameter(block.down.bias.detach().clone())

    def forward(self, x):
        inner = torch.relu(IdentityThenAllReduce.apply(x, self.up) + self.up_bias)
        return AllReduceThenIdentity.apply(inner @ self.down.t()) + self.down_bias


def train(way):
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    block = Block()
    inputs, targets = torch.randn(4, 32, 16), torch.tanh(torch.randn(4, 32, 8))
    if way == "dtensor":
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        block = parallelize_module(block, mesh,
                                   {"up": ColwiseParallel(), "down": RowwiseParallel()})
    elif way == "by_hand":
        block = ByHand(block)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.5)
    for step in range(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(block(inputs), targets)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step + 1}: loss {loss.item():.8f}", flush=True)
    dist.destroy_process_group()
    # Seldom, Gloo's threads abort a process that unloads LibTorch; all has been printed.
    os._exit(0)


class AgainstPyTorch(unittest.TestCase):
    def losses(self, ranks, *command):
        done = subprocess.run(
            [DDPRUN, f"--nproc_per_node={ranks}", *command], capture_output=True, text=True,
            env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"},
            timeout=250, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
        self.assertEqual(len(losses), 20, done.stdout)
        return losses

    def test_losses_are_equal(self):
        expected = self.losses(1, __file__, "--train", "plain")
        found = {"example, 1 rank": self.losses(1, EXAMPLE)}
        for ranks in (2, 4):
            found[f"example, {ranks} ranks"] = self.losses(ranks, EXAMPLE)
        for way in ("dtensor", "by_hand"):
            found[way] = self.losses(2, __file__, "--train", way)
        for name, losses in found.items():
            for step, (one, other) in enumerate(zip(losses, expected)):
                self.assertLess(abs(one - other), 1e-5 * other, f"{name}, step {step + 1}")


if __name__ == "__main__":
    if sys.argv[1] == "--train":
        train(sys.argv[2])
    else:
        DDPRUN, EXAMPLE = sys.argv.pop(1), sys.argv.pop(1)
        unittest.main()
