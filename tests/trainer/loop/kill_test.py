"""Whoever is killed, however: no process, no file, no shared memory is left."""

import json
import os
import signal

import harness
import training


class Kill(training.TrainingTest):
    def start_training(self, *flags, ranks=3):
        """A run without end, in the middle of its steps."""
        config = training.gpt_config(
            run={"max_steps": 10**9}, model={"name_or_path": ""}, report={"logging_steps": 1}
        )
        job = self.start(f"--nproc_per_node={ranks}", *flags, self.write_config(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        return job

    def processes(self, job):
        """(template, workers): the children of ddprun that run ddp-trainer."""
        template, workers = [], []
        for pid in harness.processes_with(self.mark):
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/environ", "rb") as file:
                is_trainer = b"DDPRUN_TEMPLATE_FD=" in file.read()
            if parent != job.pid or not is_trainer:
                continue
            # A worker has mapped the node's memory; the template has not.
            with open(f"/proc/{pid}/maps") as file:
                mapped = "ddprun-node-memory" in file.read()
            (workers if mapped else template).append(pid)
        self.assertEqual(len(template), 1)
        return template[0], workers

    def test_of_the_agent_ends_everything(self):
        job = self.start_training()
        job.send_signal(signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, -signal.SIGKILL)
        self.assert_nothing_left()

    def test_of_a_worker_ends_the_job_and_is_named_first(self):
        job = self.start_training()
        _, workers = self.processes(job)
        self.assertEqual(len(workers), 3)
        os.kill(workers[1], signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        report = job.err[job.err.index("-- WORKER FAILED") :]
        self.assertIn(f"exitcode  : -9 (pid: {workers[1]})", report)
        self.assert_nothing_left()

    def test_of_a_worker_tells_how_to_go_on_once_there_is_a_checkpoint(self):
        job = self.start_training()
        os.kill(self.processes(job)[1][0], signal.SIGKILL)
        self.finish(job)
        self.assertTrue(job.err.endswith("More: ddprun explain worker-failed\n"), job.err)

        command = "ddprun --nproc_per_node=3 --resume runs/gpt-2"
        more = ["--nproc_per_node=3", "--report_file=report.json"]
        # A line about a checkpoint comes before the launcher knows of it, the next one after.
        begun = [*more, "train.json", "--set", "checkpoint.save_steps=3"], "checkpoint of", 2
        resumed = [*more, "--resume", "runs/gpt-2"], "step", 1
        for (flags, line, lines), rank in ((begun, 0), (resumed, 2)):
            job = self.start(*flags)
            while lines > 0:
                self.assertIsNone(job.poll(), "training did not begin")
                lines -= job.stdout.readline().startswith(line)
            os.kill(self.processes(job)[1][rank], signal.SIGKILL)
            self.finish(job)
            self.assertEqual(job.returncode, 128 + signal.SIGKILL)
            self.assertTrue(job.err.endswith(f"\nTo go on: {command}\n"), job.err)
            with open(self.path("report.json")) as file:
                self.assertEqual(json.load(file)["to_go_on"], command)

    def test_of_a_worker_leaves_the_last_lines_of_its_log(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            job = self.start_training("--report_file=report.json")
            for _ in range(10):
                job.stdout.readline()
            _, workers = self.processes(job)
            os.kill(workers[2], number)
            self.finish(job)
            self.assertRegex(
                job.err,
                r"Its last log lines:\n(  \| \S+Z debug \[rank \d\] step done step=\d+ .*\n){3}",
            )
            with open(self.path("report.json")) as file:
                workers = json.load(file)["attempts"][0]["workers"]
            for worker in workers:
                # All but one that was being written.
                self.assertGreaterEqual(len(worker["last_log"]), 7, worker)
                self.assertIn(f"[rank {worker['rank']}] step done step=", worker["last_log"][-1])

    def test_of_the_template_lets_the_workers_go_on(self):
        job = self.start_training()
        template, workers = self.processes(job)
        os.kill(template, signal.SIGKILL)
        for _ in range(50):
            self.assertTrue(job.stdout.readline().startswith("step"))
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 75)
        self.assertEqual(len(workers), 3)
        self.assert_nothing_left()

    def test_of_the_template_before_its_workers_exist_is_reported(self):
        # It stops where it reads its config, a pipe that nobody writes.
        os.mkfifo(self.path("train.json"))
        job = self.start("--nproc_per_node=2", self.path("train.json"))
        harness.wait_until(
            lambda: any(pid != job.pid for pid in self.trainers()), "the template to start"
        )
        for pid in self.trainers():
            os.kill(pid, signal.SIGKILL)
        self.finish(job)
        self.assertNotEqual(job.returncode, 0)
        self.assert_nothing_left()

    def trainers(self):
        found = []
        for pid in harness.processes_with(self.mark):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"--template" in file.read():
                        found.append(pid)
            except OSError:
                pass
        return found


if __name__ == "__main__":
    harness.main()
