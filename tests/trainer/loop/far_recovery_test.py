"""Workers of several nodes that are killed are replaced while the others go on: the same weights
and metrics as of a run that nobody disturbed. Each node is an agent of its own on this machine.

    far_recovery_test.py [--kills N] [--seed N]

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

import os
import signal

import harness
import recovery_runs


class FarRuns(recovery_runs.Runs):
    nodes = 2
    backend = "static"

    def begin(self, config, ranks, *flags):
        """Starts the nodes, whose output goes to common files. Returns node 0."""
        name = config["run"]["name"]
        self.ranks = ranks
        self.jobs = []
        port = harness.unused_port()
        path = self.write_config(config, name + ".json")
        files = [open(self.path(name + suffix), "a") for suffix in (".out", ".err")]
        for node in range(self.nodes):
            place = ([f"--node_rank={node}", "--master_addr=127.0.0.1", f"--master_port={port}"]
                     if self.backend == "static" else
                     ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}", "--rdzv_id=7"])
            self.jobs.append(self.start(
                f"--nnodes={self.nodes}", *place, f"--nproc_per_node={ranks // self.nodes}",
                "--max_restarts=3", "--log_level=debug", *flags, path, stdout=files[0],
                stderr=files[1], env={"OMP_NUM_THREADS": "1"}))
        for file in files:
            file.close()
        return self.jobs[0]

    def end(self, job, name, code=0):
        for each in self.jobs:
            each.wait(timeout=10 * harness.DEADLINE_S)
            self.assertEqual(each.returncode, code, self.text(name + ".err"))
        self.assert_nothing_left()


class FarRecovery(FarRuns):
    def test_of_two_nodes_of_one_rank(self):
        self.disturb(2)

    def test_of_two_nodes_of_two_ranks_with_checkpoints(self):
        self.disturb(4, checkpoint={"save_steps": 1},
                     data={"validation_fraction": 0.2}, evaluation={"eval_steps": 10})

    def test_of_three_nodes(self):
        self.nodes = 3
        self.disturb(3)

    def test_of_an_elastic_job(self):
        self.backend = "c10d"
        self.disturb(2)

    def test_on_both_nodes_at_once(self):
        self.whole(4, 200)
        job = self.begin(recovery_runs.config_of("hit", 200), 4)
        for kill in range(3):
            self.wait_for_step(job, "hit", 20 + 50 * kill)
            workers = self.workers("hit")
            for rank in (0, 2):
                os.kill(workers[rank], signal.SIGKILL)
            harness.wait_until(
                lambda before=workers: all(self.workers("hit")[rank] != before[rank]
                                           for rank in (0, 2)),
                lambda: "replacements: " + self.text("hit.err")[-3000:])
        self.end(job, "hit")
        self.assertNotIn("; restart", self.text("hit.err"))
        self.assert_same("hit")


if __name__ == "__main__":
    recovery_runs.main()
