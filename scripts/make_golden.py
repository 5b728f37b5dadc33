#!/usr/bin/env python3
"""Makes the values in tests/golden that the C++ tests compare with, by PyTorch and transformers.

Usage: scripts/make_golden.py [FOLDER]     (default: tests/golden of this checkout)

Needs torch and transformers (scripts/setup.sh --peers), and lion-pytorch from PyPI. The same
versions give the same files.
"""

import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile

import lion_pytorch
import torch
import torch.distributed as dist
import torch.nn.functional as F
import transformers
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

SEED = 42
STEPS = 20


def write_json(folder, name, value):
    value = {"torch": torch.__version__, "transformers": transformers.__version__, **value}
    (folder / name).write_text(json.dumps(value, separators=(",", ":")) + "\n")


# --- text -----------------------------------------------------------------------------------------

SUBJECTS = ["the old gardener", "a small boat", "the night train", "our neighbour's dog",
            "the river", "a letter from the coast", "the lighthouse keeper", "every second clock",
            "the baker",
            "a flock of starlings", "the young engineer", "the quiet valley"]
VERBS = ["waits for", "remembers", "slowly passes", "carries", "never forgets", "draws a map of",
         "listens to", "leaves behind", "looks after", "returns to", "measures", "greets"]
OBJECTS = ["the morning fog", "seven heavy boxes", "the sound of the mill", "a field of barley",
           "the last light on the hills", "an unfinished bridge", "the harbour wall", "fresh bread",
           "the first snow", "a long and winding road", "two silver keys", "the edge of the wood"]
ENDINGS = ["before the rain begins", "while the kettle sings", "as if nothing had happened",
           "and nobody asks why", "for the third time this week", "under a pale moon",
           "without a single word", "because the door stands open"]


def make_text(size):
    """About `size` bytes of prose; an own generator, since Python's may change."""
    state = 2463534242

    def pick(words):
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return words[(state >> 12) % len(words)]

    text = ""
    while len(text) < size:
        sentences = []
        for _ in range(4):
            parts = [pick(SUBJECTS), pick(VERBS), pick(OBJECTS), pick(ENDINGS)]
            sentence = " ".join(parts)
            sentences.append(sentence[0].upper() + sentence[1:] + ".")
        text += "\n".join(sentences) + "\n\n"
    return text


# --- data -----------------------------------------------------------------------------------------


def sampler_case(size, replicas, shuffle, drop_last, epoch):
    ranks = []
    for rank in range(replicas):
        sampler = DistributedSampler(range(size), replicas, rank, shuffle, SEED, drop_last)
        sampler.set_epoch(epoch)
        ranks.append(list(sampler))
    return {"size": size, "replicas": replicas, "shuffle": shuffle, "drop_last": drop_last,
            "epoch": epoch, "ranks": ranks}


def make_sampler(folder):
    cases = [sampler_case(size, replicas, shuffle, drop_last, epoch)
             for size in (1, 2, 7, 10, 64) for replicas in (1, 2, 3, 8)
             for shuffle in (False, True) for drop_last in (False, True) for epoch in (0, 3)]
    large = sampler_case(100_003, 2, True, False, 1)
    # A few entries and a checksum stand for the long lists.
    large["checksums"] = [sum((i + 1) * index for i, index in enumerate(rank)) % 2**31
                          for rank in large["ranks"]]
    large["ranks"] = [rank[:8] for rank in large["ranks"]]
    write_json(folder, "sampler.json", {"seed": SEED, "cases": cases, "large": large})


def random_samples(num_samples, in_shape, out_shape, seed):
    torch.manual_seed(seed)
    return [(torch.randn(in_shape), torch.randn(out_shape)) for _ in range(num_samples)]


def make_random_dataset(folder):
    cases = []
    # Vectors shorter than 16 are drawn in another order than longer ones.
    for count, inputs, targets, seed in ((4, 6, 2, 12345), (3, 20, 5, 7), (2, 33, 16, 1)):
        data = random_samples(count, inputs, targets, seed)
        cases.append({"seed": seed, "inputs": [x.tolist() for x, _ in data],
                      "targets": [y.tolist() for _, y in data]})
    write_json(folder, "random_dataset.json", {"cases": cases})


# --- models ---------------------------------------------------------------------------------------


def make_layers(sizes, seed):
    torch.manual_seed(seed)
    return [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]


def make_mlp_init(folder):
    cases = []
    for sizes, seed in (([6, 4, 2], 12345), ([10, 10, 5], SEED), ([50, 7], 1)):
        layers = [{"weight": layer.weight.tolist(), "bias": layer.bias.tolist()}
                  for layer in make_layers(sizes, seed)]
        cases.append({"sizes": sizes, "seed": seed, "layers": layers})
    write_json(folder, "mlp_init.json", {"cases": cases})


def make_gpt_init(folder):
    """A tiny GPT-2 with noise on every parameter: biases of 0, gains of 1 would hide mistakes."""
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(SEED)
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    model.save_pretrained(folder / "gpt_init")
    (folder / "gpt_init" / "generation_config.json").unlink(missing_ok=True)
    (folder / "gpt_init" / "model.safetensors").chmod(0o644)


def load_gpt(folder):
    return transformers.GPT2LMHeadModel.from_pretrained(folder / "gpt_init")


def gpt_sample(text, index, length=32):
    chunk = torch.tensor(list(text[index * length:index * length + length + 1]))
    return chunk[:-1], chunk[1:]


# --- runs -----------------------------------------------------------------------------------------


def batches(size, rank, world, batch_size):
    """Index lists of one batch each, epoch after epoch."""
    sampler = DistributedSampler(range(size), world, rank, shuffle=True, seed=SEED)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        indices = list(sampler)
        yield from (indices[i:i + batch_size] for i in range(0, len(indices), batch_size))
        epoch += 1


def mean_over_ranks(loss, world):
    value = loss.detach().double()
    dist.all_reduce(value)
    return value.item() / world


def gpt_run(rank, world, folder):
    text = (folder / "text.txt").read_bytes()
    model = DistributedDataParallel(load_gpt(folder).train())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 4, STEPS)
    losses = []
    for _, indices in zip(range(STEPS), batches((len(text) - 1) // 32, rank, world, 4)):
        inputs, targets = (torch.stack(side) for side in
                           zip(*(gpt_sample(text, index) for index in indices)))
        loss = F.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
        losses.append(mean_over_ranks(loss, world))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return losses


class ToyModel(torch.nn.Module):
    """The 10-10-5 model of the DDP tutorial; layers named and made in the order of MakeMlp's."""

    def __init__(self):
        super().__init__()
        self.net1, self.net2 = make_layers([10, 10, 5], SEED)

    def forward(self, x):
        return self.net2(F.relu(self.net1(x)))


def toy_run(rank, world, folder):
    del folder
    data = random_samples(80, 10, 5, SEED)
    model = DistributedDataParallel(ToyModel())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _, indices in zip(range(STEPS), batches(len(data), rank, world, 20)):
        inputs, targets = (torch.stack(side) for side in zip(*(data[index] for index in indices)))
        loss = F.mse_loss(model(inputs), targets)
        losses.append(mean_over_ranks(loss, world))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def run_rank(rank, world, folder, meeting, runs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    losses = {run.__name__: run(rank, world, folder) for run in runs}
    if rank == 0:
        pathlib.Path(meeting + ".json").write_text(json.dumps(losses))
    dist.destroy_process_group()


def run_all(folder, world):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as scratch:
        meeting = f"{scratch}/meeting"
        torch.multiprocessing.spawn(run_rank, (world, folder, meeting, (gpt_run, toy_run)), world)
        return json.loads(pathlib.Path(meeting + ".json").read_text())


def make_losses(folder):
    worlds = {str(world): run_all(folder, world) for world in (1, 2)}
    text = (folder / "text.txt").read_bytes()
    with torch.no_grad():
        logits = load_gpt(folder).eval()(gpt_sample(text, 0)[0][None]).logits[0, -1]
    write_json(folder, "gpt_losses.json", {
        "sequence_length": 32, "batch_size_per_rank": 4, "sampler_seed": SEED,
        "learning_rate": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1,
        "max_grad_norm": 1.0, "schedule": "cosine", "warmup_steps": 4, "steps": STEPS,
        "logits_after_sample_0": logits.tolist(),
        "losses": {world: runs["gpt_run"] for world, runs in worlds.items()}})
    write_json(folder, "toy_losses.json", {
        "layer_sizes": [10, 10, 5], "activation": "relu", "model_seed": SEED, "data_seed": SEED,
        "num_samples": 80, "batch_size_per_rank": 20, "sampler_seed": SEED, "learning_rate": 1e-3,
        "steps": STEPS, "losses": {world: runs["toy_run"] for world, runs in worlds.items()}})


# --- optimizers -----------------------------------------------------------------------------------


def optimizer_case(name, make, initial, gradients, rates):
    parameters = [torch.nn.Parameter(value.clone()) for value in initial]
    # Two groups: the second without weight decay.
    optimizer = make([{"params": parameters[:1]}, {"params": parameters[1:], "weight_decay": 0.0}])
    after = []
    for rate, step_gradients in zip(rates, gradients):
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter, gradient in zip(parameters, step_gradients):
            parameter.grad = None if gradient is None else gradient.clone()
        optimizer.step()
        after.append([parameter.tolist() for parameter in parameters])
    # By the parameter's place.
    kept = optimizer.state_dict()["state"]
    state = [{key: value.tolist() for key, value in kept.get(i, {}).items() if value is not None}
             for i in range(len(parameters))]
    return {"name": name, "after": after, "state": state}


def make_optimizers(folder):
    torch.manual_seed(SEED)
    shapes = ((5, 3), (4,), (2, 2))
    initial = [torch.randn(shape) for shape in shapes]
    gradients = [[torch.randn(shape) for shape in shapes] for _ in range(6)]
    gradients[0][2] = gradients[2][1] = None  # parameters that took no part in the step
    rates = [0.0, 1e-2, 2e-2, 1e-2, 5e-3, 1e-3]
    optim = torch.optim
    cases = [optimizer_case(name, make, initial, gradients, rates) for name, make in (
        ("adamw", lambda p: optim.AdamW(p, betas=(0.9, 0.95), weight_decay=0.1)),
        ("adam", lambda p: optim.Adam(p, betas=(0.9, 0.999), weight_decay=0.1)),
        ("sgd", lambda p: optim.SGD(p, lr=0.1)),
        ("sgd_decay", lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1)),
        ("sgd_momentum", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1,
                                             dampening=0.1)),
        ("sgd_nesterov", lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
        ("adagrad", lambda p: optim.Adagrad(p, lr=0.1)),
        ("adagrad_decay", lambda p: optim.Adagrad(p, lr=0.1, weight_decay=0.1, eps=1e-6)),
        ("lion", lambda p: lion_pytorch.Lion(p, lr=0.1)),
        ("lion_decay", lambda p: lion_pytorch.Lion(p, lr=0.1, betas=(0.95, 0.98),
                                                   weight_decay=0.1)))]
    clips = []
    for max_norm in (0.5, 100.0):
        parameters = [torch.nn.Parameter(value.clone()) for value in initial]
        for parameter, gradient in zip(parameters, gradients[1]):
            parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        clips.append({"max_norm": max_norm, "norm": norm.item(),
                      "clipped": [parameter.grad.tolist() for parameter in parameters]})
    write_json(folder, "optimizers.json", {
        "lion_pytorch": importlib.metadata.version("lion-pytorch"),
        "initial": [value.tolist() for value in initial], "learning_rates": rates,
        "gradients": [[None if g is None else g.tolist() for g in step] for step in gradients],
        "cases": cases, "clips": clips})


def make_schedules(folder):
    def factors(make, steps):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        schedule = make(optimizer)
        values = []
        for _ in range(steps):
            values.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        return values

    hf = transformers
    write_json(folder, "schedules.json", {"cases": [
        {"shape": "constant", "warmup": 4, "min_lr_ratio": 0.0, "total_steps": 20, "factors":
         factors(lambda o: hf.get_constant_schedule_with_warmup(o, 4), 23)},
        {"shape": "linear", "warmup": 4, "min_lr_ratio": 0.0, "total_steps": 20, "factors":
         factors(lambda o: hf.get_linear_schedule_with_warmup(o, 4, 20), 23)},
        {"shape": "cosine", "warmup": 4, "min_lr_ratio": 0.0, "total_steps": 20, "factors":
         factors(lambda o: hf.get_cosine_schedule_with_warmup(o, 4, 20), 21)},
        {"shape": "cosine", "warmup": 0, "min_lr_ratio": 0.1, "total_steps": 20, "factors":
         factors(lambda o: hf.get_cosine_with_min_lr_schedule_with_warmup(
             o, 0, 20, min_lr_rate=0.1), 21)},
        {"shape": "cosine_with_restarts", "warmup": 4, "min_lr_ratio": 0.0, "total_steps": 200,
         "num_cycles": 3, "factors":
         factors(lambda o: hf.get_cosine_with_hard_restarts_schedule_with_warmup(
             o, 4, 200, num_cycles=3), 203)},
        {"shape": "polynomial", "warmup": 4, "min_lr_ratio": 0.1, "total_steps": 200, "power": 2.5,
         "factors": factors(lambda o: hf.get_polynomial_decay_schedule_with_warmup(
             o, 4, 200, lr_end=0.1, power=2.5), 203)},
        {"shape": "inverse_sqrt", "warmup": 4, "min_lr_ratio": 0.0, "total_steps": 200, "factors":
         factors(lambda o: hf.get_inverse_sqrt_schedule(o, 4), 203)},
        {"shape": "inverse_sqrt", "warmup": 0, "min_lr_ratio": 0.0, "total_steps": 200, "factors":
         factors(lambda o: hf.get_inverse_sqrt_schedule(o, 0), 203)},
        *({"shape": "warmup_stable_decay", "warmup": warmup, "min_lr_ratio": minimum,
           "total_steps": 200, "decay_steps": 60, "decay_type": decay, "factors":
           factors(lambda o, d=decay, w=warmup, m=minimum: hf.get_wsd_schedule(
               o, w, 60, 200, decay_type=d, min_lr_ratio=m), 203)}
          for decay, warmup, minimum in (("cosine", 4, 0.0), ("linear", 0, 0.1),
                                         ("1-sqrt", 0, 0.1)))]})


def main():
    checkout = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else checkout / "tests/golden").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    (folder / "text.txt").write_text(make_text(20_000))
    make_sampler(folder)
    make_random_dataset(folder)
    make_mlp_init(folder)
    make_gpt_init(folder)
    make_optimizers(folder)
    make_schedules(folder)
    make_losses(folder)


if __name__ == "__main__":
    main()
