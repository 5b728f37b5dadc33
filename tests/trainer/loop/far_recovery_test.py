"""Workers of several nodes that are killed are replaced while the others go on: the same weights
and metrics as of a run that nobody disturbed. Each node is an agent of its own on this machine.

    far_recovery_test.py [--kills N] [--seed N]

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

import os
import random
import signal
import time

import harness
import recovery_runs


class FarRuns(recovery_runs.Runs):
    nodes = 2
    backend = "static"

    def begin(self, config, ranks, *flags):
        """Starts the nodes, whose output goes to common files. Returns node 0."""
        self.ranks = ranks
        self.run_name = config["run"]["name"]
        self.words = [f"--nnodes={self.nodes}", f"--nproc_per_node={ranks // self.nodes}",
                      "--max_restarts=3", "--log_level=debug", *flags,
                      self.write_config(config, self.run_name + ".json")]
        self.port = harness.unused_port()
        self.jobs = []
        for node in range(self.nodes):
            self.start_node(node)
        return self.jobs[0]

    def start_node(self, node):
        place = ([f"--node_rank={node}", "--master_addr=127.0.0.1", f"--master_port={self.port}"]
                 if self.backend == "static" else
                 ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{self.port}", "--rdzv_id=7"])
        with (open(self.path(self.run_name + ".out"), "a") as out,
              open(self.path(self.run_name + ".err"), "a") as err):
            self.jobs.append(self.start(*place, *self.words, stdout=out, stderr=err,
                                        env={"OMP_NUM_THREADS": "1"}))

    def end(self, job, name, code=0, codes=None):
        for each in self.jobs:
            each.wait(timeout=10 * harness.DEADLINE_S)
        expected = codes or [code] * len(self.jobs)
        self.assertEqual(sorted(each.returncode for each in self.jobs), sorted(expected),
                         self.text(name + ".err"))
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


class LostMachines(FarRuns):
    """The agent of a node is killed, and its workers with it. Another node is a spare."""

    backend = "c10d"

    def start_node(self, node):
        super().start_node(node)
        if node > 0:
            return
        # The first node hosts the coordinator, and has rank 0 because it comes first.
        harness.wait_until(
            lambda: 'the coordinator says "progress"' in self.text(self.run_name + ".err"),
            "the first node waits")

    def agent_of(self, rank):
        """The agent whose worker has this rank."""
        agents = {job.pid: job for job in self.jobs}
        pid = self.workers("hit")[rank]
        while pid not in agents:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        return agents[pid]

    def add_spare(self, job):
        """Starts a node, and waits until the job has it as a spare."""
        def told():
            return self.text("hit.err").count('the coordinator says "progress"')

        before = told()
        self.start_node(len(self.jobs))
        harness.wait_until(lambda: told() > before or job.poll() is not None,
                           lambda: "a spare: " + self.text("hit.err")[-3000:])
        self.rest(5)  # so long the spare may load what its workers need

    def rest(self, seconds):
        """The workers do nothing for a while, so that the run does not end meanwhile."""
        workers = self.workers("hit").values()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in workers:
            os.kill(pid, signal.SIGCONT)

    def lose_machine(self, job, victim):
        """Kills the agent of the rank, and waits for a step with new workers."""
        before = self.workers("hit")
        agent = self.agent_of(victim)
        lost = [rank for rank in before if self.agent_of(rank) is agent]
        agent.kill()
        agent.wait()
        harness.wait_until(
            lambda: job.poll() is not None or
            all(self.workers("hit")[rank] != before[rank] for rank in lost),
            lambda: f"new ranks {lost}: " + self.text("hit.err")[-3000:])
        self.wait_for_step(job, "hit", self.steps_done("hit") + 3)
        return {rank: pid for rank, pid in before.items() if rank not in lost}

    def end_with_lost(self, job, lost):
        self.end(job, "hit", codes=[0] * (len(self.jobs) - lost) + [-signal.SIGKILL] * lost)

    def replace_machines(self, ranks, **sections):
        # After each loss within a minute of the one before, new nodes wait twice as long.
        kills = 2 if recovery_runs.KILLS < 100 else 8
        steps = 400 + 100 * kills
        self.whole(ranks, steps, **sections)
        draw = random.Random(recovery_runs.SEED)
        job = self.begin(recovery_runs.config_of("hit", steps, **sections), ranks, "--spares=1")
        for kill in range(kills):
            self.wait_for_step(job, "hit", self.steps_done("hit") + 3)
            if kill >= 2:
                self.rest(2 ** (kill - 2))
            self.add_spare(job)
            # Node 0 has the store of the workers.
            others = self.lose_machine(job, draw.randrange(ranks // self.nodes, ranks))
            now = self.workers("hit")
            for rank, pid in others.items():
                self.assertEqual(now[rank], pid, self.text("hit.err")[-3000:])
        self.end_with_lost(job, kills)
        self.assertGreaterEqual(self.recovered("hit"), kills)
        self.assertNotIn("; restart", self.text("hit.err"))
        self.assert_same("hit")

    def test_of_two_nodes_of_two_ranks_with_checkpoints(self):
        self.replace_machines(4, checkpoint={"save_steps": 1},
                              data={"validation_fraction": 0.2}, evaluation={"eval_steps": 10})

    def test_of_three_nodes(self):
        self.nodes = 3
        self.replace_machines(3)

    def test_that_kept_state(self):
        """The memory is gone with the machine: all ranks restart from the checkpoint."""
        sections = {"strategy": {"type": "zero1"}, "checkpoint": {"save_steps": 50}}
        self.whole(2, 400, **sections)
        config = recovery_runs.config_of("hit", 400, **sections)
        config["run"]["recovery"] = "memory"
        job = self.begin(config, 2, "--spares=1")
        self.wait_for_step(job, "hit", 20)
        self.add_spare(job)
        others = self.lose_machine(job, 1)
        self.assertNotEqual(self.workers("hit")[0], others[0])
        self.end_with_lost(job, 1)
        self.assertEqual(self.weights("hit"), self.weights("whole"))


if __name__ == "__main__":
    recovery_runs.main()
