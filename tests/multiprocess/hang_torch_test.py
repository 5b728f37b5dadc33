"""--hang_timeout and a real process group: one rank never comes to a gloo collective."""

import sys

import harness

WORKER = """
import os, time
import torch
import torch.distributed as dist

def sleep_for_ever():
    while True:
        time.sleep(3600)

dist.init_process_group("gloo")
if dist.get_rank() == 1:
    sleep_for_ever()
dist.all_reduce(torch.ones(1))
"""


class HangTorch(harness.LauncherTest):
    def test_shows_which_rank_sleeps_and_which_waits(self):
        # Importing torch on a busy machine is work, not a hang; but give it time to get a core.
        job = self.run_ddprun(
            "--nproc_per_node=2",
            "--hang_timeout=10",
            self.script("worker.py", WORKER),
            env={"PYTHON_EXEC": sys.executable},
        )
        self.assertEqual(job.returncode, 124)
        report = job.err[job.err.index("-- WORKERS HANG") :]
        self.assertRegex(report, r"rank 1 \(.*\) state S \(sleeping\), in sleep")
        self.assertIn("in sleep_for_ever", job.err)
        self.assertIn("in all_reduce", job.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
