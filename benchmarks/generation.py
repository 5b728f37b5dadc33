#!/usr/bin/env python3
"""Tokens per second of greedy generation, against transformers' generate with its cache.

A GPT-2 of 124 million parameters and a small Llama with grouped heads, random weights, float32,
batch 1, 128 new tokens. Loading is not measured on either side; transformers writes one text
before the one that counts, ddp-trainer none. The two sides take turns.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import harness

PROMPT = "The weather today"
NEW_TOKENS = 128
SIDES = ("ddprun", "transformers")

MAKE = """
import json, pathlib, sys
import torch, transformers
torch.manual_seed(0)
folder = pathlib.Path(sys.argv[1])
models = {
    "GPT-2, 124 M": transformers.GPT2LMHeadModel(transformers.GPT2Config()),
    "Llama, 110 M": transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10,
        num_attention_heads=12, num_key_value_heads=4, max_position_embeddings=2048)),
}
for name, model in models.items():
    model.save_pretrained(folder / name)
"""

PEER = """
import sys, time
import torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
model.generation_config.eos_token_id = None
prompt = torch.tensor([list(sys.argv[2].encode())])
count = int(sys.argv[3])
for tokens in (8, count):
    start = time.perf_counter()
    text = model.generate(prompt, do_sample=False, use_cache=True, max_new_tokens=tokens,
                          pad_token_id=0)
    seconds = time.perf_counter() - start
assert text.shape[1] == prompt.shape[1] + count
print(f"({count / seconds:.1f} tokens/s)")
"""


def speed(argv):
    run = subprocess.run(argv, capture_output=True, text=True, env=harness.environment())
    found = re.search(r"\(([\d.]+) tokens/s\)", run.stdout + run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"{argv[0]} failed:\n{run.stderr}")
    return float(found.group(1))


def main():
    options = harness.parser(__doc__, rounds=5).parse_args()
    python = harness.VENV / "python"
    results = {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-c", MAKE, folder], check=True, capture_output=True)
        for model in sorted(pathlib.Path(folder).iterdir()):
            sides = harness.sides(options, {
                "ddprun": [options.bin / "ddp-trainer", "generate", model, "--prompt", PROMPT,
                           "--max-new-tokens", NEW_TOKENS, "--temperature", 0],
                "transformers": [python, "-c", PEER, model, PROMPT, NEW_TOKENS]})
            found = {name: [] for name in sides}
            for _ in range(options.rounds):
                for name, argv in sides.items():
                    found[name].append(speed(argv))
            ours, theirs = (harness.median(found.get(side, [])) for side in SIDES)
            rows.append([model.name, ours, theirs, harness.ratio(theirs, ours)])
            results[model.name] = found
    harness.table(["model", "ddprun, tokens/s", "transformers, tokens/s", "ratio"], rows)
    harness.write_json(options, "generation", results)


if __name__ == "__main__":
    main()
