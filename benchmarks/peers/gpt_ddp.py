"""The GPT of ddp-trainer in plain PyTorch: DistributedDataParallel over Gloo, for torchrun.

As one would write it: fused AdamW, scaled-dot-product attention, gradient clipping, the loss read
at every step for the log line.
"""

import argparse
import math
import time

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


class Block(nn.Module):

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(batch, length, 3, self.heads, -1).unbind(2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                           is_causal=True)
        x = x + self.attn_proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):

    def __init__(self, options):
        super().__init__()
        self.wte = nn.Embedding(256, options.width)
        self.wpe = nn.Embedding(options.sequence, options.width)
        self.blocks = nn.ModuleList(
            Block(options.width, options.heads) for _ in range(options.layers))
        self.ln_f = nn.LayerNorm(options.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith("_proj.weight")
                depth = 2 * options.layers if residual else 1
                nn.init.normal_(parameter, std=0.02 / math.sqrt(depth))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batches(options):
    dataset = TextByBytes(options.files, options.sequence)
    sampler = DistributedSampler(dataset, seed=42)
    loader = DataLoader(dataset, batch_size=options.batch, sampler=sampler)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def train(options):
    torch.manual_seed(42)
    model = DistributedDataParallel(Gpt(options))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    for step, (tokens, targets) in enumerate(batches(options), 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            seconds = time.perf_counter() - begin
            print(f"step {step}/{options.steps}  loss {mean.item() / dist.get_world_size():.4f}  "
                  f"{seconds * 1e3:.1f} ms", flush=True)
        if step == options.steps:
            break


def main():
    parser = argparse.ArgumentParser()
    for name in ("steps", "sequence", "batch", "width", "layers", "heads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    train(options)
    dist.barrier()  # Gloo aborts a rank whose peer has closed while it still sends
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
