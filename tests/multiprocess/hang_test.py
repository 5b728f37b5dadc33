"""--hang_timeout: who hangs is found, named, asked for its stack and ended; who works is let be."""

import os
import signal

import harness

# Long enough for a busy machine to give a worker a share of a core within it.
TIMEOUT_S = 3


class Hang(harness.LauncherTest):
    def run_workers(self, text, workers=1, *args):
        script = self.script("worker.py", "import os, signal, sys, time\n" + text)
        return self.run_ddprun(
            f"--nproc_per_node={workers}", f"--hang_timeout={TIMEOUT_S}", *args, script
        )

    def report(self, job):
        self.assertIn("-- WORKERS HANG", job.err)
        return job.err[job.err.index("-- WORKERS HANG") :]

    def test_of_a_worker_on_a_pipe_ends_the_job_and_shows_its_stack(self):
        job = self.run_workers(
            "def wait_for_nothing():\n    os.read(os.pipe()[0], 1)\nwait_for_nothing()\n"
        )
        self.assertEqual(job.returncode, 124)
        self.assertIn("in wait_for_nothing", job.err)
        self.assertRegex(self.report(job), r"rank 0 .* state S \(sleeping\), in read of pipe:")
        self.assertIn("No worker of this node has moved for", job.err)
        self.assert_nothing_left()

    def test_names_the_rank_that_does_something_else_first(self):
        job = self.run_workers(
            "if os.environ['RANK'] == '2':\n"
            "    while True: time.sleep(0.5)\n"
            "os.read(os.pipe()[0], 1)\n",
            4,
        )
        self.assertEqual(job.returncode, 124)
        lines = self.report(job).splitlines()
        self.assertIn("The others wait for: rank 2 ", lines[2])
        self.assertTrue(lines[3].startswith("  rank 2 "), lines[3])
        self.assertEqual([line[:9] for line in lines[4:7]], ["  rank 0 ", "  rank 1 ", "  rank 3 "])
        self.assert_nothing_left()

    def test_finds_a_stopped_worker_and_still_gets_its_stack(self):
        job = self.run_workers(
            "def stop():\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "if os.environ['RANK'] == '1': stop()\n"
            "os.read(os.pipe()[0], 1)\n",
            2,
        )
        self.assertEqual(job.returncode, 124)
        self.assertIn("The others wait for: rank 1 is stopped (state T)", self.report(job))
        self.assertIn("in stop", job.err)
        self.assert_nothing_left()

    def test_lets_a_worker_compute_in_silence(self):
        job = self.run_workers(
            "end = time.monotonic() + %d\n"
            "if os.environ['RANK'] == '0':\n"
            "    while time.monotonic() < end: sum(range(10000))\n"
            "else:\n"
            "    time.sleep(%d)\n" % (3 * TIMEOUT_S, 3 * TIMEOUT_S),
            2,
        )
        self.assertEqual((job.returncode, job.err), (0, ""))

    def test_lets_a_worker_print(self):
        job = self.run_workers(
            "for i in range(%d):\n    print('waiting', flush=True)\n    time.sleep(0.5)\n"
            % (6 * TIMEOUT_S)
        )
        self.assertEqual((job.returncode, job.err), (0, ""))

    def test_uses_up_a_restart(self):
        job = self.run_workers(
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': os.read(os.pipe()[0], 1)\n",
            1,
            "--max_restarts=1",
        )
        self.assertEqual(job.returncode, 0)
        self.report(job)
        self.assertIn("restart 1 of 1", job.err)

    def test_ends_a_worker_that_ignores_sigabrt(self):
        job = self.run_workers(
            "signal.signal(signal.SIGABRT, signal.SIG_IGN)\n"
            "while True: time.sleep(1)\n"
        )
        self.assertEqual(job.returncode, 124)
        self.assert_nothing_left()

    def test_of_a_worker_that_was_told_to_stop_is_none(self):
        script = self.script(
            "worker.py",
            "import os, signal, time\n"
            "told = []\n"
            "signal.signal(signal.SIGABRT, signal.SIG_IGN)\n"
            "signal.signal(signal.SIGTERM, lambda *_: told.append(1))\n"
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] != '0': open('again', 'w')\n"
            "open('started', 'w')\n"
            "while not told:\n    print('working', flush=True)\n    time.sleep(0.05)\n"
            "while True: signal.pause()\n",
        )
        job = self.start("--hang_timeout=1", "--shutdown_timeout=4", "--max_restarts=3", script)
        self.wait_for_file("started")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, job.err)
        self.assertNotIn("WORKERS HANG", job.err)
        self.assertFalse(os.path.exists(self.path("again")))
        self.assert_nothing_left()



if __name__ == "__main__":
    harness.main()
