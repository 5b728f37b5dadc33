"""A JSON job on several hosts: the same training as on one, bit for bit, and its troubles."""

import os

import harness
import hosts_test_case
import training


class TrainingOnHosts(hosts_test_case.HostsTest, training.TrainingTest):
    HOSTS = 4

    def config(self, name, **sections):
        # Not the engine that each host finds to be faster: it might be another one on each.
        config = training.gpt_config(run={"name": name, "max_steps": 4}, **sections)
        config["training"]["matmul_engine"] = "default"
        return config

    def train_on(self, name, ranks_of_hosts):
        """Trains with so many ranks on each host; (the losses, the weights)."""
        path = self.write_config(self.config(name), name + ".json")
        flags = [
            [f"--nnodes={len(ranks_of_hosts)}", f"--node_rank={i}", f"--nproc_per_node={ranks}",
             "--master_addr=host0", "--master_port=29500"]
            for i, ranks in enumerate(ranks_of_hosts)
        ]
        nodes = [
            self.start_on(self.hosts[i], *flags[i], path, env={"OMP_NUM_THREADS": "1"})
            for i in range(len(ranks_of_hosts))
        ]
        self.finish_all(nodes)
        self.assertIn("step", nodes[0].out)
        for node in nodes[1:]:
            self.assertEqual(node.out, "", "only rank 0 reports")
        with open(self.path(f"runs/{name}/model/model.safetensors"), "rb") as file:
            weights = file.read()
        return self.losses(name), weights

    def test_is_the_same_for_every_placement_of_the_ranks(self):
        for placements in (((2,), (1, 1)), ((4,), (2, 2), (1, 3), (3, 1), (1, 1, 1, 1))):
            one_host = None
            for placement in placements:
                with self.subTest(placement=placement):
                    name = "p" + "".join(map(str, placement))
                    result = self.train_on(name, placement)
                    self.assertEqual(len(result[0]), 4)
                    one_host = one_host or result
                    self.assertEqual(result[0], one_host[0])
                    self.assertTrue(result[1] == one_host[1], "the weights differ")
        self.assertEqual(sorted(os.listdir(self.path("runs"))),
                         ["p11", "p1111", "p13", "p2", "p22", "p31", "p4"])
        self.assert_nothing_left()

    def test_needs_its_data_on_every_host_and_names_the_one_that_lacks_it(self):
        text = os.path.join(self.local, "text.txt")
        self.hosts[0].run("sh", "-c", f"seq 10000 > {text}")
        config = self.config("absent", data={"train_files": [text]})
        path = self.write_config(config)
        nodes = [
            self.start_on(self.hosts[i], "--nnodes=2", f"--node_rank={i}", "--master_addr=host0",
                          "--master_port=29500", path)
            for i in (0, 1)
        ]
        self.finish_all(nodes, code=2)
        self.assertIn(text, nodes[1].err)
        self.assertIn("host1", nodes[0].err)
        self.assertFalse(os.path.exists(self.path("runs")))
        self.assert_nothing_left()

    def test_names_the_node_and_port_that_a_firewall_hides(self):
        # Without an answer, as most firewalls do it: only packets of the endpoint's port come in.
        host = self.hosts[1]
        host.run("ip", "rule", "add", "pref", "200", "lookup", "local")
        for i, kind in enumerate((["dport", "29500", "lookup", "local"],
                                  ["sport", "29500", "lookup", "local"], ["blackhole"])):
            host.run("ip", "rule", "add", "pref", str(100 + i), "iif", "eth0", "ipproto", "tcp",
                     *kind)
        host.run("ip", "rule", "del", "pref", "0")
        config = self.config("hidden")
        config["comm"] = {"init_timeout_seconds": 3}
        path = self.write_config(config)
        nodes = [
            self.start_on(self.hosts[i], "--nnodes=2", f"--node_rank={i}", "--master_addr=host0",
                          "--master_port=29500", path)
            for i in (0, 1)
        ]
        self.finish_all(nodes, code=1)
        # Answers are hidden too, so each node tries the other in vain: either one may say it first.
        for node in nodes:
            self.assertIn("NODE NOT REACHED", node.err)
            self.assertRegex(node.err, r"connect to node (1 at 198\.18\.0\.2|0 at 198\.18\.0\.1) "
                                       r"port \d+: no answer within 3 s")
        self.assert_nothing_left()

    def test_ends_when_a_host_loses_power_in_the_middle(self):
        config = self.config("lost", report={"logging_steps": 1})
        config["run"]["max_steps"] = 10**9
        path = self.write_config(config)
        flags = ["--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=host0:29500",
                 "--rdzv_conf=keep_alive_interval=0.2,keep_alive_max_attempt=10"]
        nodes = [self.start_on(self.hosts[i], *flags, f"--node_rank={i}", path) for i in (0, 1)]
        line = ""
        while not line.startswith("step"):
            line = nodes[0].stdout.readline()
            self.assertTrue(line, "it ended before its first step")
        self.hosts[1].power_off()
        for node in nodes:
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes], [1, -9], nodes[0].err)
        self.assertIn("host1", nodes[0].err)
        harness.wait_until(
            lambda: not harness.processes_with(self.mark), "all processes of the job to end"
        )


if __name__ == "__main__":
    hosts_test_case.main()
