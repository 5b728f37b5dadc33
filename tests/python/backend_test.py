"""The backend "ddprun" of torch.distributed, with 4 processes and PyTorch's own store.

Usage: backend_test.py FOLDER, which holds the package ddprun.torch
"""

import os
import pathlib
import socket
import subprocess
import sys
import unittest

WORKER = pathlib.Path(__file__).with_name("backend_worker.py")
RANKS = 4
FOLDER = None  # from the command line


class Backend(unittest.TestCase):
    def run_ranks(self, case, ended=RANKS):
        """All ranks do `case`; the first `ended` of them have to end well."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        env = {**os.environ, "PYTHONPATH": FOLDER, "OMP_NUM_THREADS": "1",
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
        ranks = [subprocess.Popen([sys.executable, WORKER, case], env={**env, "RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank in range(RANKS)]
        texts = []
        try:
            for rank in ranks:
                texts.append(rank.communicate(timeout=300)[0])
        finally:
            for rank in ranks:
                rank.kill()
        for rank in range(ended):
            self.assertEqual(ranks[rank].returncode, 0, texts[rank][-3000:])
        return texts

    def test_reductions_equal_torch(self):
        self.run_ranks("reductions")

    def test_copies_equal_gloo(self):
        self.run_ranks("copies")

    def test_many_groups(self):
        self.run_ranks("groups")

    def test_initialised_again(self):
        self.run_ranks("again")

    def test_ddp_has_the_losses_of_gloo(self):
        self.run_ranks("ddp")

    def test_a_callback_may_wait_for_a_collective(self):
        self.run_ranks("nested")

    def test_a_forked_child_does_not_disturb(self):
        self.run_ranks("fork")

    def test_mismatched_shapes(self):
        self.run_ranks("mismatch")

    def test_a_missing_rank_is_named(self):
        self.run_ranks("missing")

    def test_a_killed_rank_is_named(self):
        texts = self.run_ranks("killed", ended=RANKS - 1)
        self.assertIn("noticed after", texts[0])

    def test_another_torch_is_refused(self):
        script = "import torch; torch.__version__ = '2.3.1'; import ddprun.torch"
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ,
                              "PYTHONPATH": FOLDER}, capture_output=True, text=True, check=False)
        self.assertIn("ImportError: ddprun.torch was built for torch 2.", done.stderr)
        self.assertIn("this Python has torch 2.3.1", done.stderr)


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
