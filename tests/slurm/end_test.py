"""Jobs that cannot end by themselves free their nodes; jobs that lose the first node go back."""

import slurm_test_case
from slurm_test_case import DDPRUN, PLACE

KILL_WAIT_S = 8
IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    time.sleep(1000)
"""
# Rank 0 fails, and the other rank, which has to end then, hangs in its exit handler.
HANGS_AT_EXIT = """
import atexit, os, signal, sys, time
if os.environ["RANK"] == "0":
    while not os.path.exists("ready"):
        time.sleep(0.05)
    sys.exit(3)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
atexit.register(lambda: (print("hangs", flush=True), time.sleep(1000)))
open("ready", "w").close()
while True:
    time.sleep(0.02)  # a signal just before a long sleep would wait for its end
"""


class EndTest(slurm_test_case.SlurmTest):
    CONF = f"KillWait={KILL_WAIT_S}"

    def assert_no_worker(self, node, program):
        found = self.cluster("node", node, "pgrep", "-f", program, check=False)
        self.assertEqual(found, "", node)

    def test_workers_that_ignore_sigterm_are_killed_before_slurm_kills_the_agent(self):
        program = self.write("ignores.py", IGNORES_TERM)
        job = self.sbatch(f"exec srun {DDPRUN} {program}\n", "-N2")
        self.wait_for(lambda: self.output(job).count("ready") == 2, lambda: self.output(job))
        self.cluster("exec", "scancel", job)
        state, out = self.end_of(job)
        self.assertEqual(state, "CANCELLED", out)
        # 137 would be SLURM's SIGKILL.
        for task, node in enumerate(("node1", "node2")):
            self.assertIn(f"error: {node}: task {task}: Exited with exit code 143", out)
            self.assert_no_worker(node, program)

    def test_a_worker_that_hangs_at_its_exit_does_not_keep_the_nodes(self):
        program = self.write("hangs.py", HANGS_AT_EXIT)
        job = self.sbatch(f"exec srun {DDPRUN} {program}\n", "-N2")
        state, out = self.end_of(job)
        self.assertEqual(state, "FAILED", out)
        self.assertIn("hangs", out)
        self.assertIn("error: node1: task 0: Exited with exit code 3", out)
        for node in ("node1", "node2"):
            self.assert_no_worker(node, program)

    def test_an_elastic_job_of_one_task_waits_for_no_other(self):
        result = self.srun("-N1", DDPRUN, "--nnodes=1:2", self.write("place.py", PLACE))
        self.assertEqual([place["WORLD_SIZE"] for place in result.places()], ["1"], result.out)
        self.assertIn("has 1 agent and gets no other: --nnodes=1:2 means", result.out)
        self.assertNotIn("starting after", result.out)  # the wait for others


class FirstNodeTest(slurm_test_case.SlurmTest):
    CONF = "SlurmdTimeout=300"  # SLURM itself does not notice in time that the node is lost

    def test_without_the_first_node_another_one_puts_the_job_back(self):
        program = self.write("ignores.py", IGNORES_TERM)
        job = self.sbatch(f"exec srun {DDPRUN} --requeue=1 {program}\n", "-N2", "--requeue")
        self.wait_for(lambda: self.output(job).count("ready") == 2, lambda: self.output(job))
        self.cluster("power-off", "node1")
        self.wait_for(lambda: self.field(job, "Restarts") == "1",
                      lambda: "a restart:\n" + self.output(job))


if __name__ == "__main__":
    slurm_test_case.main()
