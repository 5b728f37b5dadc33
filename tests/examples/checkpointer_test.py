"""examples/checkpointer, built against the installed package: killed and stopped at random moments
and started again, with another number of ranks too, it ends with the bits of a run left alone."""

import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

INSTALLED = pathlib.Path(os.environ["DDPRUN_INSTALLED"])
STEPS = 400


class Checkpointer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        source = f"{os.environ['DDPRUN_SOURCE_DIR']}/examples/checkpointer"
        build = cls.folder / "build"
        for command in (["cmake", "-S", source, "-B", build, "-G", "Ninja",
                         f"-DCMAKE_PREFIX_PATH={INSTALLED}",
                         f"-DDDPRUN_TORCH={os.environ['DDPRUN_TORCH']}",
                         f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['LAUNCHER']}"],
                        ["cmake", "--build", build]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        cls.program = build / "checkpointer"
        cls.alone = cls.last_line(cls.finish(cls.start("alone", 1)))

    @classmethod
    def start(cls, name, ranks):
        return subprocess.Popen(
            [INSTALLED / "bin/ddprun", f"--nproc_per_node={ranks}", cls.program,
             cls.folder / name, str(STEPS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @classmethod
    def finish(cls, job):
        out, err = job.communicate(timeout=200)
        assert job.returncode == 0, (job.returncode, out, err)
        return out

    @staticmethod
    def last_line(out):
        return out.splitlines()[-1]

    @staticmethod
    def rest(job):
        """Returns the output after the first line, which communicate() loses if it came with it."""
        out = job.stdout.read()
        job.communicate(timeout=100)
        return out

    def interrupted(self, name, seed, number):
        """Starts and interrupts it a few times, then lets it end; returns the last line."""
        chance = random.Random(seed)
        for _ in range(5):
            job = self.start(name, chance.choice([1, 2]))
            first = job.stdout.readline()
            self.assertIn("from step", first, job.stderr.read() if not first else "")
            time.sleep(chance.random() * 0.3)
            job.send_signal(number)
            out = self.rest(job)
            if job.returncode == 0:
                return self.last_line(out)
        return self.last_line(self.finish(self.start(name, 2)))

    def test_killed(self):
        for seed in range(3):
            self.assertEqual(self.alone, self.interrupted(f"killed{seed}", seed, signal.SIGKILL))

    def test_stopped(self):
        job = self.start("once", 2)
        job.stdout.readline()
        job.send_signal(signal.SIGTERM)
        out = self.rest(job)
        if job.returncode != 0:  # else it was through before
            self.assertTrue(list((self.folder / "once").glob("step-*/COMMIT")), out)
        for seed in range(3):
            self.assertEqual(self.alone, self.interrupted(f"stopped{seed}", seed, signal.SIGTERM))

    def test_ends_with_the_checkpoint_of_its_last_save(self):
        """Ranks end at different moments: none may leave before the save is through."""
        for number in range(5):
            folder = self.folder / f"ended{number}"
            self.finish(self.start(folder.name, 3))
            names = sorted(path.name for path in folder.iterdir())
            self.assertEqual(names, ["latest", f"step-{STEPS - 50}", f"step-{STEPS}"])


if __name__ == "__main__":
    unittest.main()
