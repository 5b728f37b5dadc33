"""The backend "ddprun" of torch.distributed between two hosts, with PyTorch's own store."""

import os
import pathlib
import sys

import harness
import hosts_test_case

WORKER = pathlib.Path(__file__).parents[1] / "python/backend_worker.py"


class Backend(hosts_test_case.HostsTest):
    """Two ranks on each of two hosts do cases of backend_worker.py."""

    def start_ranks(self, *cases, **env):
        return [
            self.start_on(self.hosts[rank // 2], WORKER, *cases, program=sys.executable,
                          env={"PYTHONPATH": os.environ["DDPRUN_TORCH_PACKAGE"],
                               "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0",
                               "MASTER_ADDR": "host0", "MASTER_PORT": "29500",
                               "RANK": str(rank), "WORLD_SIZE": "4", **env})
            for rank in range(4)
        ]

    def test_collectives_training_and_mistakes(self):
        # Together, because a start of four processes with torch takes longer than most cases.
        self.finish_all(self.start_ranks(
            "reductions", "floats", "copies", "nested", "again", "few_groups", "ddp", "fsdp",
            "mismatch", "missing", "missing_at_start"))

    def test_groups_of_two_launchers(self):
        # torchrun gives its ranks no flight recorder.
        env = {"PYTHONPATH": os.environ["DDPRUN_TORCH_PACKAGE"], "OMP_NUM_THREADS": "1",
               "GLOO_SOCKET_IFNAME": "eth0", "PYTHON_EXEC": sys.executable}
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        self.finish_all([
            self.start_on(self.hosts[0], *self.static(0, 2), WORKER, "few_groups", env=env),
            self.start_on(self.hosts[1], *self.static(1, 2), WORKER, "few_groups", env=env,
                          program=torchrun)])

    def test_a_killed_rank_is_named_on_both_hosts(self):
        ranks = self.start_ranks("killed_far")
        for rank in ranks:
            self.finish(rank)
        for rank in ranks[:3]:
            self.assertEqual(rank.returncode, 0, rank.err)

    def test_a_host_that_is_cut_off_is_named(self):
        ranks = self.start_ranks("cut_off", CUT_FOLDER=self.folder)
        harness.wait_until(lambda: all(os.path.exists(self.path(f"ready{rank}"))
                                       for rank in range(4)), "the barrier of all ranks")
        self.hosts[1].cut()
        self.script("cut", "")
        for rank in ranks:
            self.finish(rank)
            self.assertEqual(rank.returncode, 0, rank.err)

    def test_the_end_of_a_host_is_noticed(self):
        ranks = self.start_ranks("host_killed")
        for rank in ranks:
            self.finish(rank)
        for rank in ranks[:2]:
            self.assertEqual(rank.returncode, 0, rank.err)


if __name__ == "__main__":
    hosts_test_case.main()
