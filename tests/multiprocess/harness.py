"""Runs ddprun with real processes and looks at what it leaves behind."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

DDPRUN = os.environ["DDPRUN_PROGRAM"]
FAKE_TEMPLATE = os.environ.get("DDPRUN_FAKE_TEMPLATE", "")
# Deadlines only say when a test has failed: generous, because test machines are busy.
DEADLINE_S = 60
# A shell's background jobs ignore Ctrl-C, and so would all that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Python for workers. Writes a page of the flight recorder as a worker does whose first and only
# collective is this all_reduce, begun now (base/flight_page.h).
FLIGHT_PAGE = """
import mmap, os, struct, sys, time
STARTED, WAITING, COMPLETED = 2, 3, 4
rank = int(os.environ["RANK"])
def write_page(number, state):
    pages = mmap.mmap(int(os.environ["DDPRUN_FLIGHT_RECORDER_FD"]), 0)
    TRAINING, ALL_REDUCE, BUCKET, STEP, TICKET = 1, 1, 3, 57, 1
    page = int(os.environ["LOCAL_RANK"]) * 12288
    description = struct.unpack("=Q", struct.pack("=BBHi", ALL_REDUCE, state, 0, BUCKET))[0]
    kind = struct.unpack("=Q", b"float32\\0")[0]
    now = time.monotonic_ns()
    entry = (2, TICKET, number, description, kind, 6250000, 25000000, STEP, now, now, 0)
    struct.pack_into("=11Q", pages, page + (10 + 256) * 8 + TICKET * 11 * 8, *entry)
    struct.pack_into("=8Q", pages, page + 8, rank, os.getpid(), TRAINING, STEP, 0, 1, 1, 0)
    struct.pack_into("=Q", pages, page, 0x796C667064640005)
"""
WAITS_IN_ALL_REDUCE = FLIGHT_PAGE + "write_page(418, WAITING)\n"


def unused_port():
    """Below the range from which the kernel gives ports to clients: nobody takes it meanwhile."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_until(condition, what):
    """Waits for the condition; the pause only bounds how often it is looked at. `what` is a text,
    or a function that says it when the wait was in vain."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("in vain waited for: " + (what() if callable(what) else what))
        time.sleep(0.005)


def state_of(pid):
    """The letter of the process's state: T means stopped."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def processes_with(mark):
    """Living processes that carry the mark in their command line or environment."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
            with open(f"/proc/{name}/cmdline", "rb") as file:
                text = file.read()
            with open(f"/proc/{name}/environ", "rb") as file:
                text += file.read()
        except OSError:
            continue
        if state not in "ZX" and mark.encode() in text:
            found.append(int(name))
    return found


def shared_files_in_use():
    """Names in /dev/shm of what a living process has mapped or open."""
    used = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/maps") as file:
                paths = [line.split(maxsplit=5)[-1].rstrip("\n") for line in file]
            for entry in os.scandir(f"/proc/{name}/fd"):
                paths.append(os.readlink(entry.path))
        except OSError:
            continue
        used.update(path[9:] for path in paths if path.startswith("/dev/shm/"))
    return used


def is_own_shared_file(name):
    try:
        return os.stat("/dev/shm/" + name).st_uid == os.geteuid()
    except OSError:
        return False


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.mark = "mark" + uuid.uuid4().hex
        # Inside the fraction of a number, sleep takes a mark on its command line.
        self.sleep_mark = str(uuid.uuid4().int)[:18]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tmp = os.path.join(self.folder, "tmp")
        os.mkdir(self.tmp)
        self.shm_before = set(os.listdir("/dev/shm"))
        self.addCleanup(self.end_leftovers)

    def end_leftovers(self):
        for pid in {*processes_with(self.mark), *processes_with(self.sleep_mark)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_"))}
        env.update(DDPRUN_TEST_MARK=self.mark, TMPDIR=self.tmp, FOLDER=self.folder)
        if FAKE_TEMPLATE:
            env["DDPRUN_TRAINER"] = FAKE_TEMPLATE
        env.update(more)
        return env

    def start(self, *args, **options):
        env = self.env(**options.pop("env", {}))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        options = {**pipes, "cwd": self.folder, **options}
        process = subprocess.Popen([DDPRUN, *args], env=env, **options)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self.addCleanup(stream.close)
        return process

    def finish(self, process):
        process.out, process.err = process.communicate(timeout=DEADLINE_S)
        return process

    def run_ddprun(self, *args, **options):
        return self.finish(self.start(*args, **options))

    def script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def path(self, name):
        return os.path.join(self.folder, name)

    def wait_for_file(self, name):
        wait_until(lambda: os.path.exists(self.path(name)), "file " + name)

    def pid_in(self, name):
        """The pid that a process writes; renamed into place, so never half of it."""
        self.wait_for_file(name)
        with open(self.path(name)) as file:
            return int(file.read())

    def assert_nothing_left(self):
        wait_until(
            lambda: not processes_with(self.mark) and not processes_with(self.sleep_mark),
            lambda: "all processes of the job to end: "
            + str(processes_with(self.mark) + processes_with(self.sleep_mark)),
        )
        wait_until(lambda: not os.listdir(self.tmp), "the job's folder to go away")
        self.assert_no_shared_memory_left()

    def shared_memory_left(self):
        """Files in /dev/shm that are new since the test began and that nobody holds. To be asked
        when all processes of the job have ended: whoever holds one then is another program's."""
        new = set(os.listdir("/dev/shm")) - self.shm_before
        return set(filter(is_own_shared_file, new - shared_files_in_use())) if new else new

    def assert_no_shared_memory_left(self):
        # Another program may be between making or letting go of a file and removing it; the job
        # has nobody left who could.
        wait_until(
            lambda: not self.shared_memory_left(),
            lambda: f"nothing to be left in /dev/shm: {self.shared_memory_left()}",
        )


def main():
    unittest.main(verbosity=2, argv=[sys.argv[0], *sys.argv[1:]])
