"""BERT, GPT-2 and Llama trained by ddprun from a folder that transformers wrote, beside
transformers and PyTorch's DDP, ZeRO-1 and FSDP2: 2 ranks, the same data files, the loss of each of
30 steps."""

import json
import os
import random
import struct
import subprocess
import sys

import harness
import training

try:
    import numpy
    import safetensors.torch
    import torch
    import transformers
    from sklearn.utils import class_weight
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STEPS = 30
WORDS = ["the", "old", "boat", "slowly", "passes", "a", "quiet", "mill", "un", "##finished", "!"]
LABELS = ["entailment", "neutral", "contradiction"]
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def bert():
    return transformers.BertForSequenceClassification(transformers.BertConfig(
        **SIZES, vocab_size=5 + len(WORDS), intermediate_size=96, max_position_embeddings=32,
        num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


def gpt():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=48, n_layer=2, n_head=4, vocab_size=300, n_positions=32, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **SIZES, num_key_value_heads=2, vocab_size=300, intermediate_size=96,
        max_position_embeddings=32))


class Files(training.TrainingTest):
    def write_tokens(self):
        # Words that repeat, so that there is something to learn.
        numbers = random.Random(1)
        tokens = [numbers.choice((7, 30, 31, 200 + i % 50)) for i in range(4000)]
        path = self.path("tokens.bin")
        with open(path, "wb") as file:
            file.write(struct.pack(f"<{len(tokens)}H", *tokens))
        return path

    def write_pairs(self, folder):
        numbers = random.Random(2)
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write("\n".join(vocabulary) + "\n")
        transformers.BertTokenizer(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
        path = self.path("pairs.jsonl")
        with open(path, "w") as file:
            for _ in range(100):
                texts = [" ".join(numbers.choice(("the", "old", "boat", "unfinished", "mill!"))
                                  for _ in range(numbers.randint(2, 24))) for _ in range(2)]
                row = {"sentence1": texts[0], "sentence2": texts[1],
                       "gold_label": numbers.choice(LABELS)}
                file.write(json.dumps(row) + "\n")
        return path


class Losses(Files):
    def job(self, kind, make, strategy, frozen=(), factors=None, decays=None, average=0,
            weights=()):
        torch.manual_seed(3)
        name = "-".join((kind, strategy, *frozen, *(factors or {}),
                         *(f"decay-{word}" for word in decays or ()),
                         *([f"average-{average}"] if average else []),
                         *(["weights"] if weights else [])))
        folder = self.path(f"{name}-folder")
        make().save_pretrained(folder)
        file = self.write_pairs(folder) if kind == "bert" else self.write_tokens()
        return {"type": kind, "strategy": strategy, "name": name, "folder": folder, "file": file,
                "length": 32, "labels": LABELS, "world": 2, "steps": STEPS, "batch": 4,
                "learning_rate": 3e-5, "seed": 11, "frozen": frozen, "factors": factors or {},
                "decays": decays or {}, "weight_decay": 0.5 if decays else 0,
                "weights": weights, "average": average, "averages": self.path(f"{name}-averages"),
                "meeting": self.path(f"{name}-meeting"), "losses": self.path(f"{name}-losses")}

    def config(self, job):
        data = {"format": "tokens", "train_files": [job["file"]]}
        if job["type"] == "bert":
            data = {"format": "text_classification", "train_files": [job["file"]],
                    "tokenizer": job["folder"], "labels": LABELS}
        return {
            "run": {"name": job["name"], "max_steps": job["steps"]},
            "strategy": {"type": job["strategy"]},
            "model": {"type": job["type"], "name_or_path": job["folder"]},
            "data": {**data, "max_seq_length": job["length"], "data_seed": job["seed"]},
            "training": {"per_device_train_batch_size": job["batch"], "max_grad_norm": 0,
                         "freeze": job["frozen"], "class_weights": job["weights"]},
            "optimizer": {"type": "adam", "learning_rate": job["learning_rate"],
                          "learning_rate_factors": job["factors"], "betas": [0.9, 0.999],
                          "weight_decay": job["weight_decay"], "no_decay": [],
                          "weight_decay_factors": job["decays"],
                          "ema_decay": job["average"]},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }

    def test_of_three_families_equal_transformers_and_pytorch(self):
        jobs = [self.job("bert", bert, "ddp"), self.job("gpt", gpt, "ddp"),
                self.job("llama", llama, "ddp"), self.job("gpt", gpt, "zero1"),
                self.job("bert", bert, "zero3"), self.job("gpt", gpt, "zero3"),
                self.job("llama", llama, "zero3"),
                self.job("bert", bert, "ddp", ("embeddings", "layer.0")),
                self.job("gpt", gpt, "zero1", ("wte", "ln_1")),
                self.job("llama", llama, "zero3", ("layers.0",)),
                self.job("bert", bert, "ddp", factors={"classifier": 50, "embeddings": 0.1}),
                self.job("gpt", gpt, "zero1", ("ln_1",), factors={"wte": 20}),
                self.job("llama", llama, "zero3", factors={"layers.1": 20, "embed_tokens": 0.2}),
                self.job("bert", bert, "ddp", decays={"classifier": 0, "embeddings": 4}),
                self.job("gpt", gpt, "zero1", factors={"wte": 20}, decays={"wte": 0.1}),
                self.job("llama", llama, "zero3", decays={"layers.1": 6, "embed_tokens": 0})]
        self.run_peer(jobs)
        for job in jobs:
            with self.subTest(job=job["name"]):
                self.train(self.config(job), 2)
                self.assert_losses(job)

    def test_averages_equal_those_of_torch_optim_swa_utils(self):
        jobs = [self.job("bert", bert, "ddp", average=0.9),
                self.job("gpt", gpt, "zero1", ("ln_1",), average=0.5),
                self.job("gpt", gpt, "zero2", average=0.9),
                self.job("llama", llama, "zero3", average=0.9)]
        # Its averages are those of a whole model, with DDP.
        self.run_peer([{**job, "strategy": "ddp"} for job in jobs])
        for job in jobs:
            with self.subTest(job=job["name"]):
                config = self.config(job)
                config["data"]["validation_files"] = [job["file"]]
                config["evaluation"] = {"eval_steps": 7}  # it must not disturb the training
                self.train(config, 2)
                self.assert_losses(job)
                self.assert_averages(job)

    def test_weights_of_classes_equal_those_of_cross_entropy(self):
        jobs = [self.job("bert", bert, strategy, weights=[0.2, 1, 5]) for strategy in
                ("ddp", "zero3")]
        with open(jobs[0]["file"]) as file:
            rows = [LABELS.index(json.loads(line)["gold_label"]) for line in file]
        balanced = self.job("bert", bert, "zero1", weights=[1])
        balanced["weights"] = class_weight.compute_class_weight(
            "balanced", classes=numpy.unique(rows), y=rows).tolist()
        self.run_peer([*jobs, balanced])
        for job in jobs:
            with self.subTest(job=job["name"]):
                self.train(self.config(job), 2)
                self.assert_losses(job)
        config = self.config(balanced)
        config["training"].update(class_weights=[], balance_classes=True)
        self.train(config, 2)
        self.assert_losses(balanced)

    def run_peer(self, jobs):
        path = self.script("jobs.json", json.dumps(jobs))
        peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transformers_peer.py")
        subprocess.run([sys.executable, peer, path], check=True,
                       env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"})

    def assert_losses(self, job):
        with open(job["losses"]) as file:
            expected = json.load(file)
        found = self.losses(job["name"])
        self.assertEqual(len(found), STEPS)
        largest = max(abs(a - b) for a, b in zip(found, expected))
        self.assertLess(largest, 1e-4)
        print(f"{job['name']}: losses from {found[0]:.4f} to {found[-1]:.4f}, largest "
              f"difference {largest:.1e}")

    def assert_averages(self, job):
        def weights(folder):
            return safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))

        expected = weights(job["averages"])
        found = weights(self.path(f"runs/{job['name']}/model"))
        before = weights(job["folder"])
        self.assertEqual(found.keys(), expected.keys())
        largest = max((found[name] - expected[name]).abs().max().item() for name in expected)
        moved = max((found[name] - before[name]).abs().max().item() for name in expected)
        self.assertLess(largest, moved / 1000)
        with open(os.path.join(job["averages"], "loss.json")) as file:
            loss = json.load(file)
        self.assertAlmostEqual(self.losses(job["name"], "validation")[-1], loss, delta=1e-5)
        print(f"{job['name']}: averages moved by up to {moved:.1e}, largest difference "
              f"{largest:.1e}")


if __name__ == "__main__":
    harness.main()
