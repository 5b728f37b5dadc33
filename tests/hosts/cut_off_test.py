"""The hosts of a job's rendezvous are cut off one after the other, and come back."""

import hosts_test_case
import harness
import leader_test


class CutOff(leader_test.Worlds, hosts_test_case.HostsTest):
    HOSTS = 4  # one of them is not in the list

    def test_a_host_that_is_cut_off_has_no_worker_when_the_others_begin_anew(self):
        self.script("worker.py", leader_test.WORKER)
        nodes = [
            self.start_on(host, "--nnodes=1:4", "--rdzv_endpoint=host0,host1,host2", *self.FLAGS,
                          *self.TARGET, env={"NODE": str(i), "STUBBORN": "1"})
            for i, host in enumerate(self.hosts)
        ]
        harness.wait_until(lambda: self.run_together("0123"), "one world of four nodes")
        for cut in (0, 1, 2, 3):  # one of them leads
            self.hosts[cut].cut()
            others = "0123".replace(str(cut), "")
            harness.wait_until(lambda others=others: self.run_together(others), "the other nodes")
            self.hosts[cut].mend()
            harness.wait_until(lambda: self.run_together("0123"), "one world of four nodes")
        self.script("stop", "")
        self.finish_all(nodes)
        self.assert_one_world_at_a_time()
        self.assert_nothing_left()


if __name__ == "__main__":
    hosts_test_case.main()
