"""The configs that follow published PyTorch scripts (docs/seeds.md), beside those scripts' own
loops: the same data, weights and losses."""

import json
import os
import random
import shutil
import sys

import harness
import training

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONFIGS = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "configs")
LABELS = ["entailment", "neutral", "contradiction"]


class RandomTensorDataset(Dataset):
    def __init__(self, seed, num_samples, in_shape, out_shape):
        torch.manual_seed(seed)
        self.data = [(torch.randn(in_shape), torch.randn(out_shape)) for _ in range(num_samples)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


def loaders(dataset, config, ranks):
    """Returns the loaders with which each rank of a script reads the first epoch."""
    data = config["data"]
    samplers = [DistributedSampler(dataset, ranks, rank, shuffle=data["shuffle"],
                                   seed=data["data_seed"]) for rank in range(ranks)]
    batch = (config["training"]["per_device_train_batch_size"] *
             max(1, len(config["strategy"]["devices"])))
    return [DataLoader(dataset, batch_size=batch, sampler=sampler) for sampler in samplers]


def train_in_pytorch(net, optimizer, batches_of_ranks, loss_of, steps):
    """DistributedDataParallel in one process; the loss of each step, averaged over ranks."""
    losses = []
    for _, batches in zip(range(steps), zip(*batches_of_ranks)):
        optimizer.zero_grad()
        total = 0.0
        for batch in batches:
            loss = loss_of(net, batch)
            (loss / len(batches)).backward()
            total += loss.item() / len(batches)
        optimizer.step()
        losses.append(total)
    return losses


class Seeds(training.TrainingTest):
    def run_config(self, name, ranks, *more, path=None):
        """Trains; returns what the run says of itself: its resolved config, losses and weights."""
        run = f"{name}-of-{ranks}"
        path = path or os.path.join(CONFIGS, "seeds", f"{name}.json")
        overrides = [f"run.name={run}", "report.logging_steps=1", *more]
        job = self.run_ddprun(f"--nproc_per_node={ranks}", path,
                              *(part for each in overrides for part in ("--set", each)))
        self.assertEqual((job.returncode, job.err), (0, ""))
        with open(self.path(f"runs/{run}/config.resolved.json")) as file:
            config = json.load(file)
        weights = safetensors.torch.load_file(self.path(f"runs/{run}/model/model.safetensors"))
        return config, self.losses(run), weights

    def assert_close(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for step, (a, b) in enumerate(zip(found, expected)):
            self.assertLess(abs(a - b), tolerance, f"step {step + 1}: {a} instead of {b}")

    def assert_follows_pytorch(self, name, ranks, make_net, make_optimizer, *more,
                               loss_of=lambda net, batch: nn.MSELoss()(net(batch[0]), batch[1])):
        config, losses, weights = self.run_config(name, ranks, "run.max_epochs=1", *more)
        sizes = [config["data"][key] for key in ("num_samples", "input_size", "target_size")]
        dataset = RandomTensorDataset(config["data"]["dataset_seed"], *sizes)
        torch.manual_seed(config["run"]["seed"])
        net = make_net()
        expected = train_in_pytorch(net, make_optimizer(net.parameters()),
                                    loaders(dataset, config, ranks), loss_of, 1000)
        self.assert_close(losses, expected, 1e-6)
        # In the order of the layers, whatever they are called.
        for found, mine in zip((weights[key] for key in sorted(weights)),
                               (dict(net.named_parameters())[key]
                                for key in sorted(dict(net.named_parameters())))):
            self.assertTrue(torch.allclose(found, mine, atol=1e-6))
        return losses

    def test_a_linear_layer_reads_thirty_samples_a_step_and_ten_at_last(self):
        for ranks in (1, 2):
            losses = self.assert_follows_pytorch(
                "linear", ranks, lambda: nn.Linear(5, 2),
                lambda parameters: torch.optim.SGD(parameters, lr=0.01))
            self.assertEqual(len(losses), 4 if ranks == 1 else 2)
        samples = [m["samples"] for m in self.metrics("linear-of-1") if m.get("split") == "train"]
        self.assertEqual(samples, [30, 30, 30, 10])

    def test_data_parallel_cuts_batches_as_torch_does(self):
        """DataParallel itself does nothing on CPUs: what it does with replicas, in its words."""
        def data_parallel_loss(net, batch):
            replicas = [net] * 2
            chunks = zip(*(part.chunk(2) for part in batch))
            outputs = [replica(x) for replica, (x, _) in zip(replicas, chunks)]
            return nn.MSELoss()(torch.cat(outputs), batch[1])

        for more in ((), ("strategy.loss=parallel",)):
            self.assert_follows_pytorch("data_parallel", 1, lambda: nn.Linear(5, 2),
                                        lambda parameters: torch.optim.SGD(parameters, lr=0.01),
                                        *more, loss_of=data_parallel_loss)
            shutil.move(self.path("runs/data_parallel-of-1"), self.path(f"kept{len(more)}"))
            with open(self.path(f"kept{len(more)}/metrics.jsonl")) as file:
                lines = [json.loads(line) for line in file]
            samples = [line["samples"] for line in lines if line.get("split") == "train"]
            self.assertEqual(samples, [30, 30, 30, 10])
            cuts = [[device["samples"] for device in line["devices"]]
                    for line in lines if line.get("event") == "device_memory"]
            self.assertEqual(cuts, [[len(part) for part in torch.zeros(size).chunk(2)]
                                    for size in (30, 10)])

    def test_data_parallel_gathers_outputs_or_losses(self):
        told = {}
        for name in ("data_parallel_output", "data_parallel_loss"):
            _, told[name], _ = self.run_config(name, 1)
            (line,) = [line for line in self.metrics(f"{name}-of-1")
                       if line.get("event") == "device_memory"]
            told[name, "gathered"] = [device["gathered"] for device in line["devices"]]
        self.assertEqual(told["data_parallel_output", "gathered"], [[1000, 10], []])
        self.assertEqual(told["data_parallel_loss", "gathered"], [[2], []])
        self.assert_close(told["data_parallel_output"], told["data_parallel_loss"], 1e-6)

    def test_a_linear_layer_with_adam(self):
        for ranks in (1, 2):
            self.assert_follows_pytorch("linear_adam", ranks, lambda: nn.Linear(100, 10),
                                        lambda parameters: torch.optim.Adam(parameters, lr=0.02))

    def test_the_toy_network(self):
        for ranks in (1, 2):
            self.assert_follows_pytorch(
                "toy", ranks, lambda: nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5)),
                lambda parameters: torch.optim.SGD(parameters, lr=0.001))

    def test_two_layers_on_random_vectors_give_the_published_loss(self):
        for ranks in (1, 2):
            losses = self.assert_follows_pytorch(
                "random_mlp", ranks, lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)),
                lambda parameters: torch.optim.SGD(parameters, lr=0.01))
            if ranks == 1:
                self.assertEqual(f"{sum(losses):.4f}", "2.1911")

    def test_samples_and_their_order_have_seeds_of_their_own(self):
        self.assert_follows_pytorch(
            "random_mlp", 2, lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)),
            lambda parameters: torch.optim.SGD(parameters, lr=0.01),
            "data.shuffle=true", "data.data_seed=0", "training.per_device_train_batch_size=5")

    def write_bert(self):
        """configs/bert_mnli.json with its two inputs beside it, small ones."""
        os.mkdir(self.path("configs"))
        config = shutil.copy(os.path.join(CONFIGS, "bert_mnli.json"), self.path("configs"))
        folder = self.path("models/bert-base-cased")
        words = ["the", "old", "boat", "mill", "passes", "un", "##finished", "A", "!"]
        os.makedirs(folder)
        with open(os.path.join(folder, "vocab.txt"), "w") as file:
            file.write("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
        transformers.BertTokenizer(os.path.join(folder, "vocab.txt"),
                                   do_lower_case=False).save_pretrained(folder)
        torch.manual_seed(3)
        # Dropout as bert-base-cased has it; weights large enough for every difference to be seen.
        transformers.BertForSequenceClassification(transformers.BertConfig(
            hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
            vocab_size=5 + len(words), num_labels=3, hidden_dropout_prob=0.1,
            attention_probs_dropout_prob=0.1, initializer_range=0.2)).save_pretrained(folder)
        numbers = random.Random(2)
        os.makedirs(self.path("data/multinli_1.0"))
        rows = []
        with open(self.path("data/multinli_1.0/multinli_1.0_train.jsonl"), "w") as file:
            for _ in range(100):
                texts = [" ".join(numbers.choice(("the", "Old", "boat", "unfinished", "A mill!"))
                                  for _ in range(numbers.randint(2, 40))) for _ in range(2)]
                label = numbers.randrange(3)
                rows.append({"premise": texts[0], "hypothesis": texts[1], "labels": label})
                file.write(json.dumps({"sentence1": texts[0], "sentence2": texts[1],
                                       "gold_label": LABELS[label]}) + "\n")
        return config, folder, rows

    def test_bert_on_mnli(self):
        path, folder, rows = self.write_bert()
        config, losses, _ = self.run_config(
            "bert_mnli", 2, "training.per_device_train_batch_size=4", "run.max_steps=12", path=path)
        self.assertEqual(config["data"]["data_seed"], 0)  # DistributedSampler's, unless told

        tokenizer = transformers.BertTokenizer.from_pretrained(folder)
        model = transformers.BertForSequenceClassification.from_pretrained(folder, num_labels=3)

        def loss_of(model, data):
            tokens = tokenizer(data["premise"], data["hypothesis"], padding=True, truncation=True,
                               max_length=512, return_tensors="pt")
            return model(input_ids=tokens.input_ids, attention_mask=tokens.attention_mask,
                         labels=data["labels"]).loss

        optimizer = torch.optim.Adam(model.parameters(), lr=3e-5)
        expected = train_in_pytorch(model, optimizer, loaders(rows, config, 2), loss_of, 12)
        self.assert_close(losses, expected, 1e-5)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    harness.main()
