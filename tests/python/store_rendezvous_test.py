"""Two torchrun agents of one machine whose c10d rendezvous `ddprun store` hosts.

Usage: store_rendezvous_test.py DDPRUN
"""

import json
import signal
import subprocess
import sys
import tempfile
import unittest

DDPRUN = None  # from the command line
DEADLINE_S = 240

WORKER = """
import json, os
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
line = json.dumps({name: os.environ[name] for name in ["RANK", "WORLD_SIZE", "GROUP_RANK"]})
os.write(1, (line + "\\n").encode())  # one write: torchrun's workers share the pipe
dist.destroy_process_group()
"""


class StoreRendezvous(unittest.TestCase):
    def test_hosts_two_torchrun_agents(self):
        store = subprocess.Popen([DDPRUN, "store", "--host=127.0.0.1", "--port=0"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(store.stdout.close)
        self.addCleanup(store.wait)
        self.addCleanup(store.kill)
        endpoint = store.stdout.readline().split()[-1]
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(WORKER)
            script.flush()
            agents = [subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2",
                 "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--rdzv-id=job",
                 "--rdzv-conf=is_host=0", "--local-addr=127.0.0.1", script.name],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
            try:
                ends = [agent.communicate(timeout=DEADLINE_S) for agent in agents]
            finally:
                for agent in agents:
                    agent.kill()
        for agent, (_, errors) in zip(agents, ends):
            self.assertEqual(agent.returncode, 0, errors)
        workers = [json.loads(line) for output, _ in ends for line in output.splitlines()]
        self.assertEqual(sorted(worker["RANK"] for worker in workers), ["0", "1", "2", "3"])
        self.assertEqual({worker["WORLD_SIZE"] for worker in workers}, {"4"})
        self.assertIsNone(store.poll())
        store.send_signal(signal.SIGTERM)
        self.assertEqual(store.wait(timeout=DEADLINE_S), 0)


if __name__ == "__main__":
    DDPRUN = sys.argv.pop(1)
    unittest.main()
