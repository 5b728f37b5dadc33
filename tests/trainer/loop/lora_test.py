"""LoRA beside peft: the same start, losses, matrices and merged weights, and each reads the other's
folders."""

import os
import re
import subprocess
import sys

import harness
import training

os.environ["HF_HUB_OFFLINE"] = "1"  # all folders are here
try:
    import peft
    import safetensors.torch
    import torch
    import torch.nn.functional as F
    import transformers_peer
    import transformers_test
    from torch.utils.data import DistributedSampler
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

torch.set_num_threads(1)
STEPS = 20
MAKE = {"gpt": transformers_test.gpt, "bert": transformers_test.bert,
        "llama": transformers_test.llama}


def tensors(*path):
    return safetensors.torch.load_file(os.path.join(*path))


def largest_difference(found, expected):
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    return max((found[name] - expected[name]).abs().max().item() for name in found)


class Lora(transformers_test.Files):
    def base(self, kind):
        """A folder of transformers, and the keys of a run that uses it."""
        torch.manual_seed(3)
        folder = self.path(kind)
        model = MAKE[kind]()
        if kind == "llama":
            model = model.to(torch.bfloat16)
        model.save_pretrained(folder)
        file = self.write_pairs(folder) if kind == "bert" else self.write_tokens()
        data = {"format": "tokens", "train_files": [file], "max_seq_length": 32, "data_seed": 11}
        if kind == "bert":
            data.update(format="text_classification", tokenizer=folder,
                        labels=transformers_test.LABELS)
        return folder, {
            "run": {"max_steps": STEPS, "seed": 5},
            "model": {"type": kind, "name_or_path": folder},
            "data": data,
            "training": {"per_device_train_batch_size": 4, "max_grad_norm": 0, "lora_r": 4,
                         "lora_alpha": 16},
            "optimizer": {"learning_rate": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.01,
                          "no_decay": []},
            "scheduler": {"lr_scheduler_type": "constant"},
            "report": {"logging_steps": 1},
        }

    def with_keys(self, config, **sections):
        return {**config, **{name: {**config.get(name, {}), **keys}
                             for name, keys in sections.items()}}

    def peft_model(self, kind, folder, **options):
        model = transformers_peer.CLASSES[kind].from_pretrained(folder)
        torch.manual_seed(5)
        return peft.get_peft_model(model, peft.LoraConfig(
            task_type="SEQ_CLS" if kind == "bert" else "CAUSAL_LM", r=4, lora_alpha=16,
            fan_in_fan_out=kind == "gpt", **options))

    def peft_start(self, kind, folder, **options):
        """A model whose matrices are all drawn, and its folder."""
        model = self.peft_model(kind, folder, **options)
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.02)
        start = folder + "-start"
        model.save_pretrained(start)
        return model, start

    def train_peft(self, kind, model, folder, config, world):
        """Returns the losses: of each step the mean of the ranks' means."""
        job = {"file": config["data"]["train_files"][0], "length": 32, "folder": folder,
               "labels": transformers_test.LABELS}
        data = (transformers_peer.Pairs if kind == "bert" else transformers_peer.Tokens)(job)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3,
                                      weight_decay=0.01)
        model.train()
        orders = []
        for rank in range(world):
            sampler = DistributedSampler(range(len(data)), world, rank, shuffle=True, seed=11)
            order = []
            for epoch in range(STEPS):
                sampler.set_epoch(epoch)
                indices = list(sampler)
                order += [indices[i:i + 4] for i in range(0, len(indices), 4)]
            orders.append(order)
        losses = []
        for step in range(STEPS):
            loss = 0
            for order in orders:
                inputs, targets = data.batch(order[step])
                logits = model(**inputs).logits
                loss = loss + F.cross_entropy(logits.flatten(0, -2), targets.flatten()) / world
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def compare(self, kind, ways, **options):
        folder, config = self.base(kind)
        expected = {}
        for world in sorted({ranks for _, ranks in ways}):
            model, start = self.peft_start(kind, folder, **options)
            losses = self.train_peft(kind, model, folder, config, world)
            model.save_pretrained(folder + "-trained")
            expected[world] = losses, tensors(folder + "-trained", "adapter_model.safetensors")
        for strategy, ranks in ways:
            name = f"{kind}-{strategy}-{ranks}"
            keys = {"lora_target_modules": options.get("target_modules", []),
                    "use_rslora": options.get("use_rslora", False)}
            self.train(self.with_keys(config, run={"name": name}, model={"adapter": start},
                                      strategy={"type": strategy}, training=keys), ranks)
            losses, matrices = expected[ranks]
            found = self.losses(name)
            self.assertEqual(len(found), STEPS)
            of_losses = max(abs(a - b) for a, b in zip(found, losses))
            run = self.path(f"runs/{name}")
            of_matrices = largest_difference(
                tensors(run, "adapter", "adapter_model.safetensors"), matrices)
            moved = largest_difference(tensors(start, "adapter_model.safetensors"), matrices)
            print(f"{name}: losses from {found[0]:.4f} to {found[-1]:.4f}, differences: losses "
                  f"{of_losses:.1e}, matrices {of_matrices:.1e} (moved by {moved:.1e})")
            self.assertGreater(moved, 1e-2)
            self.assertLess(of_losses, 1e-5)
            self.assertLess(of_matrices, 1e-5)
        self.check_folders(kind, folder, run)

    def check_folders(self, kind, folder, run):
        """peft reads adapter/, transformers reads model/, and both give what was trained."""
        def load():
            return transformers_peer.CLASSES[kind].from_pretrained(folder)
        with_matrices = peft.PeftModel.from_pretrained(load(), os.path.join(run, "adapter")).eval()
        merged = transformers_peer.CLASSES[kind].from_pretrained(os.path.join(run, "model")).eval()
        inputs = torch.arange(5, 15).view(2, 5)
        with torch.no_grad():
            logits = with_matrices(input_ids=inputs).logits
            self.assertLess((merged(input_ids=inputs).logits - logits).abs().max().item(), 1e-5)
            self.assertGreater((load().eval()(input_ids=inputs).logits - logits).abs().max(), 1e-3)
        by_peft = with_matrices.merge_and_unload().state_dict()
        self.assertLess(largest_difference(merged.state_dict(), by_peft), 1e-6)

    def test_of_gpt_trains_as_peft(self):
        self.compare("gpt", [("ddp", 1), ("ddp", 2), ("zero1", 2), ("zero2", 2)])

    def test_of_llama_trains_as_peft(self):
        self.compare("llama", [("zero3", 2)], target_modules=["q_proj", "v_proj", "mlp.down_proj"],
                     use_rslora=True)

    def test_of_a_classifier_trains_as_peft(self):
        self.compare("bert", [("ddp", 2), ("zero3", 2)])

    def test_begins_with_the_bits_of_peft(self):
        for kind in ("gpt", "llama"):
            folder, config = self.base(kind)
            self.train(self.with_keys(config, run={"name": kind, "max_steps": 1},
                                      optimizer={"learning_rate": 0.0}))
            self.peft_model(kind, folder).save_pretrained(folder + "-fresh")
            found, expected = (tensors(path, "adapter_model.safetensors") for path in
                               (self.path(f"runs/{kind}/adapter"), folder + "-fresh"))
            self.assertEqual(largest_difference(found, expected), 0)
            self.assertEqual(largest_difference(
                tensors(self.path(f"runs/{kind}/model"), "model.safetensors"),
                tensors(folder, "model.safetensors")), 0)

    def test_resumes_with_equal_bits(self):
        _, config = self.base("gpt")
        for strategy in ("ddp", "zero3"):
            config = self.with_keys(config, training={"lora_dropout": 0.2},
                                    strategy={"type": strategy})
            half = {"name": f"half-{strategy}", "max_steps": 4}
            self.train(self.with_keys(config, run={"name": f"whole-{strategy}", "max_steps": 8}), 2)
            self.train(self.with_keys(config, run=half, checkpoint={"save_steps": 4}), 2)
            resumed = {**half, "max_steps": 8, "resume": self.path(f"runs/half-{strategy}")}
            self.train(self.with_keys(config, run=resumed), 2)
            for file in ("adapter/adapter_model.safetensors", "model/model.safetensors"):
                whole, found = (tensors(self.path(f"runs/{run}-{strategy}"), file)
                                for run in ("whole", "half"))
                self.assertEqual(largest_difference(found, whole), 0, file)

    def trainer(self, *args):
        return subprocess.run([os.environ["DDPRUN_TRAINER_PROGRAM"], *args], text=True,
                              capture_output=True, cwd=self.path("."))

    def test_is_used_merged(self):
        _, config = self.base("gpt")
        self.train(self.with_keys(config, run={"name": "run", "max_steps": 3}))
        # Only two layers' matrices [4, 48] and [144, 4] have gradients.
        self.assertIn("gradients 6.00 KiB, optimizer 12 KiB",
                      self.trainer("check", "train.json").stdout)
        file = self.trainer("checkpoint", "export", "runs/run", "--to=run.safetensors")
        self.assertEqual(file.returncode, 2, file.stderr)
        self.assertIn("NOT MERGED", file.stderr)
        self.assertFalse(os.path.exists(self.path("run.safetensors")))
        folder = self.trainer("checkpoint", "export", "runs/run", "--to=exported")
        self.assertEqual(folder.returncode, 0, folder.stderr)
        self.assertEqual(largest_difference(
            tensors(self.path("exported"), "model.safetensors"),
            tensors(self.path("runs/run/model"), "model.safetensors")), 0)
        with_matrices, merged = (
            re.search(r"loss +(\S+)", self.trainer("evaluate", path, "--data", "tokens.bin").stdout)
            for path in ("runs/run", "runs/run/model"))
        self.assertEqual(with_matrices[1], merged[1])

    def refused(self, config, *texts):
        job = self.run_ddprun(self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        for text in texts:
            self.assertIn(text, job.err)
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_refuses_what_cannot_be(self):
        folder, config = self.base("gpt")
        other, _ = self.base("bert")
        _, of_other = self.peft_start("bert", other)
        _, wide = self.peft_start("gpt", folder, use_rslora=True)

        def lora(**keys):
            return self.with_keys(config, training=keys)
        self.refused(lora(lora_target_modules=["c_attn", "q_proj"]), '"q_proj"',
                     "transformer.h.*.attn.c_attn")
        self.refused(lora(lora_r=0), "training.lora_alpha is for LoRA", "lora_r is 0")
        self.refused(lora(lora_r=-1), "training.lora_r")
        self.refused(self.with_keys(config, model={"adapter": of_other}), of_other,
                     "bert.encoder.layer.0.attention.self.query.lora_A.weight", "Missing (4)")
        self.refused(self.with_keys(config, model={"adapter": wide}), "use_rslora is true there")
        _, moved = self.peft_start("gpt", folder, init_lora_weights="pissa")
        self.refused(self.with_keys(config, model={"adapter": moved}),
                     'init_lora_weights is "pissa" there')
        self.refused(self.with_keys(config, model={"adapter": folder}), "adapter_config.json")
        for strategy in ("tensor_parallel", "pipeline"):
            self.refused(self.with_keys(config, strategy={"type": strategy}), "training.lora_r 4")
        self.refused(self.with_keys(config, model={"name_or_path": ""}), "model.name_or_path")


if __name__ == "__main__":
    harness.main()
