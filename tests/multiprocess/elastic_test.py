"""Nodes that come, go and fail in a c10d job: several agents on one machine."""

import os
import signal
import socket

import harness

# Says in which world it is, then does what the files in the folder tell: a node's worker fails
# once for each fail-NODE, and all end well when there is a file named finish.
WORKER = """#!/bin/sh
echo $$ > "$FOLDER/pid.$NODE.new" && mv "$FOLDER/pid.$NODE.new" "$FOLDER/pid.$NODE"
echo "$RANK $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_RESTART_COUNT" >> \
  "$FOLDER/worlds.$NODE"
while true; do
  test -e "$FOLDER/finish" && exit 0
  test -e "$FOLDER/finish.$NODE" && exit 0
  rm "$FOLDER/fail.$NODE" 2> /dev/null && exit 7
  sleep 0.02
done
"""


class ElasticJob(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.port = harness.unused_port()
        self.worker = self.script("worker.sh", WORKER)
        os.chmod(self.worker, 0o755)

    def node(self, name, *flags, nnodes="2", restarts=0, conf="", **env):
        return self.start(
            "--rdzv_backend=c10d",
            f"--rdzv_endpoint=127.0.0.1:{self.port}",
            f"--rdzv_conf=last_call_timeout=0.05,join_timeout={harness.DEADLINE_S}{conf}",
            f"--nnodes={nnodes}",
            f"--max_restarts={restarts}",
            *flags,
            "--no_python",
            self.worker,
            env={"NODE": name, **env},
        )

    def touch(self, name):
        open(self.path(name), "w").close()

    def worlds(self, name):
        """(rank, world size, master, restart count) of each of the node's rounds."""
        try:
            with open(self.path("worlds." + name)) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        return [tuple(line.split()) for line in lines if line.count(" ") == 3]

    def wait_for_round(self, number, *names):
        """Waits until each node is in so many rounds at least."""
        harness.wait_until(
            lambda: all(len(self.worlds(name)) >= number for name in names),
            f"round {number} of {names}: " + str({name: self.worlds(name) for name in names}),
        )

    def wait_for_world(self, size, restarts, *names):
        """Waits until each node's last world is one of that size and count, and checks them."""

        def last_worlds():
            return [self.worlds(name)[-1] for name in names if self.worlds(name)]

        def there():
            last = last_worlds()
            wanted = (str(size), str(restarts))
            return len(last) == len(names) and all(w[1::2] == wanted for w in last)

        harness.wait_until(there, f"a world of {size} after {restarts} restarts")
        last = last_worlds()
        self.assertEqual(sorted(int(world[0]) for world in last), list(range(size)))
        self.assertEqual({world[2] for world in last}, {last[0][2]}, "one master for all")
        return last

    def end_well(self, *nodes):
        self.touch("finish")
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 0, node.err)
        self.assert_nothing_left()

    def kill_agent(self, node):
        node.send_signal(signal.SIGKILL)
        self.finish(node)


class Restarts(ElasticJob):
    def test_are_of_all_nodes_and_counted_alike_wherever_a_worker_fails(self):
        nodes = [self.node(name, restarts=2) for name in "ab"]
        first = self.wait_for_world(2, 0, "a", "b")
        self.touch("fail.b")
        second = self.wait_for_world(2, 1, "a", "b")
        self.touch("fail.a")
        third = self.wait_for_world(2, 2, "a", "b")
        self.assertEqual(len({world[0][2] for world in (first, second, third)}), 3)
        for name in "ab":
            self.assertEqual(len({world[0] for world in self.worlds(name)}), 1, "stable ranks")
        self.end_well(*nodes)

    def test_are_no_more_than_asked_for_in_all(self):
        nodes = [self.node(name, restarts=1) for name in "ab"]
        self.wait_for_world(2, 0, "a", "b")
        self.touch("fail.a")
        self.wait_for_world(2, 1, "a", "b")
        self.touch("fail.b")
        for node in nodes:
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes], [7, 7])
        self.assert_nothing_left()


class Failures(ElasticJob):
    def test_for_good_end_every_node_at_once_with_its_code_and_name(self):
        for failing, other in ("ab", "ba"):
            with self.subTest(failing=failing):
                nodes = {name: self.node(name, f"--rdzv_id={failing}") for name in "ab"}
                self.wait_for_round(1, "a", "b")
                self.touch("fail." + failing)
                for node in nodes.values():
                    self.finish(node)
                    self.assertEqual(node.returncode, 7, node.err)
                self.assertIn("ANOTHER NODE FAILED", nodes[other].err)
                self.assertIn("exited with code 7", nodes[other].err)
                os.remove(self.path("worlds.a"))
                os.remove(self.path("worlds.b"))
        self.assert_nothing_left()

    def test_are_not_success_for_a_node_that_has_finished(self):
        nodes = {name: self.node(name) for name in "ab"}
        self.wait_for_round(1, "a", "b")
        self.touch("finish.a")
        harness.wait_until(
            lambda: not os.path.exists(f"/proc/{self.pid_in('pid.a')}"), "a's worker to end"
        )
        self.touch("fail.b")
        for node in nodes.values():
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes.values()], [7, 7])
        self.assert_nothing_left()


class LostNodes(ElasticJob):
    def test_are_replaced_at_the_cost_of_a_restart(self):
        host = self.node("a", restarts=1)
        self.wait_for_one_node_waiting(host)
        lost = self.node("b", restarts=1)
        self.wait_for_world(2, 0, "a", "b")
        workers = [self.pid_in("pid.b")]
        self.kill_agent(lost)
        harness.wait_until(lambda: not os.path.exists(f"/proc/{workers[0]}"), "b's worker to end")
        replacement = self.node("c", restarts=1)
        last = self.wait_for_world(2, 1, "a", "c")
        self.assertEqual(last[1][0], self.worlds("b")[0][0], "it takes the lost node's rank")
        self.end_well(host, replacement)

    def test_end_a_job_of_fixed_size_without_restarts(self):
        host = self.node("a")
        self.wait_for_one_node_waiting(host)
        lost = self.node("b")
        self.wait_for_world(2, 0, "a", "b")
        self.kill_agent(lost)
        self.finish(host)
        self.assertEqual(host.returncode, 1)
        self.assertIn("is gone", host.err)
        self.assert_nothing_left()

    def test_leave_the_others_to_go_on_in_an_elastic_job(self):
        host = self.node("a", "--node_rank=1", nnodes="1:2")
        self.wait_for_one_node_waiting(host)
        lost = self.node("b", "--node_rank=0", nnodes="1:2")
        self.wait_for_world(2, 0, "a", "b")
        self.kill_agent(lost)
        last = self.wait_for_world(1, 0, "a")
        self.assertEqual(last[0][0], "0")
        self.end_well(host)

    def test_are_replaced_by_a_spare_without_a_restart(self):
        host = self.node("a", "--spares=1")
        self.wait_for_one_node_waiting(host)
        lost = self.node("b", "--spares=1")
        self.wait_for_world(2, 0, "a", "b")
        spare = self.waiting_spare("c")
        self.kill_agent(lost)
        self.wait_for_round(2, "a")  # both worlds have two nodes and no restart
        last = self.wait_for_world(2, 0, "a", "c")
        self.assertEqual(last[1][0], self.worlds("b")[0][0], "it takes the lost node's rank")
        unused = self.waiting_spare("d")
        self.end_well(host, spare, unused)
        self.assertIn("the job has ended well without this spare", unused.err)
        self.assertEqual(self.worlds("d"), [])

    def test_end_the_job_when_they_hosted_the_rendezvous(self):
        host = self.node("a", nnodes="1:2")
        self.wait_for_one_node_waiting(host)
        other = self.node("b", nnodes="1:2")
        self.wait_for_world(2, 0, "a", "b")
        self.kill_agent(host)
        self.finish(other)
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"the rendezvous at 127.0.0.1:{self.port} is gone", other.err)
        self.assert_nothing_left()

    def waiting_spare(self, name):
        log = self.path("log." + name)
        spare = self.node(name, "--spares=1", "--log_file=" + log)
        harness.wait_until(
            lambda: os.path.exists(log) and 'says "progress"' in open(log).read(), "a spare to wait"
        )
        return spare

    def wait_for_one_node_waiting(self, node):
        """Until the node hosts the rendezvous: another one then cannot."""

        def hosts():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        harness.wait_until(hosts, "the rendezvous")
        self.assertIsNone(node.poll())


class StoppedNodes(ElasticJob):
    def test_are_not_missed_in_an_elastic_job(self):
        with HostedApart(self) as store:
            nodes = {name: self.node(name, nnodes="1:2") for name in "ab"}
            self.wait_for_world(2, 0, "a", "b")
            rank0 = next(name for name in "ab" if self.worlds(name)[-1][0] == "0")
            stopped = nodes.pop(rank0)
            stopped.terminate()
            self.finish(stopped)
            self.assertEqual(stopped.returncode, 128 + signal.SIGTERM)
            (name,) = nodes
            self.wait_for_world(1, 0, name)
            self.touch("finish")
            self.finish(nodes[name])
            self.assertEqual(nodes[name].returncode, 0, nodes[name].err)
            self.assertIsNone(store.poll())
        self.assert_nothing_left()

    def test_end_the_job_when_they_host_the_rendezvous(self):
        nodes = [self.node("a", nnodes="1:2")]
        self.wait_for_round(1, "a")
        nodes.append(self.node("b", nnodes="1:2"))
        self.wait_for_world(2, 0, "a", "b")
        nodes[0].terminate()
        for node in nodes:
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes], [143, 143])
        self.assertIn("was stopped by SIGTERM", nodes[1].err)
        self.assert_nothing_left()


class HostedApart:
    """A coordinator that belongs to no node."""

    def __init__(self, test):
        self.test = test

    def __enter__(self):
        self.store = self.test.start("store", "--host=127.0.0.1", f"--port={self.test.port}")

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.test.port)) == 0

        harness.wait_until(listens, "ddprun store to listen")
        return self.store

    def __exit__(self, *_):
        self.store.terminate()
        self.test.finish(self.store)


class MoreNodes(ElasticJob):
    def test_one_node_of_a_range_starts_after_the_last_call(self):
        node = self.node("a", nnodes="1:2")
        self.wait_for_world(1, 0, "a")
        self.end_well(node)

    def test_that_come_later_make_one_new_world(self):
        # torchrun sorts by address: one order makes two masters, the other one kills the job.
        for first, second in (("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")):
            with self.subTest(first=first), HostedApart(self):
                nodes = [self.node("a", f"--local_addr={first}", nnodes="1:2")]
                self.wait_for_world(1, 0, "a")
                nodes.append(self.node("b", f"--local_addr={second}", nnodes="1:2"))
                last = self.wait_for_world(2, 0, "a", "b")
                self.assertTrue(last[0][2].startswith(first), "who was there keeps rank 0")
                self.touch("finish")
                for node in nodes:
                    self.finish(node)
                    self.assertEqual(node.returncode, 0, node.err)
                for name in ("finish", "worlds.a", "worlds.b"):
                    os.remove(self.path(name))
                self.port = harness.unused_port()
        self.assert_nothing_left()

    def test_that_come_after_the_end_learn_how_the_job_ended(self):
        with HostedApart(self):
            node = self.node("a", nnodes="1:2")
            self.wait_for_world(1, 0, "a")
            self.touch("fail.a")
            self.finish(node)
            self.assertEqual(node.returncode, 7)
            late = self.finish(self.node("b", nnodes="1:2"))
            self.assertEqual(late.returncode, 3)
            self.assertIn("JOB HAS ENDED", late.err)
            self.assertIn("exited with code 7", late.err)
        self.assert_nothing_left()

    def test_of_a_job_that_slurm_requeues_do_not_meet_the_end_of_its_start_before(self):
        with HostedApart(self):
            for requeues in range(3):
                node = self.node("a", nnodes="1", SLURM_RESTART_COUNT=str(requeues))
                harness.wait_until(
                    lambda done=requeues, node=node: node.poll() is not None
                    or len(self.worlds("a")) > done, f"the worker of requeue {requeues}"
                )
                node.terminate()
                self.finish(node)
                self.assertEqual(len(self.worlds("a")), requeues + 1, node.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
