"""Several agents on one machine, as several nodes."""

import os
import resource
import signal
import socket

import harness


class TestOfNodes(harness.LauncherTest):
    def test_leaves_no_file_if_it_is_interrupted_while_it_waits_for_nodes(self):
        port = harness.unused_port()
        test = self.start("doctor", "--nodes", "--nnodes=2", "--node_rank=0",
                          "--master_addr=127.0.0.1", f"--master_port={port}")

        def has_come():
            done = self.run_ddprun("store", "list", f"--endpoint=127.0.0.1:{port}")
            return "doctor/node/0" in done.out
        harness.wait_until(has_come, "the first node")
        test.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(test).returncode, -signal.SIGINT, test.err)
        self.assertEqual(os.listdir(self.folder), ["tmp"])


class TwoNodes(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.port = harness.unused_port()

    def start_nodes(self, *target, nproc=(1, 1), **options):
        return [
            self.start(
                "--nnodes=2",
                f"--node_rank={node}",
                f"--nproc_per_node={nproc[node]}",
                "--master_addr=127.0.0.1",
                f"--master_port={self.port}",
                *target,
                **options,
            )
            for node in (0, 1)
        ]

    def test_get_ranks_in_node_order(self):
        show = 'echo "$GROUP_RANK $LOCAL_RANK $RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT"'
        nodes = self.start_nodes("sh", "-c", show, nproc=(2, 3))
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 0, node.err)
        tail = f"5 127.0.0.1 {self.port}"
        self.assertEqual(sorted(nodes[0].out.splitlines()), [f"0 0 0 {tail}", f"0 1 1 {tail}"])
        self.assertEqual(
            sorted(nodes[1].out.splitlines()),
            [f"1 0 2 {tail}", f"1 1 3 {tail}", f"1 2 4 {tail}"],
        )
        self.assert_nothing_left()

    def test_end_with_the_code_and_name_of_the_first_failing_worker(self):
        for failing in (0, 1):
            with self.subTest(failing_node=failing):
                command = f'test "$GROUP_RANK" = {failing} && exit 42; exec sleep 1000'
                nodes = self.start_nodes("sh", "-c", command)
                for node in nodes:
                    self.finish(node)
                self.assertEqual([node.returncode for node in nodes], [42, 42])
                self.assertIn(f"Rank {failing} exited with code 42", nodes[failing].err)
                other = nodes[1 - failing].err
                self.assertIn("ANOTHER NODE FAILED", other)
                self.assertIn(f"Rank {failing} on ", other)
                self.assertIn("  exitcode  : 42 (pid: ", other)
                self.assertIn("exited with code 42", other)
                self.assert_nothing_left()
                self.port = harness.unused_port()

    def test_end_at_once_when_the_hard_limit_of_files_has_no_room_for_them(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

        flags = ["--nnodes=24", "--master_addr=127.0.0.1", f"--master_port={self.port}"]
        first = self.start(*flags, "--node_rank=0", "true", preexec_fn=limit)
        others = [self.start(*flags, f"--node_rank={rank}", "true") for rank in range(1, 24)]
        self.finish(first)
        self.assertEqual(first.returncode, 1, first.err)
        self.assertIn("NO ROOM FOR MORE CONNECTIONS", first.err)
        self.assertIn("may open 40 files (ulimit -n), and 40 is the hard limit", first.err)
        for node in others:
            node.terminate()
            self.finish(node)
        self.assert_nothing_left()

    def test_workers_have_the_limit_of_files_that_ddprun_was_started_with(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = self.run_ddprun(
            "--standalone", "sh", "-c", "ulimit -Sn; ulimit -Hn",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)))
        self.assertEqual(done.out.split(), ["64", str(hard)], done.err)

    def test_end_when_one_agent_is_killed(self):
        for killed in (0, 1):
            with self.subTest(killed_node=killed):
                command = 'touch "$FOLDER/ready.$RANK"; exec sleep 1000'
                nodes = self.start_nodes("sh", "-c", command)
                self.wait_for_file("ready.0")
                self.wait_for_file("ready.1")
                nodes[killed].kill()
                for node in nodes:
                    self.finish(node)
                self.assertEqual(nodes[1 - killed].returncode, 1, nodes[1 - killed].err)
                self.assertRegex(nodes[1 - killed].err, "ANOTHER NODE FAILED|LOST THE OTHER NODES")
                self.assert_nothing_left()
                self.port = harness.unused_port()
                os.remove(self.path("ready.0"))
                os.remove(self.path("ready.1"))

    def test_end_when_one_agent_is_told_to_stop(self):
        command = 'touch "$FOLDER/ready.$RANK"; exec sleep 1000'
        nodes = self.start_nodes("sh", "-c", command)
        self.wait_for_file("ready.0")
        self.wait_for_file("ready.1")
        nodes[1].send_signal(signal.SIGTERM)
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 128 + signal.SIGTERM, node.err)
        self.assertIn("was stopped by SIGTERM", nodes[0].err)
        self.assert_nothing_left()

    def test_wait_for_the_slower_one(self):
        os.mkfifo(self.path("fifo"))
        command = 'test "$RANK" = 1 && read line < "$FOLDER/fifo"; touch "$FOLDER/done.$RANK"'
        nodes = self.start_nodes("sh", "-c", command)
        self.wait_for_file("done.0")
        self.assertIsNone(nodes[0].poll())
        with open(self.path("fifo"), "w") as fifo:
            fifo.write("go\n")
        for node in nodes:
            self.finish(node)
            self.assertEqual((node.returncode, node.out), (0, ""), node.err)


class OneNode(harness.LauncherTest):
    def test_refuses_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            job = self.run_ddprun(f"--master_port={port}", "true")
        self.assertEqual(job.returncode, 3)
        self.assertIn(str(port), job.err)
        self.assertIn("PORT", job.err)
        self.assert_nothing_left()

    def test_stops_while_it_waits_for_the_others(self):
        port = harness.unused_port()
        job = self.start("--nnodes=2", "--node_rank=0", f"--master_port={port}", "true")
        # Joining is announced once the wait has lasted.
        first = job.stderr.readline()
        self.assertIn("1 of 2 nodes", first)
        job.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(job).returncode, 128 + signal.SIGINT)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
