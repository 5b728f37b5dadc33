"""What torch.distributed has for the parallel training of models, on the backend "ddprun": 4 ranks
get the numbers that they get on Gloo.

Usage: parallel_test.py FOLDER DDPRUN; the folder holds the package ddprun.torch
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

WORKER = pathlib.Path(__file__).with_name("parallel_worker.py")
RANKS = 4
FOLDER = None  # from the command line, like DDPRUN
DDPRUN = None
# How many tensors each rank has; fewer would say that the case computes nothing.
CASES = {"sharded_optimizer": 16, "uneven_inputs": 12, "averaging": 16, "fully_sharded": 16,
         "tensor_parallel": 16, "sequence_parallel": 10, "placements": 82, "pipelines": 12,
         "gradients_of_collectives": 17}


class Parallel(unittest.TestCase):
    def test_training_has_the_numbers_of_gloo(self):
        with tempfile.TemporaryDirectory() as root:
            folders = {}
            for backend in ("gloo", "ddprun"):
                folders[backend] = pathlib.Path(root, backend)
                folders[backend].mkdir()
                done = subprocess.run(
                    [DDPRUN, f"--nproc_per_node={RANKS}", WORKER, backend, folders[backend],
                     *CASES],
                    env={**os.environ, "PYTHONPATH": FOLDER, "PYTHON_EXEC": sys.executable},
                    capture_output=True, text=True, timeout=600, check=False)
                self.assertEqual(done.returncode, 0, f"{backend}: {done.stderr[-3000:]}")
            for case, count in CASES.items():
                for rank in range(RANKS):
                    with self.subTest(case=case, rank=rank):
                        found, wanted = (torch.load(folders[backend] / f"{case}-{rank}.pt")
                                         for backend in ("ddprun", "gloo"))
                        self.assertGreaterEqual(len(found), count)
                        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    DDPRUN = sys.argv.pop(1)
    unittest.main()
