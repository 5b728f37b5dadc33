"""ddp-trainer under launchers that know nothing of it: torchrun, and none at all."""

import os
import subprocess
import sys

import harness
import training

TRAINER = os.environ["DDPRUN_TRAINER_PROGRAM"]
TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")


class OtherLauncher(training.TrainingTest):
    def run_command(self, *command):
        return subprocess.run(
            command, env=self.env(), cwd=self.folder, capture_output=True, text=True,
            timeout=harness.DEADLINE_S,
        )

    def expect_golden_losses(self, run, ranks):
        golden = training.read_golden("toy_losses.json")["losses"][str(ranks)]
        for found, expected in zip(self.losses(run), golden, strict=True):
            self.assertAlmostEqual(found, expected, delta=1e-6)

    def test_torchrun_starts_ranks_that_find_each_others_memory(self):
        config = self.write_config(training.toy_config(run={"name": "torchrun"}))
        job = self.run_command(
            TORCHRUN, "--standalone", "--nproc_per_node=2", "--no_python", TRAINER, config
        )
        self.assertEqual(job.returncode, 0, job.stderr)
        self.expect_golden_losses("torchrun", 2)
        self.assert_no_shared_memory_left()

    def test_without_launcher_it_is_the_only_rank(self):
        config = self.write_config(training.toy_config(run={"name": "alone"}))
        job = self.run_command(TRAINER, config)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.expect_golden_losses("alone", 1)

    def test_a_store_that_never_answers_is_named(self):
        config = self.write_config(training.toy_config(comm={"init_timeout_seconds": 1}))
        env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        job = self.run_command("env", *[f"{k}={v}" for k, v in env.items()], TRAINER, config)
        self.assertEqual(job.returncode, 3)
        self.assertIn("127.0.0.1:1", job.stderr)


if __name__ == "__main__":
    harness.main()
