"""`srun ddprun doctor --nodes` in a real cluster names the host or link that was made bad."""

import json
import os
import unittest

import slurm_test_case
from slurm_test_case import DDPRUN


class Doctor(slurm_test_case.SlurmTest):
    NODES = "4"

    def doctor(self, code, *flags):
        done = self.srun("-N4", DDPRUN, "doctor", "--nodes", "--json", *flags)
        self.assertEqual(done.code, code, done.out)
        lines = [line for line in done.out.splitlines() if not line.startswith("[ddprun")]
        lines = [line for line in lines if not line.startswith("srun:")]
        report = json.loads("\n".join(lines))
        self.assertEqual(len(report["nodes"]), 4)
        self.assertEqual([name for name in os.listdir(self.folder) if "doctor" in name], [])
        # How fast a busy machine's links are does not count here.
        report["checks"] = [check for check in report["checks"]
                            if check["name"] not in ("bandwidth", "latency", "free space")]
        return report

    def on(self, node, command):
        self.cluster("node", node, "bash", "-c", command)

    def test_finds_nothing_in_a_good_cluster(self):
        report = self.doctor(0)
        self.assertEqual([check for check in report["checks"] if check["verdict"] != "ok"], [])
        self.assertEqual(len(report["links"]), 12)
        for link in report["links"]:
            self.assertGreater(link["mbit_per_s"], 0, link)

    def test_names_the_link_that_is_cut(self):
        self.on("node2", "ip route add blackhole 198.18.77.13/32")
        self.addCleanup(self.on, "node2", "ip route del blackhole 198.18.77.13/32")
        first = self.doctor(1)["checks"][0]
        self.assertEqual(first["name"], "connection")
        self.assertEqual({first["facts"]["from"], first["facts"]["to"]}, {"node2", "node3"})

    def test_tests_the_network_that_is_named(self):
        for i in range(1, 5):
            routes = "; ".join(f"ip route add 10.1.0.{j} via 198.18.77.{10 + j}"
                               for j in range(1, 5) if j != i)
            self.on(f"node{i}", f"ip link add ib{i} type veth peer name peer; ip link set peer up; "
                    f"ip address add 10.1.0.{i}/32 dev ib{i}; ip link set ib{i} up; {routes}")
            self.addCleanup(self.on, f"node{i}", f"ip link del ib{i}; ip route flush root 10.1/16")
        self.on("node2", "ip route replace blackhole 10.1.0.3")
        self.doctor(0)
        report = self.doctor(1, "--network_interface=10.1.0.0/16")
        self.assertEqual([(node["addresses"][0], node["interface"]) for node in report["nodes"]],
                         [(f"10.1.0.{i}", f"ib{i}") for i in range(1, 5)])
        first = report["checks"][0]
        self.assertEqual(first["name"], "connection")
        self.assertEqual({first["facts"]["from"], first["facts"]["to"]}, {"node2", "node3"})
        wrong = self.srun("-N1", "-w", "node2", DDPRUN, "--network_interface=ib1", "true")
        self.assertEqual(wrong.code, 2, wrong.out)
        self.assertIn("on node2, expected one of", wrong.out)
        self.assertIn("ib2  10.1.0.2", wrong.out)

    def test_names_the_host_that_most_do_not_reach(self):
        for last in (12, 13):
            self.on("node4", f"ip route add blackhole 198.18.77.{last}/32")
            self.addCleanup(self.on, "node4", f"ip route del blackhole 198.18.77.{last}/32")
        checks = self.doctor(1)["checks"]
        self.assertEqual([check["facts"]["host"] for check in checks], ["node4"])

    def test_names_the_host_that_has_a_wrong_name(self):
        hosts = os.path.join(self.folder, "hosts")
        wrong = "s/.*node[24]$/198.18.77.99 &/; s/99 [0-9.]*/99/"
        self.on("node3", f"sed '{wrong}' /etc/hosts > {hosts} && mount --bind {hosts} /etc/hosts")
        self.addCleanup(self.on, "node3", "umount /etc/hosts")
        checks = self.doctor(1)["checks"]
        self.assertEqual([(check["name"], check["facts"]["host"]) for check in checks],
                         [("name", "node3")])
        self.assertIn("198.18.77.99", checks[0]["what"])

    def test_names_the_host_with_another_mtu(self):
        self.on("node2", "ip link set eth0 mtu 1400")
        self.addCleanup(self.on, "node2", "ip link set eth0 mtu 1500")
        checks = self.doctor(0)["checks"]
        self.assertEqual([(check["name"], check["facts"]["host"]) for check in checks],
                         [("MTU", "node2")])


if __name__ == "__main__":
    slurm_test_case.main()
