"""Our collectives against torch's with Gloo: the same inputs, the same outputs, line by line."""

import os
import socket
import subprocess
import sys
import tempfile
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
OURS = os.environ["DDPRUN_COLLECTIVES"]
THEIRS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collectives_peer.py")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_results(path, ranks):
    results = []
    for rank in range(ranks):
        with open(f"{path}.{rank}") as file:
            results.append(file.read().splitlines())
    return results


class Collectives(unittest.TestCase):
    def run_with(self, ranks, path, *target):
        job = subprocess.run(
            [DDPRUN, f"--nproc_per_node={ranks}", *target, path],
            env=dict(os.environ, PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1"),
            capture_output=True, text=True, timeout=300,
        )
        self.assertEqual(job.returncode, 0, job.stderr)
        return read_results(path, ranks)

    def run_on_two_nodes(self, ranks, path):
        """Each node an agent of its own, with memory of its own; between them UCX on loopback."""
        jobs = []
        port = free_port()
        for node in range(2):
            per_node = (ranks + 1) // 2 if node == 0 else ranks // 2
            jobs.append(subprocess.Popen(
                [DDPRUN, "--nnodes=2", f"--node_rank={node}", f"--nproc_per_node={per_node}",
                 "--master_addr=127.0.0.1", f"--master_port={port}", "--no_python", OURS, path],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            ))
        for job in jobs:
            output = job.communicate(timeout=300)[0]
            self.assertEqual(job.returncode, 0, output)
        return read_results(path, ranks)

    def compare(self, ours, theirs):
        for rank, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            self.assertGreater(len(other), 50)
            for line, expected in zip(mine, other, strict=True):
                self.assertTrue(line == expected, f"rank {rank}: {line[:200]}\n{expected[:200]}")

    def test_gives_what_gloo_gives(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                theirs = self.run_with(ranks, os.path.join(folder, "theirs"), THEIRS)
                ours = self.run_with(ranks, os.path.join(folder, "ours"), "--no_python", OURS)
                self.compare(ours, theirs)
                self.compare(self.run_on_two_nodes(ranks, os.path.join(folder, "two")), theirs)


if __name__ == "__main__":
    unittest.main()
