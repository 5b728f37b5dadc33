"""Against the real torchrun and with a real PyTorch worker; run by a Python that has torch."""

import json
import os
import subprocess
import sys

import harness

# Variables that differ by design: paths, ports and processes of the run, and ddprun's own.
VARYING = {"MASTER_PORT", "TORCHELASTIC_ERROR_FILE"}
OURS = {
    "DDPRUN_FLIGHT_RECORDER_FD",
    "DDPRUN_JOB_ID",
    "DDPRUN_NODE_MEMORY_FD",
    "DDPRUN_JOB_BEGAN_NS",
    "PYTHONFAULTHANDLER",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
# torchrun says 1 whatever the machine; ddprun shares the cores out.
DECIDED_DIFFERENTLY = {"OMP_NUM_THREADS"}

DUMP = """
import json, os
with open(f"{os.environ['FOLDER']}/{os.environ['DUMP']}.{os.environ['RANK']}", "w") as file:
    json.dump(dict(os.environ), file)
"""

ARGV = """
import os, sys
with open(f"{os.environ['FOLDER']}/{os.environ['DUMP']}.{os.environ['RANK']}", "w") as file:
    file.write(repr(sys.argv[1:]))
"""

ALL_REDUCE = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
value = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(value)
with open(f"{os.environ['FOLDER']}/sum.{dist.get_rank()}", "w") as file:
    file.write(f"{dist.get_world_size()} {value.tolist()}")
dist.destroy_process_group()
"""


class Torchrun(harness.LauncherTest):
    def run_both(self, script, *args, flags=("--nproc_per_node=2",)):
        """Returns what each launcher's workers wrote: {launcher: [text of rank 0, ...]}."""
        torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
        env = {"PYTHON_EXEC": sys.executable}
        path = self.script("worker.py", script)
        results = {}
        for name, program in (("torchrun", torchrun), ("ddprun", harness.DDPRUN)):
            job = subprocess.run(
                [program, *flags, path, *args],
                env=self.env(DUMP=name, **env),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=5 * harness.DEADLINE_S,
            )
            self.assertEqual(job.returncode, 0, job.stderr)
            results[name] = []
            for rank in (0, 1):
                with open(self.path(f"{name}.{rank}")) as file:
                    results[name].append(file.read())
        return results

    def test_gives_workers_the_same_environment(self):
        results = self.run_both(DUMP)
        for rank in (0, 1):
            theirs = json.loads(results["torchrun"][rank])
            ours = json.loads(results["ddprun"][rank])
            self.assertEqual(ours["MASTER_ADDR"], "127.0.0.1")
            self.assertEqual(set(ours) - OURS, set(theirs))
            for name in set(theirs) - VARYING - DECIDED_DIFFERENTLY - {"DUMP"}:
                self.assertEqual(ours[name], theirs[name], name)

    def test_substitutes_local_rank_in_arguments_alike(self):
        args = ["${local_rank}", "x$local_rank.y", "$$local_rank", "$HOME", "${HOME}", "$"]
        results = self.run_both(ARGV, *args)
        self.assertEqual(results["ddprun"], results["torchrun"])


class Gloo(harness.LauncherTest):
    def test_all_reduces_among_two_and_four_workers(self):
        script = self.script("worker.py", ALL_REDUCE)
        for workers in (2, 4):
            with self.subTest(workers=workers):
                job = self.start(
                    f"--nproc_per_node={workers}", script, env={"PYTHON_EXEC": sys.executable}
                )
                job.out, job.err = job.communicate(timeout=5 * harness.DEADLINE_S)
                self.assertEqual(job.returncode, 0, job.err)
                total = float(sum(range(1, workers + 1)))
                for rank in range(workers):
                    with open(self.path(f"sum.{rank}")) as file:
                        self.assertEqual(file.read(), f"{workers} {[total] * 4}")
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
