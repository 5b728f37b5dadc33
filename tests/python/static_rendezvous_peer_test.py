"""Nodes of ddprun and of torchrun in one static job, either of them as node 0.

Usage: static_rendezvous_peer_test.py STATIC_NODE_MAIN
"""

import json
import socket
import subprocess
import sys
import tempfile
import unittest

OUR_NODE = None  # path of our node program, from the command line

WORKER = """
import json, os
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"]
line = json.dumps({name: os.environ[name] for name in names}) + "\\n"
os.write(1, line.encode())  # one write: torchrun's workers share the pipe, and print makes two
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class MixedJob(unittest.TestCase):
    def start_ours(self, node_rank, local_world_size, port):
        return subprocess.Popen(
            [OUR_NODE, str(node_rank), "2", str(local_world_size), f"127.0.0.1:{port}"],
            stdout=subprocess.PIPE, text=True)

    def start_torchrun(self, node_rank, local_world_size, port, script):
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", "--nnodes=2",
             f"--node-rank={node_rank}", f"--nproc-per-node={local_world_size}",
             "--master-addr=127.0.0.1", f"--master-port={port}", script],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_job(self, our_rank):
        port = free_port()
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(WORKER)
            script.flush()
            ours = self.start_ours(our_rank, 3, port)
            theirs = self.start_torchrun(1 - our_rank, 2, port, script.name)
            try:
                our_output, _ = ours.communicate(timeout=120)
                their_output, their_errors = theirs.communicate(timeout=120)
            finally:
                ours.kill()
                theirs.kill()
        self.assertEqual(ours.returncode, 0, our_output)
        self.assertEqual(theirs.returncode, 0, their_errors)
        workers = [json.loads(line) for line in their_output.splitlines()]
        self.assertEqual({worker["MASTER_PORT"] for worker in workers}, {str(port)})
        return json.loads(our_output), sorted(workers, key=lambda worker: worker["RANK"])

    def test_torchrun_joins_our_node_0(self):
        ours, workers = self.run_job(our_rank=0)
        self.assertEqual((ours["base_rank"], ours["world_size"]), (0, 5))
        self.assertEqual([worker["RANK"] for worker in workers], ["3", "4"])
        self.assertEqual({worker["WORLD_SIZE"] for worker in workers}, {"5"})

    def test_our_node_joins_torchruns_node_0(self):
        ours, workers = self.run_job(our_rank=1)
        self.assertEqual((ours["base_rank"], ours["world_size"]), (2, 5))
        self.assertEqual([worker["RANK"] for worker in workers], ["0", "1"])


if __name__ == "__main__":
    OUR_NODE = sys.argv.pop(1)
    unittest.main()
