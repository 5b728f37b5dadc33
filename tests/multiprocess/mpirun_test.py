"""mpirun of Open MPI and of MPICH starts agents: they form one job without options."""

import json
import re
import shutil
import subprocess
import sys
import unittest

import harness

WORKER = """
import json, os
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK".split()
print("PLACE " + json.dumps([int(os.environ[name]) for name in names]), flush=True)
"""
PROGRAMS = {
    "mpirun.openmpi": ["--allow-run-as-root", "--oversubscribe", "-np", "3"],
    "mpirun.mpich": ["-np", "3"],
}


class MpirunTest(harness.LauncherTest):
    def test_processes_are_the_workers_of_one_job(self):
        worker = self.script("worker.py", WORKER)
        for program, words in PROGRAMS.items():
            with self.subTest(program=program):
                done = subprocess.run(
                    [program, *words, harness.DDPRUN, worker], env=self.env(), cwd=self.folder,
                    text=True, capture_output=True, timeout=harness.DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                # mpirun may put two lines into one.
                places = sorted(json.loads(text)
                                for text in re.findall(r"PLACE (\[.*?\])", done.stdout))
                self.assertEqual(places, [[rank, 3, rank, 3, 0] for rank in range(3)], done.stdout)


if __name__ == "__main__":
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        print(f"SKIPPED: no {missing[0]}: install openmpi-bin and mpich")
        sys.exit(77)
    unittest.main(verbosity=2)
