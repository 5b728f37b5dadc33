"""A job whose rendezvous has three hosts outlives any of them: real agents, killed at any time.

Usage: leader_test.py [TRIALS [FIRST_SEED]]
"""

import glob
import os
import random
import sys
import time
import unittest

import harness

TRIALS = 3
FIRST_SEED = 1
# A worker writes when it began and when it was seen last, until it is ended or the test says so.
# The worker of the node with rank STUBBORN does not end at SIGTERM.
WORKER = """
import os, signal, time
env = os.environ
if env["GROUP_RANK"] == env["STUBBORN"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
name = f'{env["FOLDER"]}/life.{env["MASTER_PORT"]}.{env["NODE"]}.{env["WORLD_SIZE"]}.{os.getpid()}'
began = time.monotonic()
file = os.open(name, os.O_CREAT | os.O_WRONLY)
while not os.path.exists(env["FOLDER"] + "/stop"):
    os.pwrite(file, f"{began:20.6f} {time.monotonic():20.6f}".encode(), 0)
    time.sleep(0.005)
"""


class Life:
    def __init__(self, path):
        self.world, self.node, self.size, _ = os.path.basename(path).split(".")[1:]
        with open(path) as file:
            self.began, self.seen = (float(word) for word in file.read().split() or (0, 0))


class Worlds:
    """Which workers run at the same time. For a LauncherTest."""

    FLAGS = ("--rdzv_backend=c10d", "--rdzv_id=job",
             "--rdzv_conf=keep_alive_interval=0.5,keep_alive_max_attempt=4,stop_timeout=1,"
             "last_call_timeout=0.3,join_timeout=50", "--shutdown_timeout=4")
    TARGET = ("--no_python", sys.executable, "-SE", "worker.py")

    def lives(self):
        return [Life(path) for path in glob.glob(self.path("life.*"))]

    def running(self):
        lately = time.monotonic() - 0.5
        return [life for life in self.lives() if life.seen > lately]

    def run_together(self, nodes):
        """Whether workers of exactly these nodes run as one world."""
        running = self.running()
        return (sorted(life.node for life in running) == sorted(nodes)
                and len({life.world for life in running}) == 1
                and {life.size for life in running} == {str(len(nodes))})

    def assert_one_world_at_a_time(self):
        worlds = []  # [world, began, seen]; the kernel may give two of them the same port
        for life in sorted(self.lives(), key=lambda life: life.began):
            known = [w for w in worlds if w[0] == life.world and life.began <= w[2]]
            if known:
                known[0][2] = max(known[0][2], life.seen)
            else:
                worlds.append([life.world, life.began, life.seen])
        spans = sorted((began, seen) for _, began, seen in worlds)
        for (_, seen), (began, _) in zip(spans, spans[1:]):
            self.assertLess(seen, began, f"two worlds at the same time: {spans}")


class LeaderTest(Worlds, harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.ports = []
        while len(self.ports) < 3:
            port = harness.unused_port()
            if port not in self.ports:
                self.ports.append(port)
        self.script("worker.py", WORKER)

    def start_node(self, name, nnodes, stubborn=""):
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return self.start(f"--nnodes={nnodes}", f"--rdzv_endpoint={hosts}", *self.FLAGS,
                          *self.TARGET, env={"NODE": name, "STUBBORN": str(stubborn)})

    def finish_all(self, nodes):
        self.script("stop", "")
        for node in nodes.values():
            self.finish(node)
        for name, node in nodes.items():
            self.assertEqual(node.returncode, 0, f"{name}: {node.err}")
        self.assert_one_world_at_a_time()

    def trial(self, seed):
        chance = random.Random(seed)
        nodes = {}
        for name in "abc":
            nodes[name] = self.start_node(name, "2:3", seed % 4)
            time.sleep(chance.choice((0, 0, 0.05, 0.3)))
        if chance.random() < 0.5:
            harness.wait_until(lambda: self.run_together("abc"), "one world of three nodes")
        time.sleep(chance.uniform(0, 1))
        killed = chance.choice("aabc")  # the first often leads
        nodes[killed].kill()
        self.finish(nodes.pop(killed))
        harness.wait_until(lambda: self.run_together(nodes), lambda: f"a world of {list(nodes)}")
        self.finish_all(nodes)

    def test_outlives_the_loss_of_any_node_at_any_time(self):
        for seed in range(FIRST_SEED, FIRST_SEED + TRIALS):
            with self.subTest(seed=seed):
                self.setUp()
                self.trial(seed)
                self.assert_nothing_left()

    def test_two_nodes_need_a_store_as_a_witness(self):
        store = self.start("store", "--host=127.0.0.1", f"--port={self.ports[2]}")
        nodes = {name: self.start_node(name, "1:2") for name in "ab"}
        harness.wait_until(lambda: self.run_together("ab"), "one world of two nodes")
        nodes["a"].kill()
        self.finish(nodes.pop("a"))
        harness.wait_until(lambda: self.run_together("b"), "the other node alone")
        self.finish_all(nodes)
        store.terminate()
        self.finish(store)
        self.assert_nothing_left()

    def test_a_minority_runs_nothing(self):
        nodes = {name: self.start_node(name, "1:3") for name in "abc"}
        harness.wait_until(lambda: self.run_together("abc"), "one world of three nodes")
        for name in "ab":
            nodes[name].kill()
            self.finish(nodes.pop(name))
        harness.wait_until(lambda: not self.running(), "no worker")
        time.sleep(4)
        self.assertFalse(self.running())
        nodes["c"].terminate()
        self.finish(nodes["c"])
        self.assert_one_world_at_a_time()
        self.assert_nothing_left()


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.argv[1:] = []
    TRIALS, FIRST_SEED = (numbers + [TRIALS, FIRST_SEED][len(numbers):])[:2]
    unittest.main()
