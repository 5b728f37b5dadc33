"""training.virtual_ranks: runs of any number of processes have the same bits."""

import hashlib
import json
import random
import socket
import struct

import harness
import training

TIMES = ("ts", "seconds", "run_seconds", "step_seconds", "exposed_comm_seconds", "own_seconds")


class VirtualRanks(training.TrainingTest):
    def write_images(self, size=16, count=64):
        numbers = random.Random(6)
        labels = [numbers.randrange(3) for _ in range(count)]
        pixels = bytes(min(255, numbers.randrange(120) + 60 * label)
                       for label in labels for _ in range(size * size))
        for kind, sizes, data in (("images-idx3", (count, size, size), pixels),
                                  ("labels-idx1", (count,), bytes(labels))):
            with open(self.path(f"train-{kind}-ubyte"), "wb") as file:
                file.write(struct.pack(f">I{len(sizes)}I", 0x800 + len(sizes), *sizes) + data)
        return {"format": "idx", "train_files": ["train-images-idx3-ubyte"],
                "validation_fraction": 0.25}

    def images_config(self, **model):
        return {
            "run": {"max_steps": 3},
            "model": model,
            "data": self.write_images(),
            "training": {"per_device_train_batch_size": 2},
            "evaluation": {"eval_steps": 2},
            "report": {"logging_steps": 1},
        }

    def hash_of(self, run):
        """Returns a hash of all that a run leaves, but for times and facts about its processes."""
        digest = hashlib.sha256()
        with open(self.path(f"runs/{run}/model/model.safetensors"), "rb") as file:
            digest.update(file.read())
        lines = [line for line in self.metrics(run) if "split" in line]
        self.assertGreater(len(lines), 0)
        for line in lines:
            for name in TIMES:
                line.pop(name, None)
            digest.update(json.dumps(line).encode())
        return digest.hexdigest()

    def assert_one_hash(self, config, processes, virtual_ranks=8, **sections):
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        config["training"]["virtual_ranks"] = virtual_ranks
        hashes = {}
        for count in processes:
            config["run"]["name"] = f"on{count}"
            job = self.train(config, count)
            self.assertIn(f"{virtual_ranks} virtual ranks", job.out)
            hashes[count] = self.hash_of(f"on{count}")
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_of_a_gpt_with_dropout_accumulation_and_clipping(self):
        config = training.gpt_config(run={"max_steps": 3}, model={"dropout": 0.1},
                                     data={"validation_fraction": 0.05})
        self.assert_one_hash(config, (1, 2, 3, 4, 5, 8), training={
            "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
            "max_grad_norm": 0.5})

    def test_of_processes_on_two_nodes(self):
        """Each node an agent of its own, with memory of its own; between them UCX on loopback."""
        config = training.gpt_config(run={"name": "one", "max_steps": 3},
                                     training={"virtual_ranks": 8})
        self.train(config, 1)
        config["run"]["name"] = "two"
        path = self.write_config(config)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        nodes = [self.start("--nnodes=2", f"--node_rank={node}", f"--nproc_per_node={2 - node}",
                            "--master_addr=127.0.0.1", f"--master_port={port}", path)
                 for node in range(2)]
        for node in nodes:
            self.assertEqual(self.finish(node).returncode, 0, node.err)
        self.assertEqual(self.hash_of("two"), self.hash_of("one"))

    def test_of_a_run_that_was_4_then_2_then_3_processes(self):
        def config(name, steps):
            return training.gpt_config(
                run={"name": name, "max_steps": steps, "resume": "auto"},
                model={"dropout": 0.1},
                training={"virtual_ranks": 8, "per_device_train_batch_size": 2},
                scheduler={"lr_scheduler_type": "constant", "min_lr_ratio": 0.1},
                checkpoint={"save_steps": 1},
            )

        self.train(config("whole", 7), 1)
        for ranks, steps in ((4, 2), (2, 4), (3, 7)):
            self.train(config("parts", steps), ranks)
        lines = [line for line in self.metrics("parts") if "split" in line]
        self.assertEqual([line["step"] for line in lines], list(range(1, 8)))
        self.assertEqual(self.hash_of("parts"), self.hash_of("whole"))

    def test_of_a_gpt_in_bf16_with_recomputed_blocks(self):
        config = training.gpt_config(run={"max_steps": 3}, model={"dropout": 0.1})
        self.assert_one_hash(config, (1, 4), training={
            "per_device_train_batch_size": 2, "precision": "bf16",
            "gradient_checkpointing": True})

    def test_of_a_cnn_with_dropout(self):
        self.assert_one_hash(self.images_config(type="cnn", channels=[4, 8], hidden_size=16,
                                                dropout=0.3), (1, 3, 4))

    def test_of_a_resnet_whose_buffers_are_those_of_virtual_rank_0(self):
        self.assert_one_hash(self.images_config(type="resnet18"), (1, 2, 4), virtual_ranks=4)

    def test_of_an_mlp_that_is_updated_in_backward(self):
        self.assert_one_hash(training.toy_config(run={"max_steps": 20}), (1, 2, 4),
                             strategy={"optimizer_in_backward": True, "bucket_cap_mb": 0.0001,
                                       "first_bucket_mb": 0.0001})

    def test_have_the_losses_of_pytorch_on_as_many_processes(self):
        golden = training.read_golden("gpt_losses.json")
        self.train(training.gpt_config(training={"virtual_ranks": 2}), 1)
        found = self.losses("gpt")
        self.assertEqual(len(found), len(golden["losses"]["2"]))
        for step, (a, b) in enumerate(zip(found, golden["losses"]["2"]), 1):
            self.assertLess(abs(a - b), 1e-5, f"step {step}: {a} instead of {b}")

    def test_have_the_losses_of_as_many_processes_without_them(self):
        for name, ranks, virtual_ranks in (("plain", 4, 0), ("virtual", 2, 4)):
            config = training.gpt_config(run={"name": name, "max_steps": 8},
                                         training={"virtual_ranks": virtual_ranks})
            self.train(config, ranks)
        for a, b in zip(self.losses("plain"), self.losses("virtual")):
            self.assertLess(abs(a - b), 1e-6 * abs(b))

    def refused(self, config, *words, ranks=1):
        job = self.run_ddprun(f"--nproc_per_node={ranks}", self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        for word in words:
            self.assertIn(word, job.err)

    def test_refuse_more_processes_and_what_depends_on_their_number(self):
        two = {"virtual_ranks": 2}
        self.refused(training.toy_config(training=two), "TOO MANY RANKS",
                     "training.virtual_ranks is 2, but there are 3 ranks", ranks=3)
        for strategy in ({"comm_hook": "power_sgd"}, {"comm_hook": "post_local_sgd"},
                         {"comm_hook": "bf16"}, {"broadcast_buffers": False}, {"type": "single"}):
            (key,) = strategy
            self.refused(training.toy_config(training=two, strategy=strategy),
                         "KEYS THAT DO NOT FIT", f"strategy.{key} ")


if __name__ == "__main__":
    harness.main()
