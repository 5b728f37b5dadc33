"""Jobs that SLURM warns, preempts, cancels or ends leave a checkpoint, and a requeued job ends with
the bits of a job that nothing disturbed."""

import os
import re
import shutil
import time

import slurm_test_case
from slurm_test_case import DDPRUN

CONFIG = """{
  "model": {"type": "mlp", "layer_sizes": [256, 1024, 1024, 8]},
  "training": {"loss": "mse", "per_device_train_batch_size": 16, "matmul_engine": "default"},
  "optimizer": {"type": "sgd", "learning_rate": 0.001, "momentum": 0.9},
  "data": {"format": "random", "num_samples": 1024, "input_size": 256, "target_size": 8},
  "run": {"max_steps": STEPS, "name": "run", "output_dir": "FOLDER/{name}"},
  "report": {"logging_steps": 50}
}"""
STEPS = 800
ENDLESS = 10_000_000


class Jobs(slurm_test_case.SlurmTest):
    def wait_for_text(self, job, text, times=1):
        self.wait_for(lambda: self.output(job).count(text) >= times,
                      lambda: f"{text!r} in:\n{self.output(job)}")

    def wait_for_steps(self, job, run="run"):
        path = os.path.join(self.folder, run, "metrics.jsonl")

        def trained():
            try:
                with open(path, encoding="utf-8") as file:
                    return '"step"' in file.read()
            except FileNotFoundError:
                return False
        self.wait_for(trained, lambda: f"a step of {path}:\n{self.output(job)}")

    def slow_program(self, name, before):
        """Makes a program of SLURM's that runs a line of bash first. Returns a PATH for jobs."""
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        program = os.path.join(tools, name)
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/bash\n{before}\nexec {shutil.which(name)} "$@"\n')
        os.chmod(program, 0o755)
        return f"{tools}:{os.environ['PATH']}"

    def begin_again(self, job, *changes):
        """Waits until the job is in the queue again, and shortens its pause of two minutes."""
        self.wait_for(lambda: self.state(job) == "PENDING",
                      lambda: f"state PENDING:\n{self.output(job)}")
        # SLURM refuses a job ("credential revoked") in the second in which it has requeued it.
        self.cluster("exec", "scontrol", "update", f"jobid={job}", "StartTime=now+2",
                     *changes)


class RequeueTest(Jobs):
    CONF = """KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=ALL PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10"""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("train")
        test.setUp()
        cls.weights = test.train()

    def train(self):
        """Trains without a disturbance, and returns the weights."""
        job = self.submit()
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        self.assertEqual(self.field(job, "Restarts"), "0", out)  # never after success
        return self.read_weights()

    def submit(self, *options, steps=STEPS, flags="--requeue=3"):
        config = CONFIG.replace("STEPS", str(steps)).replace("FOLDER", self.folder)
        self.config = self.write("train.json", config)
        script = f"exec srun {DDPRUN} {flags} --nproc_per_node=2 {self.config}\n"
        return self.sbatch(script, "-N1", "-c2", "--open-mode=append", *options)

    def read_weights(self, run="run"):
        path = os.path.join(self.folder, run, "model", "model.safetensors")
        with open(path, "rb") as file:
            return file.read()

    def check_end(self, job, run="run", restarts="1"):
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        self.assertEqual(self.field(job, "Restarts"), restarts, out)
        self.assertIn("going on after step", out)
        self.assertEqual(self.read_weights(run), self.weights, out)
        runs = [name for name in os.listdir(self.folder) if name.startswith("run")]
        self.assertEqual(runs, [run], out)

    def test_a_warning_is_a_checkpoint_and_a_requeue(self):
        job = self.submit()
        self.wait_for_steps(job)
        self.cluster("exec", "scancel", "-s", "USR1", job)
        self.begin_again(job)
        out = self.output(job)
        self.assertRegex(out, r"stopped after step \d+ of \d+: SIGUSR1", out)
        self.assertIn(f"putting job {job} back into SLURM's queue (1 of 3)", out)
        self.check_end(job)

    def test_an_element_of_an_array_is_a_run_of_its_own(self):
        job = self.submit("--array=4")
        out_of = os.path.join(self.folder, f"out.{job}")
        self.wait_for_steps(job, "run_4")
        self.cluster("exec", "scancel", "-s", "USR1", f"{job}_4")
        self.begin_again(job)
        with open(out_of, encoding="utf-8") as file:
            self.assertIn(f"putting job {job}_4 back into SLURM's queue", file.read())
        self.check_end(job, "run_4")

    def test_preemption_is_a_checkpoint_and_slurm_requeues_by_itself(self):
        job = self.submit("-p", "low", "--exclusive", "-w", "node1")
        self.wait_for_steps(job)
        self.sbatch("true\n", "-p", "high", "--exclusive", "-w", "node1")
        self.begin_again(job)
        out = self.output(job)
        self.assertRegex(out, r"stopped after step \d+ of \d+: SIGTERM", out)
        self.assertNotIn("putting job", out)
        self.check_end(job)

    def test_scancel_is_a_checkpoint_and_no_requeue_and_a_new_job_goes_on(self):
        job = self.submit()
        self.wait_for_steps(job)
        self.cluster("exec", "scancel", job)
        state, out = self.end_of(job)
        self.assertEqual(state, "CANCELLED", out)
        self.wait_for_text(job, "does not go back into the queue: SLURM itself ends the job")
        self.assertRegex(self.output(job), r"stopped after step \d+ of \d+: SIGTERM")
        self.assertTrue(os.listdir(os.path.join(self.folder, "run", "checkpoints")))
        self.assertEqual(self.field(job, "Restarts"), "0", out)
        again = f"exec srun {DDPRUN} --nproc_per_node=2 --resume {self.folder}/run\n"
        self.check_end(self.sbatch(again, "-N1", "-c2"), restarts="0")

    def test_a_run_ends_before_the_job_and_goes_on(self):
        job = self.submit("-t", "1", steps=ENDLESS)
        self.wait_for_steps(job)
        self.begin_again(job)
        out = self.output(job)
        self.assertRegex(out, r"SLURM ends this job in [01]:\d\d; the run saves and stops at least")
        self.assertRegex(out, r"stopped after step \d+ of \d+: SLURM ends the job soon", out)
        self.assertIn(f"putting job {job} back into SLURM's queue (1 of 3)", out)
        self.wait_for_text(job, "going on after step")
        self.cluster("exec", "scancel", job)

    def test_an_error_of_the_config_is_no_reason(self):
        job = self.submit("--export=ALL", flags="--requeue=3 --set run.max_stepss=1")
        state, out = self.end_of(job)
        self.assertEqual(state, "FAILED", out)
        self.assertEqual(self.field(job, "ExitCode"), "2:0", out)
        self.assertEqual(self.field(job, "Restarts"), "0", out)
        self.assertNotIn("the queue", out)

    def test_without_scontrol_the_batch_script_is_told_what_to_write(self):
        tools = os.path.join(self.folder, "tools")
        os.mkdir(tools)
        for name in ("srun", "python3", "bash"):
            os.symlink(shutil.which(name), os.path.join(tools, name))
        job = self.submit(f"--export=ALL,PATH={tools}")
        self.wait_for_steps(job)
        self.cluster("exec", "scancel", "-s", "USR2", job)
        state, out = self.end_of(job)
        self.assertEqual(state, "FAILED", out)
        self.assertEqual(self.field(job, "ExitCode"), "75:0", out)
        self.assertIn(f"if [ $? -eq 75 ]; then scontrol requeue {job}; fi", out)


class SeveralNodesTest(Jobs):
    CONF = "KillWait=10"

    def test_a_node_that_ends_first_does_not_keep_the_job_from_the_queue(self):
        # srun ends the step after the agent of the other node, and scontrol takes its time.
        path = self.slow_program("scontrol", '[ "$2" != job ] || sleep 1')
        config = CONFIG.replace("STEPS", str(ENDLESS)).replace("FOLDER", self.folder)
        config = self.write("train.json", config)
        script = f"exec srun --kill-on-bad-exit=1 {DDPRUN} --requeue=3 {config}\n"
        job = self.sbatch(script, "-N2", "--ntasks-per-node=1", "--open-mode=append",
                          f"--export=ALL,PATH={path}")
        self.addCleanup(self.cluster, "exec", "scancel", job, check=False)
        self.wait_for_steps(job)
        self.cluster("exec", "scancel", "-s", "USR1", job)
        self.begin_again(job)
        self.assertIn(f"putting job {job} back into SLURM's queue (1 of 3)", self.output(job))


class WarnedNodeTest(Jobs):
    CONF = "KillWait=2"

    def test_leaves_the_workers_of_the_other_node_as_much_time(self):
        # The agent of node1 hears of the warning from node2 only, and its worker needs longer than
        # SLURM would leave after SIGTERM.
        config = CONFIG.replace("STEPS", str(ENDLESS)).replace("FOLDER", self.folder)
        config = self.write("train.json", config)
        job = self.sbatch(f"exec srun {DDPRUN} --requeue=3 {config}\n", "-N2",
                          "--ntasks-per-node=1", "-t", "10", "--open-mode=append")
        self.addCleanup(self.cluster, "exec", "scancel", job, check=False)
        self.wait_for_steps(job)
        self.cluster("node", "node1", "pkill", "-STOP", "-f", "ddp-trainer")
        self.cluster("node", "node2", "pkill", "-USR1", "-x", "ddprun")
        self.wait_for_text(job, "[ddprun n1] got SIGUSR1")
        time.sleep(3)
        self.cluster("node", "node1", "pkill", "-CONT", "-f", "ddp-trainer")
        self.begin_again(job)
        out = self.output(job)
        self.assertRegex(out, r"checkpoint of step \d+: .*\nstopped after step \d+ of \d+: SIGUSR1")
        self.assertNotIn("are killed", out)


class EndOfTheJobTest(Jobs):
    SAID = "SLURM ends this job in"

    def submit(self, head, *options, srun="srun"):
        config = CONFIG.replace("STEPS", str(ENDLESS)).replace("FOLDER", self.folder)
        config = self.write("train.json", config)
        job = self.sbatch(f"{head}\nexec {srun} {DDPRUN} {config}\n", *options)
        self.addCleanup(self.cluster, "exec", "scancel", job, check=False)
        return job

    def test_is_known_to_each_element_of_an_array(self):
        # The last element has the number of the array.
        job = self.submit("#SBATCH -N1 -t 10 --array=0-1",
                          "-o", os.path.join(self.folder, "out.%A_%a"))
        for element in (0, 1):
            self.wait_for_text(f"{job}_{element}", "\nstep ")
            self.assertIn(self.SAID, self.output(f"{job}_{element}"))

    def test_is_known_although_slurm_answers_late(self):
        path = self.slow_program("squeue", "sleep 1.5")
        job = self.submit("#SBATCH -N1 -t 10", f"--export=ALL,PATH={path}")
        self.wait_for_text(job, "\nstep ")
        self.assertIn(self.SAID, self.output(job))

    def test_is_that_of_the_first_group_of_a_heterogeneous_job_that_ends(self):
        job = self.submit("#SBATCH -N1 -t 10\n#SBATCH hetjob\n#SBATCH -N1 -t 9",
                          srun="srun --het-group=0,1")
        self.wait_for_text(job, "\nstep ")
        self.assertRegex(self.output(job), self.SAID + r" (9:00|[0-8]:\d\d);")


class ChangedConfigTest(Jobs):
    CONF = "KillWait=10"

    def test_of_a_job_that_waits_for_its_next_start_is_named(self):
        config = CONFIG.replace("STEPS", str(ENDLESS)).replace("FOLDER", self.folder)
        path = self.write("train.json", config)
        job = self.sbatch(f"exec srun {DDPRUN} --requeue=3 {path}\n", "-N1", "--open-mode=append")
        self.addCleanup(self.cluster, "exec", "scancel", job, check=False)
        self.wait_for_steps(job)
        self.cluster("exec", "scancel", "-s", "USR1", job)
        self.wait_for_text(job, "back into SLURM's queue")
        self.write("train.json", config.replace('"momentum": 0.9', '"momentum": 0.8'))
        self.begin_again(job)
        self.wait_for_text(job, f"a config that differs from that of {self.folder}/run: training "
                                "begins at step 1. To go on with that run: ddprun --resume "
                                f"{self.folder}/run\n")


class PrivateFoldersTest(Jobs):
    """Each node has a folder of its own, and the job starts again on other nodes."""
    NODES = "3"
    CONF = "KillWait=10"

    def requeue(self, first, second):
        nodes = 2 if "[" in first else 1
        config = CONFIG.replace("STEPS", str(ENDLESS)).replace("FOLDER", self.folder)
        config = self.write("train.json", config)
        own = self.write("own.sh", f'exec {DDPRUN} --requeue=3 '
                                   f'--set run.output_dir=$SLURMD_NODENAME/{{name}} {config}\n')
        job = self.sbatch(f"exec srun bash {own}\n", f"-N{nodes}", "-w", first,
                          "--open-mode=append")
        self.addCleanup(self.cluster, "exec", "scancel", job, check=False)
        self.wait_for_steps(job, "node2/run")
        self.cluster("exec", "scancel", "-s", "USR1", job)
        self.begin_again(job, f"ReqNodeList={second}")
        return job

    def test_a_run_that_no_node_has_begins_anew_with_a_warning(self):
        job = self.requeue("node2", "node3")
        self.wait_for_steps(job, "node3/run")
        self.cluster("exec", "scancel", job)
        _, out = self.end_of(job)
        self.assertIn("its nodes have no checkpoint of the run: training begins at step 1", out)

    def test_a_run_that_another_node_has_does_not_begin_anew(self):
        job = self.requeue("node[2-3]", "node[1-2]")
        state, out = self.end_of(job)
        self.assertEqual(state, "FAILED", out)
        self.assertIn("-- NO SHARED FOLDER", out)
        self.assertRegex(out, r"Rank 0 runs on node1, which does not have the run's\ncheckpoints, "
                              r"and node2 has node2/run/checkpoints/step-\d+")
        self.assertEqual(os.listdir(os.path.join(self.folder, "node1")), [], out)


if __name__ == "__main__":
    slurm_test_case.main()
