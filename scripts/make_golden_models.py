#!/usr/bin/env python3
"""Makes tests/golden/{bert,llama}_init and transformer_losses.json by transformers and PyTorch DDP.

Usage: scripts/make_golden_models.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch and transformers (scripts/setup.sh --peers). The same versions give the same files.
"""

import json
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch.nn.parallel import DistributedDataParallel

SEED = 42
STEPS = 30
WORLD = 2
LEARNING_RATE = 1e-3  # high, so that a wrong gradient shows within the steps
IGNORED = -100


def save(model, folder):
    # Biases of 0 and gains of 1 would hide a tensor that went astray.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)


def make_models(folder):
    torch.manual_seed(SEED)
    save(transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=48, max_position_embeddings=24, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, num_labels=3)), folder / "bert_init")
    save(transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        rope_theta=1000.0, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
        bos_token_id=None, eos_token_id=None,
        rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    )), folder / "llama_init")


def padded_batch(generator, left):
    """4 rows of up to 20 tokens: ids, mask and token types [4, 20]."""
    length = 20
    ids = torch.randint(1, 90, (4, length), generator=generator)
    mask = torch.ones(4, length, dtype=torch.long)
    for row, count in enumerate((0, 3, 9, 15)):
        pads = slice(0, count) if left and row == 2 else slice(length - count, length)
        mask[row, pads] = 0
    types = torch.zeros_like(ids)
    types[:, 4:] = 1
    return ids * mask, mask, types * mask


def classification_batches():
    generator = torch.Generator().manual_seed(SEED)
    batches = []
    for _ in range(WORLD):
        ids, mask, types = padded_batch(generator, left=False)
        targets = torch.randint(0, 3, (4,), generator=generator)
        batches.append({"inputs": ids, "attention_mask": mask, "token_type_ids": types,
                        "targets": targets})
    return batches


def language_batches():
    generator = torch.Generator().manual_seed(SEED)
    batches = []
    for _ in range(WORLD):
        ids, mask, _ = padded_batch(generator, left=True)
        targets = torch.full_like(ids, IGNORED)
        targets[:, :-1] = torch.where(mask[:, 1:] * mask[:, :-1] == 1, ids[:, 1:], IGNORED)
        batches.append({"inputs": ids, "attention_mask": mask, "targets": targets})
    return batches


CASES = {
    "bert_init": (transformers.BertForSequenceClassification, classification_batches),
    "gpt_init": (transformers.GPT2LMHeadModel, language_batches),
    "llama_init": (transformers.LlamaForCausalLM, language_batches),
}


def outputs_of(model, batch):
    names = {"inputs": "input_ids"}
    return model(**{names.get(key, key): value for key, value in batch.items()
                    if key != "targets"}).logits


def run_case(rank, folder, name):
    model_class, make_batches = CASES[name]
    batch = make_batches()[rank]
    model = DistributedDataParallel(model_class.from_pretrained(folder / name).train())
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        outputs = outputs_of(model, batch)
        if not losses:
            first = outputs.detach().flatten(0, -2)
        loss = F.cross_entropy(outputs.flatten(0, -2), batch["targets"].flatten())
        mean = loss.detach().double()
        dist.all_reduce(mean)
        losses.append(mean.item() / WORLD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    counted = batch["targets"].flatten() != IGNORED
    return {"losses": losses, "outputs_of_counted": first[counted][:6].tolist()}


def run_rank(rank, folder, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=WORLD)
    cases = {name: run_case(rank, folder, name) for name in CASES}
    if rank == 0:
        pathlib.Path(meeting + ".json").write_text(json.dumps(cases))
    dist.destroy_process_group()


def main():
    checkout = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else checkout / "tests/golden").resolve()
    make_models(folder)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as scratch:
        meeting = f"{scratch}/meeting"
        torch.multiprocessing.spawn(run_rank, (folder, meeting), WORLD)
        cases = json.loads(pathlib.Path(meeting + ".json").read_text())
    for name, (_, make_batches) in CASES.items():
        cases[name]["batches"] = [{key: value.tolist() for key, value in batch.items()}
                                  for batch in make_batches()]
    value = {"torch": torch.__version__, "transformers": transformers.__version__,
             "learning_rate": LEARNING_RATE, "steps": STEPS, "cases": cases}
    (folder / "transformer_losses.json").write_text(
        json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
