"""The runs of benchmarks/training.py in PyTorch, under torchrun: DistributedDataParallel over Gloo.

The models are transformers' GPT2LMHeadModel and torch.nn.Linear layers. --side says how:
  default  as one writes it: float32, torch.optim.AdamW, nothing switched
  best     float32 with oneDNN's products (the fp32 precision setting) and the fused AdamW
  bf16     torch.autocast in bfloat16 and the fused AdamW
Prints one JSON line per step on rank 0: step, loss over the ranks, seconds.

  --make FOLDER writes the start weights that both sides take, and trains nothing.
"""

import argparse
import contextlib
import json
import os
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class TextByBytes(Dataset):
    """Sample i: bytes [i*T, i*T + T + 1) of all files put together."""

    def __init__(self, files, length):
        self.length = length
        data = bytearray(b"".join(open(file, "rb").read() for file in files))
        self.text = torch.frombuffer(data, dtype=torch.uint8)

    def __len__(self):
        return (len(self.text) - 1) // self.length

    def __getitem__(self, index):
        piece = self.text[index * self.length:(index + 1) * self.length + 1].long()
        return piece[:-1], piece[1:]


class RandomVectors(Dataset):

    def __init__(self, count, size_in, size_out):
        torch.manual_seed(42)  # data.data_seed of the other side
        self.data = [(torch.randn(size_in), torch.randn(size_out)) for _ in range(count)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def make_gpt(case):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(42)
    dropout = case["dropout"]
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=case["vocab_size"], n_positions=case["sequence"], n_embd=case["width"],
        n_layer=case["layers"], n_head=case["heads"], attn_pdrop=dropout, embd_pdrop=dropout,
        resid_pdrop=dropout, bos_token_id=0, eos_token_id=0))


def make_mlp(case):
    torch.manual_seed(42)
    sizes = case["sizes"]
    parts = []
    for size_in, size_out in zip(sizes, sizes[1:]):
        parts += [nn.Linear(size_in, size_out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def build(case):
    """Model, data set, and loss(model, batch)."""
    if case["model"] == "mlp":
        dataset = RandomVectors(case["samples"], case["sizes"][0], case["sizes"][-1])
        return make_mlp(case), dataset, lambda model, x, y: F.mse_loss(model(x), y)

    def loss(model, tokens, targets):
        logits = model(tokens).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return make_gpt(case), TextByBytes(case["files"], case["sequence"]), loss


def batches(dataset, size):
    sampler = DistributedSampler(dataset, seed=42)
    loader = DataLoader(dataset, batch_size=size, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def train(case, side):
    model, dataset, loss_of = build(case)
    model = DistributedDataParallel(model.train())
    if side == "best":
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # float32 where there is no AMX
    fused = {} if side == "default" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=case["learning_rate"], betas=(0.9, 0.95),
                                  weight_decay=0.0, **fused)
    autocast = (torch.autocast("cpu", torch.bfloat16) if side == "bf16"
                else contextlib.nullcontext())
    for step, batch in enumerate(batches(dataset, case["batch"]), 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with autocast:
            loss = loss_of(model, *batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            seconds = time.perf_counter() - begin
            print(json.dumps({"step": step, "loss": mean.item() / dist.get_world_size(),
                              "step_seconds": seconds}), flush=True)
        if step == case["steps"]:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=json.loads, required=True)
    parser.add_argument("--side", choices=["default", "best", "bf16"], default="default")
    parser.add_argument("--make")
    options = parser.parse_args()
    if options.make:
        build(options.case)[0].save_pretrained(options.make)
        return
    dist.init_process_group("gloo")
    train(options.case, options.side)
    dist.barrier()  # Gloo aborts a rank whose peer has closed while it still sends
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
