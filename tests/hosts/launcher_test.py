"""ddprun on two hosts: addresses, and a network that fails in the middle."""

import re
import signal

import harness
import hosts_test_case

SHOW = 'echo "$RANK of $WORLD_SIZE on $(hostname), master $MASTER_ADDR:$MASTER_PORT"'
# Asks the job's store over the network: its port must be reached from every host.
ASK_STORE = """
import os, socket
with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))) as store:
    print(os.environ["RANK"], store.getpeername()[0])
"""
SLEEP = 'echo "$RANK is there"; exec sleep 1000'


class TwoHosts(hosts_test_case.HostsTest):
    def test_share_out_ranks_by_node_rank(self):
        nodes = self.finish_all(
            self.start_everywhere(lambda i: self.static(i, nproc=2), "sh", "-c", SHOW)
        )
        for i, node in enumerate(nodes):
            self.assertEqual(
                sorted(node.out.splitlines()),
                [f"{rank} of 4 on host{i}, master host0:29500" for rank in (2 * i, 2 * i + 1)],
            )
        self.assert_nothing_left()

    def test_of_a_c10d_job_have_one_master_that_is_an_address(self):
        nodes = self.finish_all(self.start_everywhere(self.c10d(nproc=2), "sh", "-c", SHOW))
        lines = sorted(line for node in nodes for line in node.out.splitlines())
        self.assertEqual([line.split()[0] for line in lines], ["0", "1", "2", "3"])
        masters = {line.split()[-1].split(":")[0] for line in lines}
        first = re.search("on host(.),", lines[0])[1]
        self.assertEqual(masters, {self.hosts[int(first)].address})
        self.assert_nothing_left()

    def test_reach_the_store_from_everywhere(self):
        for flags in (self.static, lambda i: self.c10d()):
            nodes = self.finish_all(
                self.start_everywhere(flags, self.script("ask.py", ASK_STORE))
            )
            answers = sorted(node.out for node in nodes)
            self.assertEqual([line.split()[0] for line in answers], ["0", "1"])
            self.assertEqual(len({line.split()[1] for line in answers}), 1)
            self.assertRegex(answers[0], r"198\.18\.0\.[12]$")

    def test_meet_over_the_interface_that_is_named(self):
        # A second network: each host has an address of it behind an interface of its own.
        for i, host in enumerate(self.hosts):
            host.run("ip", "link", "add", f"ib{i}", "type", "veth", "peer", "name", "peer")
            host.run("ip", "address", "add", f"10.1.0.{i + 1}/32", "dev", f"ib{i}")
            host.run("ip", "link", "set", f"ib{i}", "up")
            host.run("ip", "link", "set", "peer", "up")
            other = 1 - i
            host.run("ip", "route", "add", f"10.1.0.{other + 1}", "via", self.hosts[other].address)
        worker = self.script("ask.py", ASK_STORE + 'print(os.environ["GLOO_SOCKET_IFNAME"], '
                             'os.environ["NCCL_SOCKET_IFNAME"])\n')
        for names in (("ib0", "ib1"), ("10.1.0.0/24",) * 2):
            nodes = self.finish_all(self.start_everywhere(
                lambda i, names=names: [*self.c10d(), f"--network_interface={names[i]}"], worker))
            for i, node in enumerate(nodes):
                self.assertRegex(node.out, rf"^[01] 10\.1\.0\.[12]\nib{i} =ib{i}\n$")
        [wrong] = self.finish_all([self.start_on(
            self.hosts[0], *self.c10d(), "--network_interface=ib1", worker)], code=2)
        self.assertIn("ib0  10.1.0.1", wrong.err)
        self.assertIn("eth0  198.18.0.1", wrong.err)

    def test_need_no_ipv4(self):
        names = "".join(f"fd00::{i + 1} host{i}\n" for i in range(len(self.hosts)))
        for i, host in enumerate(self.hosts):
            host.run("ip", "address", "flush", "dev", "eth0")
            host.run("ip", "address", "del", "127.0.0.1/8", "dev", "lo")
            host.run("ip", "address", "add", f"fd00::{i + 1}/64", "dev", "eth0", "nodad")
            host.run("sh", "-c", f"printf '%s' '::1 localhost\n{names}' > /etc/hosts")
        for flags in (self.static, lambda i: self.c10d()):
            nodes = self.finish_all(self.start_everywhere(flags, self.script("ask.py", ASK_STORE)))
            for node in nodes:
                self.assertRegex(node.out, r"^[01] fd00::[12]\n$")
        self.assert_nothing_left()

    def test_that_are_both_node_0_do_not_wait_for_each_other(self):
        nodes = self.start_everywhere(lambda _: self.static(0), "sh", "-c", SLEEP)
        self.finish(nodes[1])
        self.assertEqual(nodes[1].returncode, 3, nodes[1].err)
        self.assertIn("Node rank 0 has already joined, from host0", nodes[1].err)
        nodes[0].send_signal(signal.SIGINT)
        self.finish(nodes[0])
        self.assertIn("whoever reaches 198.18.0.1:29500 can join its jobs", nodes[0].err)
        self.assert_nothing_left()

    def wait_until_they_run(self, nodes):
        for node in nodes:
            self.assertIn("is there", node.stdout.readline())

    def test_end_when_the_cable_is_taken_out(self):
        # Nothing but silence tells them: 15 s of it, with the static back end.
        nodes = self.start_everywhere(self.static, "sh", "-c", SLEEP)
        self.wait_until_they_run(nodes)
        self.hosts[1].cut()
        self.finish_all(nodes, code=1)
        self.assertIn("ANOTHER NODE FAILED", nodes[0].err)
        self.assertIn("node 1 is gone", nodes[0].err)
        self.assertIn("LOST THE OTHER NODES", nodes[1].err)
        self.assertRegex(
            nodes[1].err, r"The connection to the store at host0:29500 ended: [\w ]+\.\n"
        )
        self.assert_nothing_left()

    def test_of_a_c10d_job_take_as_much_silence_as_they_were_told(self):
        conf = ",keep_alive_interval=0.2,keep_alive_max_attempt=5"
        for lost in (0, 1):
            with self.subTest(lost=lost):
                nodes = self.start_everywhere(self.c10d(conf=conf), "sh", "-c", SLEEP)
                self.wait_until_they_run(nodes)
                self.hosts[lost].cut()
                self.finish_all(nodes, code=1)
                self.assertIn("host1", nodes[0].err)
                self.assertIn("is gone: nothing was heard from it for 1 s", nodes[0].err)
                self.assertIn("the rendezvous at host0:29500 is gone", nodes[1].err)
                self.assert_nothing_left()
                self.hosts[lost].mend()

    def test_end_when_a_host_loses_power(self):
        conf = ",keep_alive_interval=0.2,keep_alive_max_attempt=5"
        nodes = self.start_everywhere(self.c10d(conf=conf), "sh", "-c", SLEEP)
        self.wait_until_they_run(nodes)
        self.hosts[1].power_off()
        for node in nodes:
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes], [1, -9])
        self.assertRegex(nodes[0].err, r"node . \(host1, pid \d+\) is gone: nothing was heard")
        harness.wait_until(
            lambda: not harness.processes_with(self.mark), "all processes of the job to end"
        )


if __name__ == "__main__":
    hosts_test_case.main()
