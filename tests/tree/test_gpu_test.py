"""scripts/test_gpu.sh without a GPU: it goes on past failures, and where it was cut off."""

import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

STEPS = """\
counts 60 echo run >> $COUNTER
fails 60 echo "CUDA graph: not used: no reason"; exit 3
hangs 1 sleep 60
absent 60 echo "SKIPPED: no GPU"; exit 1
waits 60 touch $FOLDER/reached; while [ ! -e $FOLDER/go ]; do sleep 0.05; done
last 60 nvidia-smi | grep simulated
"""


class Protocol(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        driver = self.folder / "nvidia-smi"
        driver.write_text("#!/bin/sh\necho simulated GPU\n")
        driver.chmod(driver.stat().st_mode | stat.S_IXUSR)
        (self.folder / "steps").write_text(STEPS)
        self.env = {**os.environ, "FOLDER": str(self.folder),
                    "COUNTER": str(self.folder / "counter"),
                    "PATH": f"{self.folder}:{os.environ['PATH']}"}

    def start(self, *more):
        return subprocess.Popen(
            [ROOT / "scripts/test_gpu.sh", "--steps", self.folder / "steps", "--out",
             self.folder / "out", *more], env=self.env, stdout=subprocess.PIPE, text=True)

    def result(self, name):
        path = self.folder / "out" / f"{name}.result"
        return path.read_text() if path.exists() else None

    def test_goes_on_past_failures_and_where_it_was_cut_off(self):
        cut = self.start()
        while not (self.folder / "reached").exists():
            self.assertIsNone(cut.poll())
            time.sleep(0.02)
        cut.send_signal(signal.SIGTERM)
        cut.communicate()
        self.assertEqual(cut.returncode, 130)
        self.assertIsNone(self.result("waits"))

        (self.folder / "go").touch()
        rest = self.start()
        text, _ = rest.communicate()
        self.assertEqual(rest.returncode, 1, "a step has failed")
        for name, expected in (("counts", "passed"), ("fails", "failed (3)"),
                               ("hangs", "cut off after 1 s"), ("absent", "skipped"),
                               ("waits", "passed"), ("last", "passed")):
            self.assertTrue(self.result(name).startswith(expected), self.result(name))
        summary = (self.folder / "out/summary.txt").read_text()
        self.assertIn(summary, text)
        self.assertIn("    CUDA graph: not used: no reason\n", summary)
        self.assertEqual(summary.count("\n"), 7)

        again = self.start("--again", "fails", "counts")
        again.communicate()
        self.assertEqual((self.folder / "counter").read_text(), "run\n", "what passed stays")

    def test_has_a_step_for_every_test_of_a_gpu(self):
        (self.folder / "steps").unlink()
        process = subprocess.run(
            [ROOT / "scripts/test_gpu.sh", "--out", self.folder / "out", "gpu"], text=True,
            env={**self.env, "BIN": str(self.folder)}, capture_output=True, check=False)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"no programs in {self.folder}", process.stderr)
        trainer = self.folder / "ddp-trainer"
        trainer.touch(0o755)
        process = subprocess.run(
            [ROOT / "scripts/test_gpu.sh", "--out", self.folder / "out", "gpu"], text=True,
            env={**self.env, "BIN": str(self.folder)}, capture_output=True, check=False)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(self.result("gpu").startswith("passed"))
        steps = (self.folder / "out/steps").read_text()
        for file in ("gpu_test.py", "shared_gpu_test.py"):
            tests = (ROOT / "tests/trainer/cuda" / file).read_text().count("    def test_")
            self.assertGreater(tests, 4)
            self.assertEqual(steps.count(f"tests/trainer/cuda/{file} "), tests)


if __name__ == "__main__":
    unittest.main()
