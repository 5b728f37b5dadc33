"""The runs of benchmarks/training.py in PyTorch, under torchrun: DistributedDataParallel over Gloo.

The models are transformers' BertForSequenceClassification and GPT2LMHeadModel, and torch.nn.Linear
layers. --side says how:
  default  as one writes it: float32, torch.optim.AdamW, nothing switched
  best     float32 with oneDNN's products (the fp32 precision setting) and the fused AdamW
  bf16     torch.autocast in bfloat16 and the fused AdamW
  compile, compile_bf16  best and bf16, the model by torch.compile
Prints one JSON line per step on rank 0: step, loss over the ranks, seconds. With "device": "cuda"
in the case the same over NCCL, and "told_every" steps share one line, as the host must not wait for
the device in each.

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


class Pairs(Dataset):
    """Text pairs, tokenised when a batch is put together, as Hugging Face's examples do."""

    def __init__(self, files, labels):
        self.rows = [json.loads(line) for file in files for line in open(file)]
        self.labels = labels

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return row["sentence1"], row["sentence2"], self.labels.index(row["gold_label"])


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


def make_bert(case):
    from transformers import BertConfig, BertForSequenceClassification
    torch.manual_seed(42)
    return BertForSequenceClassification(BertConfig(
        vocab_size=case["vocab_size"], hidden_size=case["width"], num_labels=3,
        num_hidden_layers=case["layers"], num_attention_heads=case["heads"],
        intermediate_size=4 * case["width"], hidden_dropout_prob=case["dropout"],
        attention_probs_dropout_prob=case["dropout"]))


def make_mlp(case):
    torch.manual_seed(42)
    sizes = case["sizes"]
    parts = []
    for size_in, size_out in zip(sizes, sizes[1:]):
        parts += [nn.Linear(size_in, size_out), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def pairs_to_tensors(case):
    """collate_fn: pads to the longest of the batch, cuts at the case's sequence length."""
    from transformers import BertTokenizerFast
    tokenizer = BertTokenizerFast(vocab_file=case["vocabulary"], do_lower_case=False)

    def collate(rows):
        first, second, labels = zip(*rows)
        inputs = tokenizer(list(first), list(second), padding=True, truncation=True,
                           max_length=case["sequence"], return_tensors="pt")
        return inputs, torch.tensor(labels)

    return collate


def make_model(case):
    return {"bert": make_bert, "gpt": make_gpt, "mlp": make_mlp}[case["model"]](case)


def open_data(case):
    """Data set, and what makes a batch of its samples (None: stack them)."""
    if case["model"] == "mlp":
        return RandomVectors(case["samples"], case["sizes"][0], case["sizes"][-1]), None
    if case["model"] == "bert":
        return Pairs(case["files"], case["labels"]), pairs_to_tensors(case)
    return TextByBytes(case["files"], case["sequence"]), None


def loss_of(case, model, inputs, targets):
    if case["model"] == "mlp":
        return F.mse_loss(model(inputs), targets)
    if case["model"] == "bert":
        return F.cross_entropy(model(**inputs).logits, targets)
    return F.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())


def batches(dataset, collate, size, workers):
    sampler = DistributedSampler(dataset, seed=42)
    loader = DataLoader(dataset, batch_size=size, sampler=sampler, drop_last=True,
                        collate_fn=collate, num_workers=workers, persistent_workers=workers > 0)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def moved(batch, device):
    return [part.to(device, non_blocking=True) for part in batch]


def train(case, side):
    device, told_every = case.get("device", "cpu"), case.get("told_every", 1)
    model = make_model(case)
    if case["model"] != "mlp":
        model = type(model).from_pretrained(case["weights"])
    model = DistributedDataParallel(model.train().to(device))
    if side.startswith("compile"):
        model = torch.compile(model)
    if side in ("best", "compile"):
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # float32 where there is no AMX
    fused = {} if side == "default" else {"fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), lr=case["learning_rate"], betas=(0.9, 0.95),
                                  weight_decay=0.0, **fused)
    autocast = (torch.autocast(device, torch.bfloat16) if side.endswith("bf16")
                else contextlib.nullcontext())
    begin = time.perf_counter()
    for step, batch in enumerate(
            batches(*open_data(case), case["batch"], case.get("loader_workers", 0)), 1):
        optimizer.zero_grad()
        with autocast:
            loss = loss_of(case, model, *moved(batch, device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % told_every != 0:
            continue
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            mean = mean.item() / dist.get_world_size()
            end = time.perf_counter()  # reading the batch is part of a step, as on the other side
            print(json.dumps({"step": step, "loss": mean,
                              "step_seconds": (end - begin) / told_every}), flush=True)
            begin = end
        if step == case["steps"]:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", type=json.loads, required=True)
    parser.add_argument("--side", default="default",
                        choices=["default", "best", "bf16", "compile", "compile_bf16"])
    parser.add_argument("--make")
    options = parser.parse_args()
    if options.make:
        make_model(options.case).save_pretrained(options.make)
        return
    dist.init_process_group("nccl" if options.case.get("device") == "cuda" else "gloo")
    train(options.case, options.side)
    dist.barrier()  # Gloo aborts a rank whose peer has closed while it still sends
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
