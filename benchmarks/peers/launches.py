"""Some training steps of GPT-2 or BERT in PyTorch on one GPU, for benchmarks/launches.py: eager,
bfloat16 by autocast, scaled-dot-product attention, clipping, AdamW. Inputs are drawn."""

import argparse
import contextlib

import torch
import torch.nn.functional as F
import training


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", help="the operators of the stand-in")
    parser.add_argument("--model", choices=["gpt", "bert"])
    parser.add_argument("--precision", choices=["bf16", "fp32"])
    parser.add_argument("--fused", action="store_true", help="AdamW with fused=True")
    for name in ("steps", "layers", "hidden", "batch", "vocabulary", "length"):
        parser.add_argument(f"--{name}", type=int)
    options = parser.parse_args()
    torch.ops.load_library(options.library)
    model = training.make_model({
        "model": options.model, "width": options.hidden, "layers": options.layers,
        "heads": options.hidden // 64, "vocab_size": options.vocabulary,
        "sequence": options.length, "dropout": 0.0}).train().to("cuda")
    fused = {"fused": True} if options.fused else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, **fused)
    autocast = (torch.autocast("cuda", torch.bfloat16) if options.precision == "bf16"
                else contextlib.nullcontext())
    for _ in range(options.steps):
        inputs = torch.randint(options.vocabulary, (options.batch, options.length)).cuda()
        optimizer.zero_grad()
        with autocast:
            if options.model == "bert":
                mask = torch.ones_like(inputs)
                mask[1, options.length // 2:] = 0
                logits = model(input_ids=inputs, attention_mask=mask).logits
                loss = F.cross_entropy(logits, torch.arange(options.batch).cuda() % 2)
            else:
                logits = model(inputs).logits
                loss = F.cross_entropy(logits.flatten(0, 1), inputs.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


if __name__ == "__main__":
    main()
