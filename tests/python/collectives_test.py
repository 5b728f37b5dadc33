"""init_process_group("gloo") and every collective with 8 processes under ddprun, over its store.

Usage: collectives_test.py DDPRUN
"""

import os
import pathlib
import subprocess
import sys
import unittest

WORKER = pathlib.Path(__file__).with_name("collectives_worker.py")
RANKS = 8
DDPRUN = None  # from the command line


class Collectives(unittest.TestCase):
    def run_workers(self, **env):
        done = subprocess.run(
            [DDPRUN, f"--nproc_per_node={RANKS}", WORKER], capture_output=True, text=True,
            env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1", **env},
            timeout=540, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        for rank in range(RANKS):
            self.assertIn(f"rank {rank} did all", done.stdout)

    def test_every_collective(self):
        self.run_workers()


if __name__ == "__main__":
    DDPRUN = sys.argv.pop(1)
    unittest.main()
