"""ddprun top and ddprun stacks: they see the jobs of this machine, and disturb none."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import harness

TRAINER = os.environ.get("DDPRUN_TOP_TRAINER", "")
NOBODY = 65534
LEAVE_SCREEN = "\x1b[?1049l"
SLEEP = "import os, time\nopen('rank' + os.environ['RANK'], 'w')\ntime.sleep(600)\n"


class TopTest(harness.LauncherTest):
    def ask(self, *args, **options):
        """A command that looks at jobs."""
        return subprocess.run([harness.DDPRUN, *args], capture_output=True, text=True,
                              timeout=harness.DEADLINE_S, env=self.env(**options.pop("env", {})),
                              **options)

    def job_in_json(self, job, **options):
        top = self.ask("top", "--json", **options)
        self.assertEqual((top.returncode, top.stderr), (0, ""))
        return next((one for one in json.loads(top.stdout)["jobs"] if one["pid"] == job.pid), None)

    def start_sleepers(self, *args):
        job = self.start("--nproc_per_node=2", *args, self.script("worker.py", SLEEP))
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.wait_for_file("rank0")
        self.wait_for_file("rank1")
        return job

    def end(self, job):
        job.terminate()
        self.finish(job)
        self.assert_nothing_left()


class Top(TopTest):
    def test_shows_the_ranks_of_a_python_job(self):
        job = self.start_sleepers()
        seen = self.job_in_json(job)
        self.assertEqual([rank["rank"] for rank in seen["ranks"]], [0, 1])
        self.assertEqual((seen["world_size"], seen["restarts"]), (2, 0))
        self.assertTrue(seen["command"].endswith("worker.py"), seen["command"])
        for rank in seen["ranks"]:
            with open(f"/proc/{rank['pid']}/environ") as file:
                self.assertIn(f"\0RANK={rank['rank']}\0", file.read())
            self.assertGreater(rank["memory_bytes"], 1 << 20)
            self.assertGreater(rank["cpu_seconds"], 0)
        text = self.ask("top", str(job.pid)).stdout
        self.assertRegex(text, rf"^{job.pid}  \S+  0:00:\d\d  ddprun .*worker.py")
        self.assertIn(f"    1 {seen['ranks'][1]['pid']:8}        - ", text)
        self.end(job)
        self.assertIsNone(self.job_in_json(job))
        ended = self.ask("top", str(job.pid))
        self.assertEqual(ended.returncode, 2)
        self.assertIn("-- NO SUCH JOB", ended.stderr)

    def test_tells_ranks_apart_whose_local_rank_is_0(self):
        job = self.start_sleepers("--virtual_local_rank")
        ranks = self.job_in_json(job)["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        self.assertEqual(len({rank["pid"] for rank in ranks}), 2)
        self.end(job)

    def test_shows_restarts_and_a_job_within_a_job(self):
        worker = self.script("worker.py", SLEEP)
        again = self.script("again.py", f"""
import os, subprocess, sys
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0": sys.exit(3)
sys.exit(subprocess.call([{harness.DDPRUN!r}, "--nproc_per_node=2", {worker!r}], close_fds=False))
""")
        job = self.start("--max_restarts=1", again)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.wait_for_file("rank0")
        self.wait_for_file("rank1")
        jobs = json.loads(self.ask("top", "--json").stdout)["jobs"]
        outer = next(one for one in jobs if one["pid"] == job.pid)
        self.assertEqual((len(outer["ranks"]), outer["restarts"]), (1, 1))
        inner = next(one for one in jobs if worker in one["command"])
        self.assertEqual([rank["rank"] for rank in inner["ranks"]], [0, 1])
        self.assertEqual(len({rank["pid"] for rank in inner["ranks"]}), 2)
        self.end(job)

    def test_names_the_rank_that_is_waited_for(self):
        script = self.script("worker.py", harness.FLIGHT_PAGE + """
write_page(*((418, WAITING) if rank == 0 else (417, COMPLETED)))
time.sleep(600)
""")
        job = self.start("--nproc_per_node=2", script)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        awaited = {"ranks": [1], "reason": "has not come to all_reduce 418"}
        harness.wait_until(
            lambda: (self.job_in_json(job) or {}).get("awaited") == awaited, "the rank to be named")
        waits = self.job_in_json(job)["ranks"][0]["waits"]
        self.assertEqual((waits["in"], waits["number"], waits["bucket"]), ("all_reduce", 418, 3))
        text = self.ask("top", str(job.pid)).stdout
        self.assertIn("the others wait for rank 1, which has not come to all_reduce 418\n", text)
        self.assertRegex(text, r"waits \d+\.\d s in all_reduce 418, bucket 3, 24 MiB\n")
        self.end(job)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_says_that_the_job_of_another_user_is_not_shown(self):
        job = self.start_sleepers()
        top = self.ask("top", "--json", user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        self.assertEqual(top.returncode, 0, top.stderr)
        seen = json.loads(top.stdout)
        self.assertNotIn(job.pid, [one["pid"] for one in seen["jobs"]])
        self.assertIn({"pid": job.pid, "user": "root"}, seen["unreadable"])
        self.assertIsNotNone(self.job_in_json(job))
        self.end(job)

    def test_disturbs_no_job(self):
        script = self.script("worker.py", "import os, time\n"
                             "while not os.path.exists('stop'): sum(range(1000))\n")
        job = self.start("--nproc_per_node=2", script)
        found = 0
        for _ in range(200):
            seen = self.job_in_json(job)
            found += seen is not None and len(seen["ranks"]) == 2
        open(self.path("stop"), "w").close()
        self.finish(job)
        self.assertEqual((job.returncode, job.out, job.err), (0, "", ""))
        self.assertGreater(found, 100)

    @unittest.skipUnless(TRAINER, "this build has no ddp-trainer")
    def test_shows_a_run_of_the_trainer(self):
        config = self.path("train.json")
        with open(config, "w") as file:
            json.dump({"run": {"name": "top", "max_steps": 10**6},
                       "model": {"type": "mlp", "layer_sizes": [6, 4, 2]},
                       "data": {"format": "random", "num_samples": 1000, "input_size": 6,
                                "target_size": 2},
                       "report": {"logging_steps": 5}}, file)
        job = self.start("--nproc_per_node=2", config, env={"DDPRUN_TRAINER": TRAINER},
                         stdout=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        harness.wait_until(lambda: job.poll() is not None or
                           (self.job_in_json(job) or {}).get("loss") is not None, "a loss")
        self.assertIsNone(job.poll(), job.poll() and job.communicate())
        last = [0, 0]
        phases = set()
        for _ in range(50):
            seen = self.job_in_json(job)
            phases.update(rank["does"].split(",")[0] for rank in seen["ranks"])
            steps = [rank["step"] for rank in seen["ranks"]]
            self.assertTrue(all(old <= new for old, new in zip(last, steps)), (last, steps))
            last = steps
        self.assertNotIn("trains", phases)  # the loop says more than that
        self.assertNotIn("starts", phases)
        self.assertEqual((seen["world_size"], seen["total_steps"]), (2, 10**6))
        self.assertGreater(seen["samples_per_second"], 0)
        folder = self.path("runs/top")
        self.assertTrue(os.path.samefile(seen["run_folder"], folder))
        stop = self.ask("stop", folder)
        self.assertEqual(stop.returncode, 0, stop.stderr)
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        # metrics.jsonl has what top has shown.
        with open(self.path("runs/top/metrics.jsonl")) as file:
            losses = [json.loads(line).get("mean_loss") for line in file]
        self.assertTrue(any(loss is not None and abs(loss - seen["loss"]) < 1e-6
                            for loss in losses), seen["loss"])


class Screen(TopTest):
    """`ddprun top` on a terminal."""

    def start_top(self, *args, rows=24, columns=80):
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        top = subprocess.Popen([harness.DDPRUN, "top", *args], stdin=slave, stdout=slave,
                               stderr=slave, env=self.env(TERM="xterm"), start_new_session=True)
        self.slave = slave
        self.addCleanup(os.close, slave)
        self.addCleanup(top.wait)
        self.addCleanup(top.kill)
        self.shown = ""
        return top

    def read_until(self, condition, what):
        deadline = time.monotonic() + harness.DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"in vain waited for {what}: {self.shown}")
            if select.select([self.master], [], [], 0.1)[0]:
                self.shown += os.read(self.master, 65536).decode()

    def assert_restored(self):
        self.read_until(lambda: LEAVE_SCREEN in self.shown, "the screen of before")
        self.assertEqual(termios.tcgetattr(self.slave), self.before)

    def test_ends_by_a_key_and_by_signals(self):
        for end, code in ((lambda top: os.write(self.master, b"q"), 0),
                          (lambda top: top.send_signal(signal.SIGINT), 0),
                          (lambda top: top.send_signal(signal.SIGTERM), 143)):
            top = self.start_top()
            self.read_until(lambda: "\x1b[J" in self.shown, "a screen")
            self.assertIn("\x1b[?1049h", self.shown)
            end(top)
            self.assertEqual(top.wait(harness.DEADLINE_S), code)
            self.assert_restored()

    def test_ends_with_its_job(self):
        job = self.start_sleepers()
        top = self.start_top(str(job.pid))
        self.read_until(lambda: "worker.py" in self.shown, "the job")
        self.end(job)
        self.assertEqual(top.wait(harness.DEADLINE_S), 0)
        self.assert_restored()
        self.read_until(lambda: f"job {job.pid} has ended" in self.shown, "the last line")

    def test_fits_the_terminal(self):
        job = self.start_sleepers("--log_level=INFO")
        self.start_top(str(job.pid), rows=6, columns=30)
        self.read_until(lambda: "\x1b[J" in self.shown, "a screen")
        frame = self.shown.partition("\x1b[J")[0].partition("\x1b[H")[2]
        for sequence in ("\x1b[K", "\x1b[1m", "\x1b[0m"):
            frame = frame.replace(sequence, "")
        lines = frame.split("\r\n")
        self.assertEqual(len(lines), 6)
        self.assertLessEqual(max(map(len, lines)), 30, lines)
        self.assertEqual(lines[5], "... and 2 more lines")
        # A larger terminal is used at once.
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self.read_until(lambda: "MEMORY  DOES" in self.shown, "a larger screen")
        self.end(job)


class Stacks(TopTest):
    def tool(self, name, text):
        path = self.script(name, "#!/bin/sh\n" + text)
        os.chmod(path, 0o755)

    def test_come_from_a_tool_and_the_job_goes_on(self):
        self.tool("gdb", 'echo "[New LWP 7]"; echo "Thread 1 of: $*"; echo "#0 main"\n'
                         'echo "[Inferior 1 (process 7) detached]"\n')
        job = self.start("--no_python", "--nproc_per_node=2", "sleep", f"600.{self.sleep_mark}")
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        harness.wait_until(lambda: len(processes(self.sleep_mark)) == 2, "two workers")
        stacks = self.ask("stacks", str(job.pid), "--rank=1", env={"PATH": self.folder + ":/bin"})
        self.assertEqual((stacks.returncode, stacks.stderr), (0, ""))
        pid = self.job_in_json(job)["ranks"][1]["pid"]
        self.assertRegex(stacks.stdout, rf"^-- RANK 1 -+ pid {pid}\n")
        self.assertNotIn("[", stacks.stdout.partition("Thread 1")[2])
        self.assertRegex(stacks.stdout, rf"Thread 1 of: .*-p {pid} .*\n#0 main\n")
        none = self.ask("stacks", str(job.pid), "--rank=2")
        self.assertEqual(none.returncode, 2)
        self.assertIn("No worker of rank 2 runs here.", none.stderr)
        self.assertIsNone(job.poll())
        self.end(job)

    def test_without_a_tool_are_states_of_threads(self):
        job = self.start_sleepers()
        stacks = self.ask("stacks", str(job.pid), env={"PATH": self.folder})
        self.assertEqual((stacks.returncode, stacks.stderr), (0, ""))
        self.assertEqual(stacks.stdout.count("): state S"), 2, stacks.stdout)
        self.assertIn("gdb is not installed; eu-stack is not installed", stacks.stdout)
        self.assertIsNone(job.poll())
        self.end(job)


def processes(mark):
    """Workers by their command line: not the agent, which carries it, too."""
    found = []
    for pid in harness.processes_with(mark):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            found += [pid] if file.read().startswith(b"sleep\0") else []
    return found


if __name__ == "__main__":
    harness.main()
