"""Two ranks that talk by NCCL on one GPU, where there is but one: are the results right? NCCL takes
no GPU twice on one host, so each rank says that it is on a host of its own."""

import os
import signal
import sys
import time

import harness
import training

RANK = f"""#!/bin/sh
export NCCL_HOSTID=rank$RANK NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
exec {os.environ["DDPRUN_TRAINER_PROGRAM"]} "$@"
"""
DEVICE = "cuda" if os.path.exists("/dev/nvidia0") else "cpu"  # the latter to try this file out


class TwoRanksByNccl(training.TrainingTest):
    def arguments(self, config):
        rank = self.script("rank.sh", RANK)
        os.chmod(rank, 0o755)
        return ("--nproc_per_node=2", "--virtual_local_rank", rank, self.write_config(config))

    def run_config(self, name, device, **sections):
        config = training.gpt_config(run={"name": name, "device": device,
                                          "output_dir": "runs/{name}"}, **sections)
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,0"  # each rank's, by --virtual_local_rank
        job = self.run_ddprun(*self.arguments(config))
        self.assertEqual(job.returncode, 0, job.err)
        # NCCL says at the end what was not ended.
        self.assertNotIn("destroy_process_group", job.err)
        return self.losses(name)

    def compare(self, **sections):
        expected = self.run_config("cpu", "cpu", **sections)
        found = self.run_config("nccl", DEVICE, **sections)
        largest = max(abs(one - other) for one, other in zip(found, expected, strict=True))
        print(f"largest difference of losses: {largest:.2e}")
        self.assertLess(largest, 1e-4)

    def test_ddp_by_nccl(self):
        self.compare(strategy={"type": "ddp", "bucket_cap_mb": 0.02, "first_bucket_mb": 0.01})

    def test_zero1_by_nccl(self):
        self.compare(strategy={"type": "zero1"})

    def test_zero2_by_nccl(self):
        self.compare(strategy={"type": "zero2"})

    def test_zero3_by_nccl(self):
        self.compare(strategy={"type": "zero3"})

    def test_tensor_parallel_by_nccl(self):
        self.compare(strategy={"type": "tensor_parallel"})

    def test_pipeline_by_nccl(self):
        self.compare(strategy={"type": "pipeline"}, training={"gradient_accumulation_steps": 4})

    def test_replayed_steps_by_nccl(self):
        """Targets are not the same on both ranks; both replay, or both queue."""
        expected = self.run_config("queued", DEVICE)
        found = self.run_config("replayed", DEVICE, training={"cuda_graph": True})
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_a_rank_that_stops_by_nccl(self):
        """The others are not left waiting for ever."""
        config = training.gpt_config(run={"device": DEVICE, "max_steps": 100000000},
                                     comm={"train_timeout_seconds": 10})
        os.environ["CUDA_VISIBLE_DEVICES"] = "0,0"
        job = self.start(*self.arguments(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        stopped, *_ = (pid for pid in harness.processes_with(self.mark)
                       if os.readlink(f"/proc/{pid}/exe").endswith("ddp-trainer"))
        os.kill(stopped, signal.SIGSTOP)
        begin = time.monotonic()
        self.finish(job)
        print(f"{time.monotonic() - begin:.1f} seconds to the report")
        self.assertNotEqual(job.returncode, 0)


if __name__ == "__main__":
    if DEVICE == "cpu" and "--on_cpu" not in sys.argv:
        print("SKIPPED: this machine has no GPU")
        sys.exit(77)
    sys.argv = [word for word in sys.argv if word != "--on_cpu"]
    harness.main()
