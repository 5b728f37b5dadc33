"""Runs the same jobs under torchrun and under ddprun and compares what they leave."""

import fcntl
import glob
import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import harness
import torchrun_peer

LAUNCHERS = ("torchrun", "ddprun")
# torchrun on a busy machine takes tens of seconds for what takes one on an idle one.
DEADLINE_S = 2 * harness.DEADLINE_S

# Writes what the worker was given to $FOLDER/<name>.<rank>.<attempt>.json.
DUMP = """
import json, os, sys
name = f"{os.environ.get('DUMP', 'dump')}.{os.environ['RANK']}"
name += f".{os.environ['TORCHELASTIC_RESTART_COUNT']}.json"
value = {"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(),
         "flags": sys.flags.interactive, "unbuffered": sys.stdout.line_buffering,
         "executable": sys.executable, "name": __name__, "path": sys.path[0]}
with open(os.path.join(os.environ["FOLDER"], name), "w") as file:
    json.dump(value, file)
"""


class Job:
    """A launcher that runs, whichever it is; its output goes to files, so that nothing blocks."""

    def __init__(self, launcher, argv, env, folder, stdin=os.devnull, module=None):
        self.launcher = launcher
        self.started = time.monotonic()
        self.ended = None
        self.returncode = None
        self.files = [open(stdin)]
        for _ in range(2):
            fd = os.memfd_create("output")
            # Workers may share it, and two that write at once would take the same place otherwise.
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
            self.files.append(os.fdopen(fd, "r+", errors="replace"))
        if launcher == "torchrun":
            self.pid, self.status = torchrun_peer.start(
                argv, env, folder, self.files, module or "torch.distributed.run"
            )
        else:
            self.process = subprocess.Popen(
                [harness.DDPRUN, *argv], env=env, cwd=folder, stdin=self.files[0],
                stdout=self.files[1], stderr=self.files[2], start_new_session=True,
            )
            self.pid = self.process.pid

    def send_signal(self, number):
        os.kill(self.pid, number)

    def running(self):
        if self.returncode is not None:
            return False
        if self.launcher == "torchrun":
            return not select.select([self.status], [], [], 0)[0]
        return self.process.poll() is None

    def wait(self):
        if self.returncode is None:
            if self.launcher == "torchrun":
                if not select.select([self.status], [], [], DEADLINE_S)[0]:
                    raise AssertionError(f"torchrun still runs: {self.err}")
                self.returncode = int(self.status.makefile().readline())
            else:
                self.returncode = self.process.wait(DEADLINE_S)
            self.ended = time.monotonic()
        return self

    def close(self):
        if self.running():
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self.launcher == "torchrun":
            self.status.close()
        for file in self.files:
            file.close()

    @property
    def out(self):
        return self.text(1)

    @property
    def err(self):
        return self.text(2)

    def text(self, number):
        self.files[number].seek(0)
        return self.files[number].read()


class CompareTest(harness.LauncherTest):
    """Each launcher works in a folder of its own; what differs by that is taken out again."""

    maxDiff = None

    def setUp(self):
        super().setUp()
        for launcher in LAUNCHERS:
            os.makedirs(self.of(launcher, "tmp"))

    def of(self, launcher, *names):
        return os.path.join(self.folder, launcher, *names)

    def launch(self, launcher, *argv, env=None, **options):
        """Starts the launcher in its folder; its workers see that folder as FOLDER."""
        folder = self.of(launcher)
        whole = self.env(FOLDER=folder, TMPDIR=self.of(launcher, "tmp"), **(env or {}))
        whole.setdefault("PYTHON_EXEC", sys.executable)
        if launcher == "torchrun":
            # Its default port is always the same one, so that two tests could not run at once.
            whole.setdefault("PET_MASTER_PORT", str(harness.unused_port()))
        job = Job(launcher, list(argv), whole, folder, **options)
        self.addCleanup(job.close)
        return job

    def both(self, *argv, **options):
        """The same command under both: {launcher: its job, ended}."""
        jobs = {}
        for launcher in LAUNCHERS:
            jobs[launcher] = self.launch(launcher, *argv, **options).wait()
        return jobs

    def succeed(self, *argv, **options):
        jobs = self.both(*argv, **options)
        for launcher, job in jobs.items():
            self.assertEqual(job.returncode, 0, f"{launcher}: {job.err}")
        return jobs

    def dumps(self, launcher, name="dump"):
        """Returns what the workers of DUMP wrote: {"rank.attempt": value}."""
        found = {}
        for path in glob.glob(self.of(launcher, f"{name}.*.json")):
            with open(path) as file:
                key = ".".join(os.path.basename(path).split(".")[-3:-1])
                found[key] = json.load(file)
        return found

    def plain(self, launcher, text):
        """The text without what no two runs have in common."""
        text = text.replace(self.of(launcher), "<folder>")
        # <run id>_<8 random characters>/attempt_<n>
        return re.sub(r"_[a-z0-9_]{8}/attempt_", "_<random>/attempt_", text)

    def contents(self, launcher, *names):
        """The text of a file in the launcher's folder; None without it."""
        try:
            with open(self.of(launcher, *names)) as file:
                return file.read()
        except FileNotFoundError:
            return None
