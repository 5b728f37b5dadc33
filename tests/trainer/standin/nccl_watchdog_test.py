"""Python's torch with its real ProcessGroupNCCL, on the stand-in for CUDA and NCCL: what ddprun
reads in the dumps that PyTorch writes, against PyTorch's own reader of them (fr_trace)."""

import glob
import json
import os
import re
import subprocess
import sys

import harness

STANDIN = os.environ["STANDIN_FOLDER"]
TITLE = "What NCCL's groups recorded (PyTorch's flight recorder):"

WORKER = """
import datetime, glob, os, time
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
timeout = datetime.timedelta(seconds=float(os.environ.get("NCCL_TIMEOUT_S", "600")))
dist.init_process_group("nccl", timeout=timeout)
store = dist.distributed_c10d._get_default_store()
x = torch.empty(4, 8, device="cuda")

def meet(name):
    # Ranks that start late on a busy machine do not count for NCCL's timeout.
    store.set(f"{name} {rank}", "here")
    store.wait([f"{name} {other}" for other in range(3)], datetime.timedelta(seconds=120))

def everything():
    # Calls of many kinds, so that the dumps have what PyTorch records of them.
    dist.broadcast(x, 0)
    dist.reduce(x, 1)
    dist.all_gather([torch.empty_like(x) for _ in range(3)], x)
    dist.all_gather_into_tensor(torch.empty(12, 8, device="cuda"), x)
    dist.reduce_scatter_tensor(torch.empty(4, 8, device="cuda"), torch.empty(12, 8, device="cuda"))
    if rank == 0:
        dist.send(x, 1)
    if rank == 1:
        dist.recv(x, 0)
    torch.cuda.synchronize()

def step(group=None):
    return dist.all_reduce(x, group=group, async_op=True)

pair = dist.new_group([0, 2], group_desc="shards")
meet("start")
everything()
"""

# Ends as soon as all dumps are there. With pipes, rank 1 asks for them, as a user may by hand;
# without, NCCL's watchdog writes them after the timeout.
END = """
meet("called")
prefix = os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"]
pipes = os.environ.get("TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
if rank != 1:
    time.sleep(600)
if pipes:
    for other in range(3):
        while not os.path.exists(pipes + f"{other}.pipe"):
            time.sleep(0.1)
        with open(pipes + f"{other}.pipe", "w") as pipe:
            pipe.write("1")
def is_whole(path):
    with open(path, "rb") as dump:
        return dump.read()[-1:] == b"."
while sum(map(is_whole, glob.glob(prefix + "*"))) < 3:
    time.sleep(0.1)
os._exit(3)
"""


class NcclWatchdog(harness.LauncherTest):
    def run_job(self, worker, *flags, **env):
        libraries = [os.path.join(STANDIN, name) for name in ("libcudart.so.13", "libnccl.so.2")]
        return self.run_ddprun(
            "--nproc_per_node=3", f"--report_file={self.path('report.json')}", *flags,
            self.script("worker.py", WORKER + worker),
            env={"LD_PRELOAD": " ".join(libraries), "LD_LIBRARY_PATH": STANDIN, "FAKE_GPUS": "3",
                 "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1", **env})

    def fail(self, worker, **env):
        """Runs a job that fails when the dumps are there. Returns what ddprun and what PyTorch's
        own reader say of them; --log_dir keeps them."""
        job = self.run_job(worker + END, "--log_dir=" + self.path("logs"), **env)
        self.assertEqual(job.returncode, 3, job.err)
        dumps = glob.glob(self.path("logs/**/nccl_trace_rank_0"), recursive=True)
        folder = os.path.dirname(dumps[0])
        reader = subprocess.run(
            [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "-p",
             "nccl_trace_rank_", folder], capture_output=True, text=True)
        return self.record(job), reader.stdout + reader.stderr

    def record(self, job):
        """The lines of the record, which the report file has, too."""
        with open(self.path("report.json")) as file:
            lines = json.load(file)["attempts"][-1]["nccl"]
        self.assertIn("".join(line + "\n" for line in lines), job.err)
        self.assertEqual(lines[0], TITLE)
        return lines[1:]

    def line_of(self, text):
        return (WORKER[:WORKER.index(text)]).count("\n") + 1

    def test_a_rank_that_did_not_come(self):
        ours, theirs = self.fail("if rank != 1: step()\n", NCCL_TIMEOUT_S="8")
        path = self.path("worker.py")
        number = re.search(r"all_reduce (\d+)", ours[0])[1]
        self.assertEqual(ours[0], f"rank 1 has not come to all_reduce {number} of group 0 "
                                  "(default_pg), in which others wait:")
        self.assertEqual(ours[1], f"  ranks 0 and 2: in all_reduce {number}, [4, 8] of Float, "
                                  f"called in step at {path}:{self.line_of('return dist.all_re')}, "
                                  f"from <module> at {path}:{WORKER.count(chr(10)) + 1}")
        self.assertRegex(ours[2], r"^  rank 1: last call: _?reduce_scatter\w* \d+, .*"
                                  rf"everything at {path}")
        self.assertIn(f"Not all ranks joining collective, sequence number: {number}", theirs)
        self.assertIn("missing ranks: {1}", theirs)

    def test_a_rank_of_a_subgroup(self):
        # The first call makes the pair's communicator, for which the host waits.
        ours, theirs = self.fail("if rank != 1: step(pair)\nif rank == 0: step(pair)\n",
                                 TORCH_NCCL_DEBUG_INFO_PIPE_FILE=self.path("pipe_"))
        self.assertRegex(ours[0], r"^rank 2 has not come to all_reduce 2 of group \w+ \(shards\), "
                                  r"in which others wait:$")
        self.assertRegex(ours[2], r"^  rank 2: last call: all_reduce 1, ")
        self.assertIn("missing ranks: {2}", theirs)

    def test_a_rank_that_called_something_else(self):
        ours, theirs = self.fail(
            "dist.broadcast(x, 1, async_op=True) if rank == 1 else step()\n",
            STANDIN_DIFFERENCES_HANG="1", TORCH_NCCL_DEBUG_INFO_PIPE_FILE=self.path("pipe_"))
        number = re.search(r"collective (\d+)", ours[0])[1]
        self.assertEqual(
            ours[0], f"The ranks of group 0 (default_pg) differ in their collective {number}:")
        self.assertRegex(ours[1], rf"^  ranks 0 and 2: in all_reduce {number}, ")
        self.assertRegex(ours[2], rf"^  rank 1: in broadcast {number}, ")
        self.assertIn(f"Collective sequence number: {number} has errors", theirs)
        self.assertIn("COLLECTIVE_TYPE_MISMATCH", theirs)

    def test_ranks_that_hang_are_asked_for_their_dumps(self):
        job = self.run_job("if rank != 1: step()\ntorch.cuda.synchronize()\n"
                           "import time; time.sleep(600)\n", "--hang_timeout=6")
        self.assertEqual(job.returncode, 124, job.err)
        ours = self.record(job)
        self.assertRegex(job.err, r"The others wait for: rank 1 has not come to all_reduce \d+ of "
                                  r"group 0 \(default_pg\)\.\n")
        self.assertRegex(ours[1], r"^  ranks 0 and 2: in all_reduce \d+, ")
        with open(self.path("report.json")) as file:
            self.assertIn("rank 1 has not come to", json.load(file)["attempts"][-1]["hang"])
        # The pipes go with the job's folder. PyTorch leaves folders of its own.
        harness.wait_until(lambda: not glob.glob(self.tmp + "/ddprun*"), "the job's folder to go")


if __name__ == "__main__":
    harness.main()
