"""GPT-2 trained as a pipeline by ddprun and by torch.distributed.pipelining over Gloo: the same
weights and samples, the loss of each step."""

import json
import os
import random
import struct
import subprocess
import sys

import harness
import training

try:
    import torch
    import transformers
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STEPS = 12
PEER = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "benchmarks", "peers", "torch_pipeline.py")


class Losses(training.TrainingTest):
    def write_model_and_tokens(self):
        torch.manual_seed(3)
        transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_embd=32, n_layer=4, n_head=4, vocab_size=300, n_positions=32, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0,
            tie_word_embeddings=False)).save_pretrained(self.path("folder"))
        numbers = random.Random(1)
        tokens = [numbers.choice((7, 30, 31, 200 + i % 50)) for i in range(6000)]
        with open(self.path("tokens.bin"), "wb") as file:
            file.write(struct.pack(f"<{len(tokens)}H", *tokens))

    def test_equal_those_of_torch_pipelining(self):
        self.write_model_and_tokens()
        for schedule, stages in (("gpipe", 2), ("1f1b", 4)):
            name = f"{schedule}{stages}"
            job = {"folder": self.path("folder"), "file": self.path("tokens.bin"), "length": 32,
                   "stages": stages, "schedule": schedule, "batch": 8, "micro_batches": 4,
                   "steps": STEPS, "learning_rate": 1e-3, "seed": 11, "threads": 1,
                   "meeting": self.path(f"{name}-meeting"), "result": self.path(f"{name}-result")}
            subprocess.run([sys.executable, PEER, self.script(f"{name}.json", json.dumps(job))],
                           check=True, env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"})
            with open(job["result"]) as file:
                expected = json.load(file)["losses"]
            job["layers"] = [4 // stages] * stages
            self.train(self.config(name, job), stages)
            self.check(name, expected)
            if stages == 2:  # each layer shared out by two ranks besides
                self.train(self.config("mesh", job, tensor_parallel_size=2), 4)
                self.check("mesh", expected)

    def config(self, name, job, **strategy):
        return {
            "run": {"name": name, "max_steps": STEPS},
            "model": {"type": "gpt", "name_or_path": job["folder"]},
            "data": {"format": "tokens", "train_files": [job["file"]], "max_seq_length": 32,
                     "data_seed": job["seed"]},
            "training": {"per_device_train_batch_size": 8, "max_grad_norm": 0},
            "strategy": {"type": "pipeline", "pipeline_schedule": job["schedule"],
                         "pipeline_micro_batches": 4, "layers_per_stage": job["layers"],
                         **strategy},
            "optimizer": {"type": "adam", "learning_rate": 1e-3, "betas": [0.9, 0.999]},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }

    def check(self, name, expected):
        found = self.losses(name)
        self.assertEqual(len(found), len(expected))
        largest = max(abs(a - b) for a, b in zip(found, expected))
        self.assertLess(largest, 1e-4, name)
        self.assertLess(found[-1], found[0] - 0.1, name)


if __name__ == "__main__":
    harness.main()
