"""Runs ddprun in a real SLURM cluster on this machine, and looks at what it does.

Each class has a cluster of its own, made by cluster.sh in namespaces. Exit code 77: this machine
can make no such cluster.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster.sh")
DEADLINE_S = 120
NEEDED = ["slurmctld", "slurmd", "srun", "sbatch", "ip", "unshare", "nsenter"]

# A worker that writes its place in the job as a line of JSON.
PLACE = """
import json, os, socket
names = ("RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE "
         "TORCHELASTIC_RUN_ID OMP_NUM_THREADS DDPRUN_NODE_MEMORY_FD").split()
place = {name: os.environ.get(name) for name in names}
place["host"] = socket.gethostname()
print("PLACE " + json.dumps(place), flush=True)
"""


class Result:
    def __init__(self, code, out):
        self.code = code
        self.out = out

    def places(self):
        """The places that workers wrote, by rank."""
        return sorted(self.places_as_written(), key=lambda place: int(place["RANK"]))

    def places_as_written(self):
        return [json.loads(text) for text in re.findall(r"PLACE (\{.*\})", self.out)]


class SlurmTest(unittest.TestCase):
    NODES = "2"
    CONF = ""  # further lines of slurm.conf
    CPUS = 4
    GPUS = 0  # of each node; they do not work, but SLURM gives them to tasks
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = tempfile.mkdtemp(prefix="ddprun-slurm.")
        cls.env = {name: value for name, value in os.environ.items()
                   if not name.startswith(("SLURM", "PET_", "MASTER_"))}
        cls.env |= {"SLURMLAB_DIR": os.path.join(cls.lab, "c"), "SLURMLAB_CPUS": str(cls.CPUS),
                    "SLURMLAB_GPUS": str(cls.GPUS), "SLURMLAB_CONF": cls.CONF}
        cls.addClassCleanup(cls.end_cluster)
        cls.cluster("start", cls.NODES)

    @classmethod
    def end_cluster(cls):
        subprocess.run([CLUSTER, "stop"], env=cls.env, check=False, capture_output=True)
        shutil.rmtree(cls.lab, ignore_errors=True)

    @classmethod
    def cluster(cls, *words, check=True):
        """Runs cluster.sh and returns its output."""
        done = subprocess.run([CLUSTER, *words], env=cls.env, cwd=cls.lab, text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"cluster.sh {words}: {done.stdout}{done.stderr}")
        return done.stdout

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.lab)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def srun(self, *words, env=None, program="srun"):
        """Runs a step of its own job (or salloc), and returns its code and output."""
        done = subprocess.run([CLUSTER, "exec", program, *words], env=self.env | (env or {}),
                              cwd=self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE_S, check=False)
        return Result(done.returncode, done.stdout)

    def sbatch(self, script, *options):
        """Submits a job, and returns its id. Its output goes to out.ID in the folder."""
        path = self.write("job.sh", "#!/bin/bash\n" + script)
        words = ["--parsable", "-o", os.path.join(self.folder, "out.%j"), "-D", self.folder]
        return self.cluster("exec", "sbatch", *words, *options, path).strip()

    def output(self, job):
        try:
            with open(os.path.join(self.folder, f"out.{job}"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def field(self, job, name):
        """A field of `scontrol show job`; "" if SLURM does not know the job."""
        shown = self.cluster("exec", "scontrol", "-o", "show", "job", job, check=False)
        found = re.search(rf" {name}=(.*?) *(?: \w+=|\n)", shown)
        return found.group(1) if found else ""

    def state(self, job):
        return self.field(job, "JobState")

    def end_of(self, job):
        """Waits for the end of a job, and returns its state and output."""
        state = self.cluster("wait", job, str(DEADLINE_S), check=False).strip()
        return state, self.output(job)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("in vain waited for " + (what() if callable(what) else what))
            time.sleep(0.05)


def main():
    missing = [name for name in NEEDED
               if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        print(f"SKIPPED: no {missing[0]}: install slurm-wlm, munge and iproute2")
        sys.exit(77)
    may_not = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"],
                             capture_output=True, text=True, check=False)
    if may_not.returncode != 0:
        print(f"SKIPPED: no namespaces: {may_not.stderr.strip()}")
        sys.exit(77)
    unittest.main(verbosity=2)
