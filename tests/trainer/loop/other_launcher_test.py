"""ddp-trainer under launchers that know nothing of it: torchrun, and none at all."""

import os
import signal
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

    def test_torchruns_restart_goes_on_in_the_run_folder(self):
        config = training.toy_config(
            run={"name": "whole", "max_steps": 4000}, optimizer={"type": "adamw"},
            checkpoint={"save_steps": 50}, report={"logging_steps": 100})
        torchrun = [TORCHRUN, "--standalone", "--nproc_per_node=2", "--max_restarts=1",
                    "--monitor_interval=0.1", "--no_python", TRAINER]
        whole = self.run_command(*torchrun, self.write_config(config))
        self.assertEqual(whole.returncode, 0, whole.stderr)
        config["run"]["name"] = "killed"
        with open(self.path("out"), "w") as out:
            job = subprocess.Popen([*torchrun, self.write_config(config)], env=self.env(),
                                   cwd=self.folder, stdout=out, stderr=out)
        harness.wait_until(lambda: "checkpoint of step" in self.said() or job.poll() is not None,
                           "a checkpoint")
        os.kill(self.workers()[-1], signal.SIGKILL)
        self.assertEqual(job.wait(harness.DEADLINE_S), 0, self.said())
        self.assertIn("going on after step ", self.said())
        self.assertEqual(sorted(os.listdir(self.path("runs"))), ["killed", "whole"])
        self.assertEqual(*[self.weights(run) for run in ("killed", "whole")])
        self.assert_no_shared_memory_left()

    def said(self):
        with open(self.path("out")) as out:
            return out.read()

    def workers(self):
        found = []
        for pid in harness.processes_with(self.mark):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read().startswith(TRAINER.encode()):
                    found.append(pid)
        return found

    def weights(self, run):
        with open(self.path(f"runs/{run}/model/model.safetensors"), "rb") as file:
            return file.read()

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
