"""The words with which jobs end under SLURM say what happened: a stop is no failure, an elastic job
that forms anew goes on, and a dead link is named."""

import json
import os
import re
import unittest

import slurm_test_case
from slurm_test_case import DDPRUN, PLACE

WAITS = PLACE + "import time\ntime.sleep(1000)\n"
ENDLESS = {
    "model": {"type": "mlp", "layer_sizes": [256, 512, 8]},
    "training": {"loss": "mse", "per_device_train_batch_size": 16, "matmul_engine": "default"},
    "optimizer": {"type": "sgd", "learning_rate": 0.001},
    "data": {"format": "random", "num_samples": 1024, "input_size": 256, "target_size": 8},
    "report": {"logging_steps": 1},
}


class TextTest(slurm_test_case.SlurmTest):
    NODES = "3"
    CONF = "KillWait=8"

    def start(self, command, nodes):
        self.job = self.sbatch(f"exec srun {command}\n", f"-N{nodes}")
        self.addCleanup(self.cluster, "exec", "scancel", self.job, check=False)

    def out(self):
        return self.output(self.job)

    def wait_for_text(self, pattern, times=1):
        self.wait_for(lambda: len(re.findall(pattern, self.out())) >= times,
                      lambda: f"{pattern!r} in:\n{self.out()}")

    def end(self, state):
        ended, out = self.end_of(self.job)
        self.assertEqual(ended, state, out)
        return out

    def endless(self):
        run = {"max_steps": 10_000_000, "output_dir": os.path.join(self.folder, "{name}")}
        return self.write("train.json", json.dumps(ENDLESS | {"run": run}))

    def cancel(self, *words):
        self.start(f"{DDPRUN} {self.write('waits.py', WAITS)}", 2)
        self.wait_for_text("PLACE", 2)
        self.cluster("exec", "scancel", *[word.format(self.job) for word in words])

    def cut(self, node, address):
        """Lets the packets of `node` to `address` vanish on their way, as a bad cable does."""
        device = self.cluster("node", node, "ip", "route", "get", address).split()[2]
        neighbour = [address, "dev", device]
        self.cluster("node", node, "ip", "neigh", "replace", *neighbour,
                     "lladdr", "02:00:00:00:00:99", "nud", "permanent")
        self.addCleanup(self.cluster, "node", node, "ip", "neigh", "del", *neighbour)

    def check_cancelled(self, out):
        """SLURM signals all processes at once. Where a worker's end is noticed before the agent's
        own signal, the report says that somebody ended it."""
        self.assertIn("got SIGTERM", out)
        for failed in re.findall(r"NODE FAILED.*?More:", out, re.DOTALL):
            self.assertIn("was killed by SIGTERM: someone asked it to end", failed)

    def test_a_job_that_slurm_cancels_has_not_failed(self):
        self.cancel("{}")
        out = self.end("CANCELLED")
        self.assertEqual(out.count("Exited with exit code 143"), 2, out)
        self.check_cancelled(out)

    def test_a_step_that_is_stopped_by_sigterm_has_not_failed(self):
        self.cancel("-s", "TERM", "{}.0")
        self.check_cancelled(self.end("FAILED"))

    def test_a_cancelled_step_says_what_scancel_does(self):
        # SLURM kills all processes of the step: an agent may be gone before it notices the others.
        self.cancel("{}.0")
        self.end_of(self.job)
        for failed in re.findall(r"NODE FAILED.*?More:", self.out(), re.DOTALL):
            self.assertIn(f"`scancel {self.job}.0` kills all its processes at once", failed)

    @unittest.skipUnless(os.environ.get("DDPRUN_TRAINER"), "this build has no ddp-trainer")
    def test_an_elastic_job_that_forms_anew_says_that_it_goes_on(self):
        late = self.write("late.sh", "until [ $SLURM_NODEID = 0 ] || [ -e go ]; do sleep 0.1\n"
                                     "done; exec \"$@\"\n")
        self.start(f"bash {late} {DDPRUN} --nnodes=1:2 --rdzv_conf=last_call_timeout=1 "
                   f"{self.endless()}", 2)
        self.wait_for_text(r"step +3/")
        self.write("go", "")
        self.wait_for_text("going on after step")
        self.cluster("exec", "scancel", self.job)
        out = self.end("CANCELLED")
        self.assertRegex(out, r"stopped after step \d+ of \d+: the nodes join anew; "
                              r"the job goes on by itself\n")
        self.assertEqual(out.count("to go on: ddprun"), 1, out)  # scancel
        # The batch follows the number of nodes, and this is said both times.
        self.assertIn("a step takes 16 samples with 1 rank, and another number when nodes", out)
        self.assertIn("a step takes 32 samples with 2 ranks, and another number when nodes", out)
        self.assertIn("took 16 samples on 1 rank; here it takes 32 on 2 ranks", out)

    @unittest.skipUnless(os.environ.get("DDPRUN_TRAINER"), "this build has no ddp-trainer")
    def test_a_dead_link_is_named(self):
        self.start(f"{DDPRUN} --hang_timeout=15 {self.endless()}", 3)
        self.wait_for_text(r"step +3/")
        self.cut("node2", "198.18.77.13")
        self.cut("node3", "198.18.77.12")
        out = self.end("FAILED")
        # Any node may be the first to end the job; the nodes of the link have warned before.
        ends = {tuple(sorted(pair)) for pair in re.findall(
            r"no worker has moved for [\d.]+ s: 198\.18\.77\.(\d+):\d+ does not acknowledge what "
            r"rank [12] sends from 198\.18\.77\.(\d+):", out)}
        self.assertEqual(ends, {("12", "13")}, out)
        self.assertIn("`ddprun doctor --nodes` tests", out)


if __name__ == "__main__":
    slurm_test_case.main()
