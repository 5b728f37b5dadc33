"""Nodes whose workers have ended well while those of another node still run."""

import os
import signal

import harness

# Each node's worker ends when there is a file with its name.
WORKER = (
    'touch "$FOLDER/up.$NODE"; while ! test -e "$FOLDER/end.$NODE"; do sleep 0.02; done; '
    'test ! -e "$FOLDER/fail.$NODE"'
)
STATIC, C10D = "static", "c10d"


class ExitBarrier(harness.LauncherTest):
    def start_nodes(self, backend, *flags):
        """Node 0, which hosts the store, and node 1, both with a worker that runs."""
        port = harness.unused_port()
        nodes = []
        for rank in (0, 1):
            nodes.append(
                self.start(
                    f"--rdzv_backend={backend}",
                    *(() if backend == STATIC else (f"--rdzv_conf=is_host={1 - rank}",)),
                    f"--rdzv_endpoint=127.0.0.1:{port}",
                    "--nnodes=2",
                    f"--node_rank={rank}",
                    *flags,
                    "sh",
                    "-c",
                    WORKER,
                    env={"NODE": str(rank)},
                )
            )
        for rank in (0, 1):
            self.wait_for_file(f"up.{rank}")
        return nodes

    def touch(self, name):
        open(self.path(name), "w").close()

    def wait_for_line(self, node, part):
        line = ""
        while part not in line:
            line = node.stderr.readline()
            self.assertTrue(line, "in vain waited for: " + part)
        return line

    def test_lets_a_node_go_that_the_others_do_not_need(self):
        for backend in (STATIC, C10D):
            with self.subTest(backend=backend):
                nodes = self.start_nodes(backend, "--exit_barrier_timeout=0.2")
                self.touch("end.1")
                self.finish(nodes[1])
                self.assertEqual(nodes[1].returncode, 0, nodes[1].err)
                self.assertEqual(nodes[1].err.count("warning"), 1, nodes[1].err)
                self.assertIn("0.2 s later (--exit_barrier_timeout); leaving", nodes[1].err)
                self.assertIsNone(nodes[0].poll())
                self.touch("end.0")
                self.finish(nodes[0])
                self.assertEqual(nodes[0].returncode, 0, nodes[0].err)
                self.assert_nothing_left()
                for rank in (0, 1):
                    os.remove(self.path(f"end.{rank}"))
                    os.remove(self.path(f"up.{rank}"))

    def test_keeps_the_node_that_hosts_the_store(self):
        for backend in (STATIC, C10D):
            with self.subTest(backend=backend):
                nodes = self.start_nodes(backend, "--exit_barrier_timeout=0")
                self.touch("end.0")
                line = self.wait_for_line(nodes[0], "--exit_barrier_timeout")
                self.assertIn("warning: ", line)
                self.assertIn("waiting on", line)
                self.assertEqual([node.poll() for node in nodes], [None, None])
                self.touch("end.1")
                for node in nodes:
                    self.finish(node)
                    self.assertEqual(node.returncode, 0, node.err)
                self.assertNotIn("warning", nodes[0].err)
                self.assert_nothing_left()
                for rank in (0, 1):
                    os.remove(self.path(f"end.{rank}"))
                    os.remove(self.path(f"up.{rank}"))

    def test_ends_on_a_signal_on_both_nodes(self):
        nodes = self.start_nodes(STATIC, "--exit_barrier_timeout=0")
        self.touch("end.0")
        self.wait_for_line(nodes[0], "--exit_barrier_timeout")
        nodes[0].send_signal(signal.SIGTERM)
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 128 + signal.SIGTERM, node.err)
        self.assertIn("got SIGTERM", nodes[0].err)
        self.assert_nothing_left()

    def test_still_ends_everyone_when_the_other_node_fails(self):
        nodes = self.start_nodes(STATIC, "--exit_barrier_timeout=0")
        self.touch("end.0")
        self.wait_for_line(nodes[0], "--exit_barrier_timeout")
        self.touch("fail.1")
        self.touch("end.1")
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 1, node.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
