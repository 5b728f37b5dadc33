"""Whole runs on a GPU: the CPU's losses. The first step of whoever has one: scripts/test_gpu.sh."""

import os
import signal
import sys

import harness
import training


def has_open(pid, prefix):
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{fd}").startswith(prefix) for fd in os.listdir(folder))


class OnAGpu(training.TrainingTest):
    def compare(self, make_config, tolerance, **sections):
        """Once in a test: a second run of one name gets another folder, which nobody reads."""
        losses = {}
        for name, device, strategy in (("cpu", "cpu", "single"), ("single", "cuda", "single"),
                                       ("nccl", "cuda", "ddp")):
            config = make_config(run={"name": name, "device": device,
                                      "output_dir": "runs/{name}"},
                                 strategy={"type": strategy}, **sections)
            self.train(config, 1)
            losses[name] = self.losses(name)
            self.assertEqual(len({line["loss"] for line in self.metrics(name) if "loss" in line}),
                             len(losses[name]), "it learns")
            if device == "cuda":
                self.assertEqual(self.metrics(name)[0]["device"], "cuda:0")
                last = [line for line in self.metrics(name) if line.get("split") == "train"][-1]
                self.assertGreater(last["max_memory_allocated"], 0)
                self.assertGreaterEqual(last["max_memory_reserved"], last["max_memory_allocated"])
        for name in ("single", "nccl"):
            self.assertEqual(len(losses[name]), len(losses["cpu"]))
            largest = max(abs(a - b) for a, b in zip(losses[name], losses["cpu"]))
            print(f"{name}: largest difference of losses: {largest:.2e}")
            for step, (found, expected) in enumerate(zip(losses[name], losses["cpu"])):
                self.assertLess(abs(found - expected), tolerance, f"{name}, step {step + 1}")

    def test_of_a_small_model(self):
        self.compare(training.toy_config, 1e-5)

    def test_of_a_gpt(self):
        self.compare(training.gpt_config, 1e-4)

    def test_of_a_gpt_with_label_smoothing(self):
        self.compare(training.gpt_config, 1e-4, training={"label_smoothing": 0.1})

    def test_of_a_gpt_in_bf16(self):
        self.compare(training.gpt_config, 5e-2, training={"precision": "bf16"})

    def test_of_a_gpt_without_fused_kernels(self):
        self.compare(training.gpt_config, 1e-4, training={"fused_kernels": False})

    def test_uses_fused_kernels(self):
        for precision in ("fp32", "bf16", "fp16"):
            config = training.gpt_config(run={"device": "cuda", "max_steps": 3},
                                         training={"precision": precision})
            job = self.run_ddprun("--nproc_per_node=1", self.write_config(config))
            self.assertEqual(job.returncode, 0, job.err)
            said = [line for line in job.out.splitlines() if "fused kernels: " in line]
            print(precision, *said)
            self.assertIn("fused kernels: for norms", "".join(said))

    def test_of_a_gpt_whose_steps_are_replayed(self):
        for strategy in ("single", "ddp"):
            for graph in (False, True):
                # Nothing is said where a graph is used.
                self.train(training.gpt_config(
                    run={"name": f"{strategy}_{graph}", "device": "cuda",
                         "output_dir": "runs/{name}"},
                    strategy={"type": strategy}, training={"cuda_graph": graph}))
            for found, expected in zip(self.losses(f"{strategy}_True"),
                                       self.losses(f"{strategy}_False"), strict=True):
                self.assertAlmostEqual(found, expected, places=5)

    def replay(self, make_config):
        """Says of the graph what the run says: padding may differ from batch to batch."""
        for graph in (False, True):
            job = self.run_ddprun("--nproc_per_node=1", self.write_config(make_config(
                run={"name": f"graph_{graph}", "device": "cuda", "output_dir": "runs/{name}"},
                training={"cuda_graph": graph})))
            self.assertEqual(job.returncode, 0, job.err)
            print(job.err, end="")
        pairs = list(zip(self.losses("graph_True"), self.losses("graph_False"), strict=True))
        print(f"replayed: largest difference of losses: {max(abs(a - b) for a, b in pairs):.2e}")
        for found, expected in pairs:
            self.assertAlmostEqual(found, expected, places=4)

    def test_of_a_llama(self):
        self.compare(self.llama(), 1e-4)

    def test_of_a_llama_whose_steps_are_replayed(self):
        self.replay(self.llama())

    def test_of_a_bert(self):
        self.compare(self.bert(), 1e-4)

    def test_of_a_bert_whose_steps_are_replayed(self):
        self.replay(self.bert())

    def test_of_images(self):
        self.compare(self.fresh({"type": "cnn", "channels": [8, 16], "hidden_size": 32},
                                self.image_data(64, 32)), 1e-4)

    def test_of_images_with_batch_norm(self):
        # A few ReLUs flip, and normalisation over a small batch carries that on.
        self.compare(self.fresh({"type": "resnet18"}, self.image_data(64, 32)), 5e-2)

    def test_of_one_process_with_its_devices(self):
        strategies = {"one": {"type": "single"}, "dp": {"type": "dp", "devices": ["cuda:0"]}}
        for name, strategy in strategies.items():
            self.train(training.toy_config(run={"name": name, "output_dir": "runs/{name}",
                                                "device": "auto"}, strategy=strategy))
        for found, expected in zip(self.losses("dp"), self.losses("one"), strict=True):
            self.assertAlmostEqual(found, expected, places=5)

    def test_of_two_ranks_that_share_a_gpu(self):
        for device in ("cpu", "cuda:0"):
            self.train(training.gpt_config(run={"name": device.replace(":", "_"), "device": device,
                                                "output_dir": "runs/{name}"}), 2)
        for found, expected in zip(self.losses("cuda_0"), self.losses("cpu"), strict=True):
            self.assertLess(abs(found - expected), 1e-4)

    def test_names_the_gpu_of_a_rank_that_was_killed(self):
        config = training.toy_config(run={"device": "cuda", "max_steps": 100000000})
        job = self.start("--nproc_per_node=1", self.write_config(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        worker, = (pid for pid in harness.processes_with(self.mark) if has_open(pid, "/dev/nvidia"))
        os.kill(worker, signal.SIGSEGV)
        self.finish(job)
        self.assertRegex(job.err, r"gpu       : [0-9a-fA-F:.]+: .*GiB")

    def test_of_more_ranks_than_gpus_says_so(self):
        config = training.toy_config(run={"device": "cuda"})
        job = self.run_ddprun("--nproc_per_node=17", self.write_config(config))
        self.assertEqual(job.returncode, 2)
        self.assertIn("TOO FEW GPUS", job.err)


if __name__ == "__main__":
    if not os.path.exists("/dev/nvidia0"):
        print("SKIPPED: this machine has no GPU")
        sys.exit(77)
    harness.main()
