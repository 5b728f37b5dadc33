"""--hang_timeout and ddp-trainer: the flight recorder says who waits in what, and for whom."""

import os
import signal
import struct
import threading
import time

import harness
import training


class Hang(training.TrainingTest):
    def test_names_the_collective_and_the_rank_that_does_not_come(self):
        config = training.gpt_config(
            run={"max_steps": 10**9}, model={"name_or_path": ""}, report={"logging_steps": 1}
        )
        job = self.start("--nproc_per_node=3", "--hang_timeout=4", self.write_config(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        os.kill(self.worker_of_rank(job, 1), signal.SIGSTOP)
        self.finish(job)
        self.assertEqual(job.returncode, 124, job.err)
        report = job.err[job.err.index("-- WORKERS HANG") :]
        lines = report.splitlines()
        self.assertIn("The others wait for: rank 1 is stopped (state T)", lines[2])
        self.assertTrue(lines[3].startswith("  rank 1 "), lines[3])
        self.assertRegex(lines[4], r"^    \| .* debug \[rank 1\] ")
        others = [line for line in lines[4:] if not line.startswith("    | ")]
        for line, rank in zip(others, (0, 2)):
            self.assertRegex(line, rf"^  rank {rank} .* waits in \w+ \d+ .*of step \d+ for ")
        self.assertRegex(job.err, r"Stack of rank \d at SIGABRT")
        self.assert_nothing_left()

    def test_names_a_rank_that_is_slow(self):
        # Steps that are long beside the times for which a rank runs and stops: among few short ones
        # there may be no stop at all, and one such look is enough for no line.
        config = training.gpt_config(
            run={"max_steps": 10**9}, report={"logging_steps": 1},
            model={"name_or_path": "", "hidden_size": 256, "num_hidden_layers": 6}
        )
        job = self.start("--nproc_per_node=2", self.write_config(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        stopper = threading.Thread(target=self.stop_often,
                                   args=(job, self.worker_of_rank(job, 1)))
        stopper.start()
        for line in job.stdout:
            if "is slow" in line:
                break
        job.send_signal(signal.SIGTERM)
        job.stdout.read()
        self.finish(job)
        stopper.join()
        self.assertRegex(line, r"^rank 1 is slow, and the others wait for it: [0-9.]+ ms of its "
                               r"own in a step, the others [0-9.]+ ms \(median\)")
        name = config["run"]["name"]
        compared = [line["own_seconds"] for line in self.metrics(name) if "own_seconds" in line]
        self.assertEqual(compared[0]["steps"], 8)  # not the first, and not the one that reports
        for times in compared:
            for phase in ("data", "forward", "backward", "update", "between", "all"):
                self.assertLessEqual(times[phase]["min"], times[phase]["median"])
                self.assertLessEqual(times[phase]["median"], times[phase]["max"])

    @staticmethod
    def stop_often(job, pid):
        while job.poll() is None:
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.04)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                return
            time.sleep(0.01)

    def worker_of_rank(self, job, rank):
        """By its page of the flight recorder: magic, rank, pid."""
        for fd in os.listdir(f"/proc/{job.pid}/fd"):
            path = f"/proc/{job.pid}/fd/{fd}"
            if "ddprun-flight-recorder" not in os.readlink(path):
                continue
            with open(path, "rb") as file:
                file.seek(rank * 12288)
                _, found, pid = struct.unpack("<QQQ", file.read(24))
                self.assertEqual(found, rank)
                return pid
        raise AssertionError("no flight recorder")


if __name__ == "__main__":
    harness.main()
