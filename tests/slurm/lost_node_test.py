"""Nodes that lose their power while a job runs: the others see silence, as after a real failure."""

import json
import os
import time
import unittest

import slurm_test_case
from slurm_test_case import DDPRUN, PLACE

# Waits for the end that the test gives, after it wrote its place.
WORKER = PLACE + """
import sys, time
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


class LostNodeTest(slurm_test_case.SlurmTest):
    NODES = "3"
    CONF = "SlurmdTimeout=300"  # ddprun notices, not SLURM

    def setUp(self):
        super().setUp()
        self.worker = self.write("lost_node_worker.py", WORKER)
        self.end_file = os.path.join(self.folder, "end")
        self.lost = None
        self.addCleanup(self.repair)

    def submit(self, nodes, *flags):
        self.job = self.sbatch(
            f"srun --no-kill {DDPRUN} {' '.join(flags)} {self.worker} {self.end_file}\n",
            "--no-kill", f"-wnode[1-{nodes}]")
        return self.job

    def set_state(self, state):
        self.cluster("exec", "scontrol", "update", f"nodename={self.lost}", f"state={state}",
                     "reason=test", check=False)

    def repair(self):
        """The cluster is as it was, also after a test that failed."""
        self.cluster("exec", "scancel", self.job, check=False)
        if self.lost:
            self.set_state("down")
            self.cluster("boot", self.lost)
            self.set_state("resume")
        self.wait_for(lambda: self.cluster("exec", "sinfo", "-h", "-o", "%T").split() == ["idle"],
                      "idle nodes")

    def places(self, job):
        return slurm_test_case.Result(0, self.output(job)).places()

    def lose_node(self, job, condition):
        """Takes the power of the node of rank 1, and returns the seconds until `condition`."""
        self.lost = self.places(job)[1]["host"]
        self.cluster("power-off", self.lost)
        start = time.monotonic()
        self.wait_for(condition, lambda: self.output(job))
        return time.monotonic() - start

    def end(self, job):
        """SLURM learns about the node. Returns the job's state and output at its end."""
        self.set_state("down")
        end = self.end_of(job)
        for node in {"node1", "node2", "node3"} - {self.lost}:
            self.assertNotIn("lost_node_worker.py", self.cluster("node", node, "ps", "-eo", "args"))
        return end

    def check_second_round(self, job, ranks):
        """The nodes that are left have one world with a worker each, and end well."""
        self.write("end", "")
        state, out = self.end(job)
        self.assertEqual(state, "COMPLETED", out)
        places = slurm_test_case.Result(0, out).places_as_written()[-ranks:]
        self.assertEqual(sorted(place["RANK"] for place in places),
                         [str(rank) for rank in range(ranks)], out)
        self.assertEqual({place["WORLD_SIZE"] for place in places}, {str(ranks)}, out)
        self.assertEqual({place["host"] for place in places},
                         {"node1", "node2", "node3"} - {self.lost}, out)

    def test_a_fixed_job_ends_with_the_name_of_the_node(self):
        job = self.submit(2)
        self.wait_for(lambda: len(self.places(job)) == 2, lambda: self.output(job))
        seconds = self.lose_node(job, lambda: "FAILED" in self.output(job))
        print(f"the loss of {self.lost} was reported after {seconds:.1f} s")
        state, out = self.end(job)
        self.assertNotEqual(state, "COMPLETED", out)
        self.assertRegex(out, r"node 1 \(node2, pid \d+\) is gone: nothing was heard from it for")

    def test_an_elastic_job_goes_on_with_the_other_nodes(self):
        job = self.submit(3, "--nnodes=2:3")
        self.wait_for(lambda: len(self.places(job)) == 3, lambda: self.output(job))
        self.lose_node(job, lambda: len(self.places(job)) == 5)
        self.check_second_round(job, 2)

    def test_a_spare_node_takes_the_place(self):
        job = self.submit(3, "--nnodes=2", "--spares=1")
        self.wait_for(lambda: len(self.places(job)) == 2, lambda: self.output(job))
        self.lose_node(job, lambda: len(self.places(job)) == 4)
        self.check_second_round(job, 2)


    @unittest.skipUnless("DDPRUN_TRAINER" in os.environ, "ddp-trainer is not built")
    def test_a_spare_node_takes_the_place_in_a_run_that_goes_on(self):
        """The rank of the other node stays: it repeats the step that it was in."""
        config = self.write("train.json", json.dumps({
            "run": {"max_steps": 10_000_000, "output_dir": os.path.join(self.folder, "run")},
            "model": {"type": "mlp", "layer_sizes": [256, 512, 8]},
            "training": {"loss": "mse", "per_device_train_batch_size": 16,
                         "matmul_engine": "default"},
            "data": {"format": "random", "num_samples": 1024, "input_size": 256, "target_size": 8},
            "report": {"logging_steps": 1},
            "checkpoint": {"save_steps": 0},
        }))
        self.job = job = self.sbatch(
            f"srun --no-kill {DDPRUN} --nnodes=2 --spares=1 --max_restarts=1 {config}\n",
            "--no-kill", "-wnode[1-3]")
        self.wait_for(lambda: self.steps_done() >= 20, lambda: self.output(job))
        time.sleep(6)  # so long the spare may load what its worker needs
        # The spare has only the process that its worker will be forked from.
        self.lost = max(("node2", "node3"), key=lambda node: self.cluster(
            "node", node, "ps", "-eo", "args").count("ddp-trainer --template"))
        self.cluster("power-off", self.lost)
        self.wait_for(lambda: "was lost: recovered in" in self.output(job),
                      lambda: self.output(job))
        done = self.steps_done()
        self.wait_for(lambda: self.steps_done() >= done + 20, lambda: self.output(job))
        out = self.output(job)
        gone = rf"node 1 \({self.lost}, pid \d+\) is gone: nothing was heard from it"
        self.assertRegex(out, gone)
        self.assertIn("[ddprun n1] takes the place of the lost node", out)
        self.assertRegex(out, r"rank 1 was lost: recovered in [\d.]+ s, in step \d+")
        self.assertNotIn("join anew", out)
        self.assertNotIn("; restart", out)

    def steps_done(self):
        try:
            with open(os.path.join(self.folder, "run/metrics.jsonl"), encoding="utf-8") as file:
                return file.read().count('"split":"train"')
        except FileNotFoundError:
            return 0


if __name__ == "__main__":
    slurm_test_case.main()
