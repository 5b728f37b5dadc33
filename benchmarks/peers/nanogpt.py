"""Runs in a copy of nanoGPT's folder, for benchmarks/nanogpt.py.

weights FOLDER: writes the weights that train.py would start with as a folder of transformers.
train ORDER: runs train.py, which is not changed, with the windows of the text that the file ORDER
names: train.py draws them by torch.randint.
"""

import json
import pathlib
import runpy
import sys

import torch

SETTINGS = json.loads(pathlib.Path("settings.json").read_text())
LINEAR = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def write_weights(folder):
    from model import GPT, GPTConfig  # nanoGPT's
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1337)  # as train.py
    state = GPT(GPTConfig(dropout=0.0, **SETTINGS["model"])).state_dict()
    sizes = SETTINGS["model"]
    target = GPT2LMHeadModel(GPT2Config(
        vocab_size=sizes["vocab_size"], n_positions=sizes["block_size"], n_embd=sizes["n_embd"],
        n_layer=sizes["n_layer"], n_head=sizes["n_head"], activation_function="gelu"))
    # GPT-2 of transformers keeps the weights of linear layers transposed.
    target.load_state_dict({name: value.t() if name.endswith(LINEAR) else value
                            for name, value in state.items()})
    target.save_pretrained(folder)


def train(order):
    lines = json.loads(pathlib.Path(order).read_text())
    following = {"train": iter(lines["train"]), "eval": None}

    def windows(high, size):
        """The next batch of the run, or of the evaluation that goes through the file's start."""
        del high
        evaluation = sys._getframe(2).f_code.co_name == "estimate_loss"
        if not evaluation:
            following["eval"] = None
            return torch.tensor(next(following["train"]))
        # estimate_loss reads as many batches of the training text first: the same places.
        if following["eval"] is None:
            following["eval"] = iter(lines["eval"] * 2)
        begin = next(following["eval"])
        return torch.arange(begin, begin + size[0]) * SETTINGS["model"]["block_size"]

    torch.randint = windows
    sys.argv = ["train.py", *SETTINGS["arguments"]]
    torch.set_num_threads(SETTINGS["threads"])
    runpy.run_path("train.py", run_name="__main__")


if __name__ == "__main__":
    sys.path.insert(0, ".")
    {"weights": write_weights, "train": train}[sys.argv[1]](sys.argv[2])
