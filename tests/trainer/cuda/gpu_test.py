"""Whole runs on a GPU: the CPU's losses. The first step of whoever has one: scripts/test_gpu.sh."""

import os
import sys

import harness
import training


class OnAGpu(training.TrainingTest):
    def compare(self, make_config, tolerance):
        losses = {}
        for name, device, strategy in (("cpu", "cpu", "single"), ("single", "cuda", "single"),
                                       ("nccl", "cuda", "ddp")):
            config = make_config(run={"name": name, "device": device,
                                      "output_dir": "runs/{name}"},
                                 strategy={"type": strategy})
            self.train(config, 1)
            losses[name] = self.losses(name)
            if device == "cuda":
                self.assertEqual(self.metrics(name)[0]["device"], "cuda:0")
        for name in ("single", "nccl"):
            self.assertEqual(len(losses[name]), len(losses["cpu"]))
            for step, (found, expected) in enumerate(zip(losses[name], losses["cpu"])):
                self.assertLess(abs(found - expected), tolerance, f"{name}, step {step + 1}")

    def test_of_a_small_model(self):
        self.compare(training.toy_config, 1e-5)

    def test_of_a_gpt(self):
        self.compare(training.gpt_config, 1e-4)

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
