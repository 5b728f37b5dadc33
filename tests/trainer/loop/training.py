"""JSON configs for whole runs of ddprun with the real ddp-trainer, and what the runs leave."""

import json
import os
import random
import struct
import subprocess

import harness

GOLDEN = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "tests", "golden")


def read_golden(name):
    with open(os.path.join(GOLDEN, name)) as file:
        return json.load(file)


def has_onednn():
    """Whether LibTorch takes oneDNN's float32 products on this processor (x86)."""
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    return {"avx512bw", "avx512dq", "avx512vl"} <= flags or "avx_ne_convert" in flags


def gpt_config(**sections):
    """The run that scripts/make_golden.py makes with PyTorch."""
    golden = read_golden("gpt_losses.json")
    config = {
        "run": {"name": "gpt", "output_dir": "runs/{name}", "max_steps": golden["steps"]},
        "model": {
            "type": "gpt",
            "name_or_path": os.path.join(GOLDEN, "gpt_init"),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        },
        "data": {
            "train_files": [os.path.join(GOLDEN, "text.txt")],
            "max_seq_length": golden["sequence_length"],
            "data_seed": golden["sampler_seed"],
        },
        "training": {
            "per_device_train_batch_size": golden["batch_size_per_rank"],
            "max_grad_norm": golden["max_grad_norm"],
        },
        "optimizer": {
            "learning_rate": golden["learning_rate"],
            "betas": golden["betas"],
            "eps": golden["eps"],
            "weight_decay": golden["weight_decay"],
            "no_decay": [],
        },
        "scheduler": {"warmup_steps": golden["warmup_steps"], "min_lr_ratio": 0},
        "report": {"logging_steps": 1},
    }
    for section, keys in sections.items():
        config.setdefault(section, {}).update(keys)
    return config


def toy_config(**sections):
    """The 10-10-5 model of the goldens."""
    golden = read_golden("toy_losses.json")
    config = {
        "run": {"name": "toy", "seed": golden["model_seed"], "max_steps": golden["steps"]},
        "model": {"type": "mlp", "layer_sizes": golden["layer_sizes"]},
        "data": {
            "format": "random",
            "num_samples": golden["num_samples"],
            "input_size": 10,
            "target_size": 5,
            "data_seed": golden["data_seed"],
        },
        "training": {
            "per_device_train_batch_size": golden["batch_size_per_rank"],
            "max_grad_norm": 0,
        },
        "optimizer": {"type": "sgd", "learning_rate": golden["learning_rate"]},
        "scheduler": {"lr_scheduler_type": "constant"},
        "report": {"logging_steps": 1},
    }
    for section, keys in sections.items():
        config.setdefault(section, {}).update(keys)
    return config


class TrainingTest(harness.LauncherTest):
    def image_data(self, count, size):
        """A data section, of grey pictures at random in ten classes."""
        with open(self.path("t-images-idx3-ubyte"), "wb") as file:
            file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, count, size, size))
            file.write(random.Random(1).randbytes(count * size * size))
        with open(self.path("t-labels-idx1-ubyte"), "wb") as file:
            file.write(struct.pack(">BBBBI", 0, 0, 8, 1, count))
            file.write(bytes(i % 10 for i in range(count)))
        return {"format": "idx", "train_files": ["t-images-idx3-ubyte"]}

    def fresh(self, model, data, steps=8):
        """Returns a function that makes a config of a model that the seed determines."""
        def make(**sections):
            config = gpt_config(**sections)
            config["model"], config["data"] = model, data
            config["run"]["max_steps"] = steps
            return config
        return make

    def llama(self, steps=8):
        return self.fresh({"type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
                           "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256},
                          gpt_config()["data"], steps)

    def bert(self, steps=8):
        """Like fresh(): a small BERT, with a vocabulary and texts at random."""
        draw = random.Random(1)
        words = [f"w{i}" for i in range(200)]
        os.makedirs(self.path("tokenizer"))
        self.script("tokenizer/vocab.txt",
                    "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
        self.script("tokenizer/tokenizer_config.json", '{"tokenizer_class": "BertTokenizer"}')
        rows = (" ".join(draw.choices(words, k=draw.randint(3, 20))) + f"\t{'ab'[i % 2]}\n"
                for i in range(100))
        self.script("pairs.tsv", "text\tlabel\n" + "".join(rows))
        return self.fresh({"type": "bert", "hidden_size": 32, "num_hidden_layers": 2,
                           "num_attention_heads": 4, "vocab_size": 205},
                          {"format": "text_classification", "train_files": ["pairs.tsv"],
                           "text_column": "text", "label_column": "label",
                           "tokenizer": "tokenizer", "max_seq_length": 32}, steps)

    def write_config(self, config, name="train.json"):
        return self.script(name, config if isinstance(config, str) else json.dumps(config))

    def train(self, config, ranks=1, *more):
        job = self.run_ddprun(f"--nproc_per_node={ranks}", self.write_config(config), *more)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(job.err, "")
        return job

    def written_by(self, command, path, *flags):
        """The lines that a command on a model writes."""
        done = subprocess.run([os.environ["DDPRUN_TRAINER_PROGRAM"], command, path, *flags],
                              capture_output=True, text=True, cwd=self.path("."), timeout=120,
                              env=self.env())
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout.splitlines()

    def use(self, command, run, file, *flags):
        """The JSON objects that a command on a model and other data writes."""
        return [json.loads(line)
                for line in self.written_by(command, f"runs/{run}", "--data", file, *flags)]

    def predict(self, run, file):
        """The rows that ddp-trainer predict writes."""
        return self.use("predict", run, file)

    def evaluate(self, run, file, *flags):
        """The object that ddp-trainer evaluate writes."""
        return self.use("evaluate", run, file, "--json", *flags)[0]

    def metrics(self, run):
        with open(self.path(f"runs/{run}/metrics.jsonl")) as file:
            return [json.loads(line) for line in file]

    def losses(self, run, split="train"):
        return [line["loss"] for line in self.metrics(run) if line.get("split") == split]
