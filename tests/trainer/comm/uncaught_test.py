"""The output of a user's C++ program that crashes, or throws an exception that nobody catches."""

import os
import subprocess
import unittest


class Uncaught(unittest.TestCase):
    def run_with(self, fault):
        return subprocess.run(
            [os.environ["DDPRUN_PROGRAM"], "--nproc_per_node=2", "--no_python",
             os.environ["DDPRUN_UNCAUGHT"], fault],
            env=dict(os.environ, OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=120)

    def test_a_crash_has_a_stack_with_its_rank(self):
        job = self.run_with("crash")
        self.assertEqual(job.returncode, 139, job.stderr)
        self.assertRegex(job.stderr, r"Stack of rank 1 at SIGSEGV:\n(?s:.*)uncaught_main")
        self.assertRegex(job.stderr, r"at SIGSEGV, by name:\n(?s:.*)  main \(uncaught_main\)\n")
        self.assertIn("Rank 1 was killed by SIGSEGV", job.stderr)

    def test_an_error_of_libtorch_is_its_text_without_its_frames(self):
        job = self.run_with("libtorch")
        self.assertEqual(job.returncode, 134, job.stderr)
        self.assertIn("shape '[3]' is invalid for input of size 2", job.stderr)
        self.assertNotIn("frame #", job.stderr)
        self.assertIn("Stack of rank 1 at SIGABRT", job.stderr)
        names = job.stderr.split("at SIGABRT, by name:\n")[1]
        self.assertIn("  main (uncaught_main)\n", names)
        self.assertNotIn("__cxa_throw", names)

    def test_a_failure_is_told_as_ddprun_tells_its_own(self):
        job = self.run_with("failure")
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assertIn("UNSUPPORTED TENSOR", job.stderr)
        self.assertIn("A collective was given 2 tensors.", job.stderr)
        for noise in ("Stack of", "terminate called", "SIGABRT"):
            self.assertNotIn(noise, job.stderr)


if __name__ == "__main__":
    unittest.main()
