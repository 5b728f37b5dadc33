"""Mistakes of a plugin that only a whole run shows: crashes, exit(), threads, gradients."""

import json
import os

import harness

PLUGIN = os.environ["DDPRUN_FAULTY_PLUGIN"]
STACK = r"Stack of (rank \d|this process) at SIGSEGV:\n(?s:.*)libfaulty_plugin\.so\("


class Mistakes(harness.LauncherTest):
    def run_plugin(self, model="", data="", ranks=2):
        config = {
            "run": {"name": "faulty", "max_steps": 3},
            "model": {"type": "plugin", "path": PLUGIN, "options": {"fault": model}},
            "data": {"format": "plugin", "options": {"fault": data}},
        }
        job = self.run_ddprun(
            f"--nproc_per_node={ranks}", self.script("train.json", json.dumps(config)))
        self.assert_nothing_left()
        return job

    def test_a_crash_in_the_model_ends_with_a_stack_that_names_the_plugin(self):
        job = self.run_plugin(model="crash")
        self.assertEqual(job.returncode, 139, job.err)
        self.assertRegex(job.err, STACK)
        self.assertRegex(job.err, r"Rank \d was killed by SIGSEGV")

    def test_a_crash_of_the_data_set_before_the_fork_does_too(self):
        job = self.run_plugin(data="opening: crash")
        self.assertEqual(job.returncode, 1, job.err)
        self.assertRegex(job.err, STACK)
        self.assertIn("WORKER TEMPLATE FAILED", job.err)

    def test_exit_is_never_a_success(self):
        for faults in ({"model": "exit"}, {"data": "opening: exit"}):
            with self.subTest(**faults):
                job = self.run_plugin(**faults)
                self.assertEqual(job.returncode, 1, job.err)
                self.assertIn("-- EXIT WAS CALLED ---", job.err)
                self.assertIn("called exit(0) before training had ended", job.err)

    def test_an_error_in_backward_says_so_without_a_backtrace(self):
        for fault, text in (
            ("backward", "this layer has no gradient"),
            ("in place", "modified by an inplace operation"),
        ):
            with self.subTest(fault):
                job = self.run_plugin(model=fault)
                self.assertEqual(job.returncode, 1, job.err)
                self.assertIn("-- GRADIENTS CANNOT BE COMPUTED ---", job.err)
                self.assertIn(text, job.err)
                self.assertNotIn("frame #", job.err)

    def test_large_tensors_before_and_after_the_fork_do_not_hang(self):
        job = self.run_plugin(data="opening: parallel", model="parallel", ranks=1)
        self.assertEqual(job.returncode, 0, job.err)

    def test_threads_of_the_data_set_are_told_of(self):
        job = self.run_plugin(data="opening: thread", ranks=1)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("data: opening the plugin's data set left threads running (1)", job.out)


if __name__ == "__main__":
    harness.main()
