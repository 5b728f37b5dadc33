"""Runs that are told to stop save, say how to go on, and end with an exit code for it."""

import os
import re
import resource
import shlex
import signal
import subprocess
import time

import harness
import training


class Stop(training.TrainingTest):
    def start_training(self, *flags, ranks=2, env=None, options=None, **sections):
        """A run without end, in the middle of its steps. `options`: of its process."""
        sections.setdefault("run", {}).setdefault("max_steps", 10**9)
        config = training.gpt_config(model={"name_or_path": ""}, **sections)
        job = self.start(
            f"--nproc_per_node={ranks}", *flags, self.write_config(config), env=env or {},
            **(options or {})
        )
        self.read_to(job, "step")
        return job

    def read_to(self, job, word):
        deadline = time.monotonic() + harness.DEADLINE_S
        for line in job.stdout:
            if line.startswith(word):
                return line
            if time.monotonic() > deadline:
                job.kill()
        self.finish(job)
        raise AssertionError(f"no line of {word}: {job.err}")

    def workers(self, job):
        found = []
        for pid in harness.processes_with(self.mark):
            with open(f"/proc/{pid}/maps") as file:
                if pid != job.pid and "ddprun-node-memory" in file.read():
                    found.append(pid)
        return found

    def checkpoints(self, run="gpt"):
        names = os.listdir(self.path(f"runs/{run}/checkpoints"))
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d+", name))

    def assert_stopped(self, job, code, why):
        self.finish(job)
        self.assertEqual(job.returncode, code, job.err)
        self.assertRegex(
            job.out, rf"stopped after step \d+ of \d+: {why}; to go on: "
            r"ddprun (--nproc_per_node=\d )?--resume runs/gpt"
        )
        self.assertNotIn("-- ", job.err)
        end = self.metrics("gpt")[-1]
        self.assertEqual(end["reason"], "stopped")
        self.assertEqual(self.checkpoints()[-1], end["step"])
        self.assert_nothing_left()

    def test_of_ddprun_saves_the_last_step(self):
        job = self.start_training("--max_restarts=1")
        job.send_signal(signal.SIGTERM)
        self.assert_stopped(job, 75, "SIGTERM")

    def ask(self, request):
        done = subprocess.run([harness.DDPRUN, request, "runs/gpt"], cwd=self.folder, text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_by_a_file_ends_all_ranks_with_0_after_a_save_that_a_file_asked_for(self):
        job = self.start_training("--max_restarts=1", ranks=3, checkpoint={"save_steps": 0})
        self.ask("save")
        self.read_to(job, "checkpoint of step")
        saved = self.checkpoints()
        self.assertEqual(len(saved), 1)
        self.assertNotIn("save", os.listdir(self.path("runs/gpt")))
        self.ask("stop")
        self.assert_stopped(job, 0, r"\w+ asked for it \(runs/gpt/stop\)")
        self.assertEqual(self.checkpoints()[0], saved[0])
        self.assertNotIn("stop", os.listdir(self.path("runs/gpt")))
        self.assertFalse(os.path.exists(self.path("runs/gpt/model")))

    def test_by_a_file_of_before_does_not_end_a_run_that_a_user_resumes(self):
        job = self.start_training(ranks=1)
        job.send_signal(signal.SIGTERM)
        self.assert_stopped(job, 75, "SIGTERM")
        open(self.path("runs/gpt/stop"), "w").close()
        before = self.checkpoints()[-1]
        job = self.run_ddprun("--resume", "runs/gpt", "--set", f"run.max_steps={before + 3}")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(self.metrics("gpt")[-1]["reason"], "finished")

    def test_by_interrupt_has_the_code_of_one(self):
        job = self.start_training()
        job.send_signal(signal.SIGINT)
        self.assert_stopped(job, 130, r"Ctrl-C \(SIGINT\)")

    def test_of_a_single_rank_stops_all(self):
        job = self.start_training("--max_restarts=1", ranks=3)
        os.kill(self.workers(job)[1], signal.SIGUSR2)
        self.assert_stopped(job, 75, "(SIGUSR2|a signal to another rank)")

    def test_of_ranks_that_average_models_waits_until_they_meet(self):
        hook = {"comm_hook": "post_local_sgd", "post_local_sgd_start_step": 2}
        job = self.start_training(
            strategy={**hook, "post_local_sgd_period": 5}, report={"logging_steps": 20}
        )
        self.read_to(job, "step ")
        job.send_signal(signal.SIGTERM)
        self.assert_stopped(job, 75, "SIGTERM")

    def test_by_the_limit_of_time_counts_from_the_jobs_start(self):
        job = self.start_training(run={"max_steps": 10**9, "max_time": "1 s"})
        self.assert_stopped(job, 75, "run.max_time is over")

    def test_by_a_limit_shorter_than_a_step_still_takes_one(self):
        job = self.start_training(run={"max_steps": 10**9, "max_time": "0.001 s"})
        self.assert_stopped(job, 75, "run.max_time is over")
        self.assertEqual(self.checkpoints(), [1])

    def test_in_a_step_that_takes_longer_than_the_grace_gives_it_up(self):
        """A step of minutes, with 20 s to stop in: the run ends with the bits of short steps."""
        def config(name):
            return training.toy_config(
                run={"name": name, "max_steps": 6},
                model={"layer_sizes": [10, 3000, 5]},
                data={"num_samples": 40000},
                training={"per_device_train_batch_size": 1, "matmul_engine": "default"},
            )

        self.train(config("whole"), 2)
        path = self.write_config(config("run"))
        flags = ["--nproc_per_node=2", "--shutdown_timeout=20"]
        job = self.run_ddprun(*flags, path, "--set", "run.max_time=0.001 s")
        self.assertEqual(job.returncode, 75, job.err)
        more = [*flags, "--resume", "runs/run", "--set", "run.max_time=0"]
        job = self.start(*more, "--set", "training.gradient_accumulation_steps=20000")
        self.read_to(job, "going on after step 1")
        # In the middle of the step, or before it.
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)
        self.assertIn("stopped after step 1 of 6, the next one would not have ended in time: "
                      "SIGTERM; to go on: ddprun --nproc_per_node=2 --resume runs/run", job.out)
        self.assertEqual(self.checkpoints("run"), [1])
        job = self.run_ddprun(*more, "--set", "training.gradient_accumulation_steps=1")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(self.losses("run"), self.losses("whole"))

    def test_in_an_evaluation_leaves_it_to_the_next_start(self):
        self.script("t.csv", "a,b,y\n" + "1,2,x\n3,4,z\n" * 20000)
        config = {
            "run": {"name": "run", "max_steps": 10**9},
            "model": {"type": "mlp", "layer_sizes": [2, 4, 2]},
            "data": {"format": "csv", "train_files": "t.csv", "label_column": "y",
                     "validation_fraction": 0.5},
            "training": {"per_device_eval_batch_size": 1},
            "evaluation": {"eval_steps": 1},
            "report": {"logging_steps": 1},
        }
        job = self.start("--nproc_per_node=2", self.write_config(config))
        self.read_to(job, "step")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)

        def evaluated():
            return [line["step"] for line in self.metrics("run")
                    if line.get("split") == "validation"]

        step = self.checkpoints("run")[-1]
        self.assertEqual(evaluated(), list(range(1, step)))
        more = ["--resume", "runs/run", "--set", f"run.max_steps={step + 1}"]
        job = self.run_ddprun("--nproc_per_node=2", *more)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(evaluated(), list(range(1, step + 2)))

    def test_does_not_wait_for_ever_for_the_part_of_another_rank(self):
        """Which can neither write its part of the checkpoint nor a file that says so."""
        deaf = {"preexec_fn": lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                "restore_signals": False}
        job = self.start_training("--shutdown_timeout=20", options=deaf)
        mute = sorted(self.workers(job))[1]
        resource.prlimit(mute, resource.RLIMIT_FSIZE, (0, 0))
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)
        self.assertRegex(job.out, "warning: no checkpoint of step .*the run had to stop waiting")
        self.assertNotIn("are killed", job.err)
        self.assert_nothing_left()

    def test_says_a_command_that_a_shell_takes(self):
        job = self.start_training(run={"name": "it's my run"})
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        command = re.search(r"to go on: ddprun (.*)", job.out)[1]
        step = self.checkpoints("it's my run")[-1]
        job = self.run_ddprun(*shlex.split(command), "--set", f"run.max_steps={step + 1}")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn(f"going on after step {step}:", job.out)

    def test_says_no_command_where_checkpoints_have_the_model_alone(self):
        job = self.start_training(checkpoint={"save_only_model": True, "save_steps": 1})
        self.read_to(job, "checkpoint of step")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)
        self.assertRegex(job.out, r"stopped after step .*; it has no checkpoint to go on from")
        self.assertNotIn("to go on: ", job.out)

    def test_while_it_starts_stops_after_the_first_step(self):
        config = training.gpt_config(model={"name_or_path": ""}, run={"max_steps": 10**9})
        for part in range(12):
            job = self.start("--nproc_per_node=2", self.write_config(config))
            time.sleep(0.1 * part)
            job.send_signal(signal.SIGTERM)
            self.finish(job)
            # Before it had its handlers the signal ended it.
            self.assertIn(job.returncode, (75, -signal.SIGTERM), job.err)
            self.assertNotIn("-- ", job.err)
            self.assert_nothing_left()

    def test_at_the_last_step_changes_nothing(self):
        config = training.gpt_config(model={"name_or_path": ""}, run={"max_steps": 3})
        job = self.start("--nproc_per_node=2", self.write_config(config))
        self.read_to(job, "weights: ")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)

    def test_goes_on_under_resume(self):
        job = self.start_training(report={"logging_steps": 1})
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        step = self.checkpoints()[-1]
        more = ["--resume", "runs/gpt", "--set", f"run.max_steps={step + 3}"]
        job = self.run_ddprun("--nproc_per_node=2", *more)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(len(self.losses("gpt")), step + 3)
        self.assertTrue(os.path.exists(self.path("runs/gpt/model/model.safetensors")))
        self.assertEqual(os.listdir(self.path("runs")), ["gpt"])

    def test_goes_on_when_slurm_puts_the_job_back_into_the_queue(self):
        job = self.start_training(env={"SLURM_JOB_ID": "7"})
        job.send_signal(signal.SIGUSR1)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)
        self.assertIn("got SIGUSR1 from pid", job.err)
        self.assertNotIn("a second one ends them", job.err)
        step = self.checkpoints()[-1]
        requeued = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"}
        job = self.start("--nproc_per_node=2", self.path("train.json"), env=requeued)
        self.assertIn(f"after step {step}:", self.read_to(job, "going on"))
        job.send_signal(signal.SIGTERM)
        self.assert_stopped(job, 75, "SIGTERM")
        self.assertEqual(os.listdir(self.path("runs")), ["gpt"])

    def test_a_restart_goes_on_from_the_newest_checkpoint(self):
        job = self.start_training("--max_restarts=1", checkpoint={"save_steps": 1},
                                  run={"recovery": "none"})
        self.read_to(job, "checkpoint of step")
        os.kill(self.workers(job)[1], signal.SIGKILL)
        self.read_to(job, "going on after step")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75, job.err)
        steps = [line["step"] for line in self.metrics("gpt") if line.get("split") == "train"]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(os.listdir(self.path("runs")), ["gpt"])

    def test_a_restart_without_a_checkpoint_says_that_it_begins_again(self):
        job = self.start_training("--max_restarts=1", run={"recovery": "none"})
        os.kill(self.workers(job)[1], signal.SIGKILL)
        self.read_to(job, "no checkpoint yet: training begins again at step 1")
        job.send_signal(signal.SIGTERM)
        self.assert_stopped(job, 75, "SIGTERM")

    def start_alone(self, config, env=None):
        trainer = os.path.join(os.path.dirname(harness.DDPRUN), "ddp-trainer")
        command = [trainer, self.write_config(config)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = self.env(**(env or {}))
        job = subprocess.Popen(command, env=env, cwd=self.folder, **options)
        for stream in (job.stdout, job.stderr):
            self.addCleanup(stream.close)
        return job

    def test_without_ddprun_has_the_same_codes(self):
        config = training.gpt_config(model={"name_or_path": ""}, run={"max_steps": 10**9})
        for number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            job = self.start_alone(config)
            self.read_to(job, "step")
            job.send_signal(number)
            self.finish(job)
            self.assertEqual(job.returncode, code, job.err)

    def test_without_ddprun_a_second_signal_is_haste(self):
        store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        alone = {"RANK": "0", "WORLD_SIZE": "2", **store}
        job = self.start_alone(training.toy_config(), alone)  # waits for the store
        harness.wait_until(lambda: self.catches(job.pid, signal.SIGTERM), "the handlers")
        job.send_signal(signal.SIGTERM)
        # The rule under test is about time, so time has to pass.
        time.sleep(0.6)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, -signal.SIGTERM)

    @staticmethod
    def catches(pid, number):
        with open(f"/proc/{pid}/status") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


if __name__ == "__main__":
    harness.main()
