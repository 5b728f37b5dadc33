"""Our collectives against torch's with Gloo: the same inputs, the same outputs, line by line."""

import os
import subprocess
import sys
import tempfile
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
OURS = os.environ["DDPRUN_COLLECTIVES"]
THEIRS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collectives_peer.py")


class Collectives(unittest.TestCase):
    def run_with(self, ranks, path, *target):
        job = subprocess.run(
            [DDPRUN, f"--nproc_per_node={ranks}", *target, path],
            env=dict(os.environ, PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1"),
            capture_output=True, text=True, timeout=300,
        )
        self.assertEqual(job.returncode, 0, job.stderr)
        results = []
        for rank in range(ranks):
            with open(f"{path}.{rank}") as file:
                results.append(file.read().splitlines())
        return results

    def test_gives_what_gloo_gives(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                ours = self.run_with(ranks, os.path.join(folder, "ours"), "--no_python", OURS)
                theirs = self.run_with(ranks, os.path.join(folder, "theirs"), THEIRS)
                for rank in range(ranks):
                    self.assertGreater(len(theirs[rank]), 50)
                    self.assertEqual(len(ours[rank]), len(theirs[rank]))
                    for mine, other in zip(ours[rank], theirs[rank]):
                        self.assertTrue(mine == other, f"rank {rank}: {mine[:200]}\n{other[:200]}")


if __name__ == "__main__":
    unittest.main()
