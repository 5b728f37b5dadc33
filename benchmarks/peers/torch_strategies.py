"""A GPT-2 folder trained by PyTorch's own strategies over Gloo, a process for each rank.

Usage: torch_strategies.py JOB.json    (writes {"losses": [...], "seconds": [...]} of the steps to
the job's "result"). Job: folder (GPT2LMHeadModel, embeddings not tied), file (uint16 tokens),
length, strategy ("ddp"; "zero1": ZeroRedundancyOptimizer; "zero2", "zero3": fully_shard without and
with resharding after forward; "tensor_parallel": DTensor's), ranks, batch (of all ranks), steps,
learning_rate, seed, meeting and result (files to be made), threads (of each process).
"""

import json
import os
import pathlib
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel, loss_parallel,
                                               parallelize_module)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


class Block(nn.Module):
    """Queries, keys and values of one head stand beside each other, so that ranks can share out
    the heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(self.ln_1(x)).view(batch, length, -1, 3, self.head_width)
        q, k, v = (one.transpose(1, 2) for one in qkv.unbind(3))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):

    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.wte = nn.Embedding(config["vocab_size"], width)
        self.wpe = nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, config["n_head"])
                                    for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, config["vocab_size"], bias=False)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def by_head(tensor, heads):
    """[3 x heads x width of a head, ...] with the heads outermost."""
    return tensor.view(3, heads, -1, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape)


def load(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    stored = load_file(pathlib.Path(folder) / "model.safetensors")
    names = {"attn.c_attn": "qkv", "attn.c_proj": "proj", "mlp.c_fc": "up", "mlp.c_proj": "down"}
    weights = {}
    for name, tensor in stored.items():
        name = name.replace("transformer.", "").replace("h.", "blocks.", 1)
        for theirs, here in names.items():
            if theirs in name:  # a Conv1D, whose weight is [in, out]
                name = name.replace(theirs, here)
                tensor = tensor.t().contiguous() if tensor.dim() == 2 else tensor
        weights[name] = by_head(tensor, config["n_head"]) if ".qkv." in name else tensor
    model = Gpt(config)
    model.load_state_dict(weights)
    return model.train()


def shared_out(model, ranks):
    mesh = dist.init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"qkv": ColwiseParallel(), "proj": RowwiseParallel(),
                                         "up": ColwiseParallel(), "down": RowwiseParallel()})
    return parallelize_module(model, mesh, {
        "wte": RowwiseParallel(input_layouts=Replicate()),
        "lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})


def sharded(model, ranks, reshard):
    mesh = dist.init_device_mesh("cpu", (ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def wrap(model, job):
    """The model of this rank, and its optimizer."""
    adam = {"lr": job["learning_rate"], "fused": True}
    strategy, ranks = job["strategy"], job["ranks"]
    if strategy == "tensor_parallel":
        model = shared_out(model, ranks)
        # The fused optimizer takes tensors of one kind.
        split = [one for one in model.parameters() if isinstance(one, DTensor)]
        whole = [one for one in model.parameters() if not isinstance(one, DTensor)]
        return model, torch.optim.Adam([{"params": split}, {"params": whole}], **adam)
    if strategy in ("zero2", "zero3"):
        model = sharded(model, ranks, strategy == "zero3")
        return model, torch.optim.Adam(model.parameters(), **adam)
    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if strategy == "zero1":
        return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam,
                                              parameters_as_bucket_view=True, **adam)
    return model, torch.optim.Adam(model.parameters(), **adam)


def one_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    with loss_parallel():
        loss = model(inputs, targets)
        loss.backward()
    optimizer.step()
    loss = loss.detach()
    return loss.to_local() if isinstance(loss, DTensor) else loss


def run_rank(rank, job):
    torch.set_num_threads(job["threads"])
    ranks = job["ranks"]
    dist.init_process_group("gloo", init_method=f"file://{job['meeting']}", rank=rank,
                            world_size=ranks)
    model, optimizer = wrap(load(job["folder"]), job)
    # Ranks that share out layers have the same samples.
    replicas = 1 if job["strategy"] == "tensor_parallel" else ranks
    batch, length = job["batch"] // replicas, job["length"]
    data = numpy.fromfile(job["file"], dtype=numpy.uint16).astype(numpy.int64)
    rows = (len(data) - 1) // length
    sampler = DistributedSampler(range(rows), replicas, rank % replicas, shuffle=True,
                                 seed=job["seed"])
    order = list(sampler)
    losses, seconds = [], []
    for step in range(job["steps"]):
        begin = time.perf_counter()
        chosen = torch.stack([torch.from_numpy(data[i * length:(i + 1) * length + 1])
                              for i in order[step * batch:(step + 1) * batch]])
        losses.append(one_step(model, optimizer, chosen[:, :-1], chosen[:, 1:]))
        seconds.append(time.perf_counter() - begin)
    mean = torch.stack(losses)
    dist.all_reduce(mean)
    if rank == 0:
        result = {"losses": (mean / ranks).tolist(), "seconds": seconds}
        pathlib.Path(job["result"]).write_text(json.dumps(result))
    dist.barrier()  # Gloo aborts a rank whose peer has closed while it still sends
    dist.destroy_process_group()


def main():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.multiprocessing.start_processes(run_rank, (job,), job["ranks"], start_method="fork")


if __name__ == "__main__":
    main()
