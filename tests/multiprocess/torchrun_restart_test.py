"""Restarts and signals: what is run how often, what workers receive, how it ends."""

import json
import os
import signal

import harness
import torchrun_compare

# Writes down each start with what tells attempts apart; fails in the attempts that FAIL names.
COUNTED = """
import json, os, socket, struct, sys, time
env = os.environ
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT",
         "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID", "ROLE_RANK", "MASTER_ADDR"]
start = {name: env[name] for name in names}
start["error_file"] = env["TORCHELASTIC_ERROR_FILE"]

def text(word):
    return struct.pack("<Q", len(word)) + word.encode()

# The store's protocol: who speaks it, a SET, a CHECK, an ADD that is answered after the SET.
def store(request, answer):
    with socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"]))) as peer:
        peer.sendall(b"\\0" + struct.pack("<I", 0x3C85F7CE) + b"\\r" + bytes(4))
        got = b""
        peer.sendall(request)
        while len(got) < 4 + answer:
            more = peer.recv(100)
            if not more:
                raise ConnectionError("the store went away")
            got += more
    return got[4:]

attempt = len([n for n in os.listdir(env["FOLDER"]) if n.startswith(f"start.{env['RANK']}.")])
start["old_key_seen"] = store(b"\\5" + struct.pack("<Q", 1) + text("/old"), 1) == b"\\0"
with open(f"{env['FOLDER']}/start.{env['RANK']}.{attempt}", "w") as file:
    json.dump(start, file)
# All are up before anyone fails, and the next attempt could see this attempt's key.
count = struct.unpack("<q", store(b"\\4" + text(f"/up{attempt}") + struct.pack("<q", 1), 8))[0]
while count < int(env["WORLD_SIZE"]):
    time.sleep(0.01)
    count = struct.unpack("<q", store(b"\\4" + text(f"/up{attempt}") + bytes(8), 8))[0]
if [env["RANK"], str(attempt)] in json.loads(env["FAIL"]):
    store(b"\\1" + text("/old") + text("x") + b"\\4" + text("/n") + bytes(8), 8)
    os._exit(3)
if str(attempt) in [number for _, number in json.loads(env["FAIL"])]:
    time.sleep(1000)
"""

# Writes down the signals that it gets and ends upon the first that is not SIGCHLD.
TRAPPING = """
import os, signal, sys, time
path = os.environ["FOLDER"] + "/"
rank = os.environ["RANK"]
got = []
def note(number, frame):
    # The first one counts: a worker's child is told to end as soon as the worker has, here within
    # the handler.
    got.append(number)
    with open(path + "got." + rank, "w") as file:
        file.write(signal.Signals(got[0]).name + " ")
    sys.exit(int(os.environ.get("CODE", "0")))
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), note)
if os.fork() == 0:
    rank += ".child"
os.close(os.open(path + "ready." + rank, os.O_CREAT | os.O_WRONLY))
while True:
    # Short, because a signal that comes just before a sleep begins does not cut it short: Python
    # calls the handler after it.
    time.sleep(0.02)
"""


class Restart(torchrun_compare.CompareTest):
    def setUp(self):
        super().setUp()
        self.worker = self.script("worker.py", COUNTED)

    def starts(self, launcher):
        """{"rank.number of its start": what the worker wrote}."""
        found = {}
        for name in os.listdir(self.of(launcher)):
            if name.startswith("start."):
                with open(self.of(launcher, name)) as file:
                    found[name[len("start.") :]] = json.load(file)
        return found

    def assert_same_starts(self, *differ):
        found = {}
        for launcher in torchrun_compare.LAUNCHERS:
            found[launcher] = self.starts(launcher)
            for start in found[launcher].values():
                # Ours is absolute: a worker may change its folder.
                path = os.path.join(self.of(launcher), start["error_file"])
                start["error_file"] = self.plain(launcher, path)
                for name in ("old_key_seen", *differ):
                    start.pop(name)
        self.assertEqual(found["ddprun"], found["torchrun"])
        return sorted(found["torchrun"])

    def failing(self, *failures):
        return {"FAIL": json.dumps([[str(rank), str(attempt)] for rank, attempt in failures])}

    def test_runs_as_often_as_needed(self):
        flags = ["--nproc_per_node=2", "--max_restarts=3", "--log_dir=logs", "--rdzv_id=run"]
        self.succeed(*flags, self.worker, env=self.failing((1, 0), (0, 1)))
        self.assertEqual(
            self.assert_same_starts("MASTER_ADDR"), ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"]
        )

    def test_runs_as_often_as_allowed(self):
        flags = ["--nproc_per_node=2", "--max_restarts=1", "--exit_code=torchrun"]
        jobs = {
            launcher: self.launch(
                launcher,
                *(flag for flag in flags if launcher == "ddprun" or "exit_code" not in flag),
                self.worker,
                env=self.failing((1, 0), (1, 1), (1, 2)),
            ).wait()
            for launcher in torchrun_compare.LAUNCHERS
        }
        self.assertEqual({job.returncode for job in jobs.values()}, {1})
        self.assertEqual(self.assert_same_starts("error_file"), ["0.0", "0.1", "1.0", "1.1"])

    def test_runs_as_often_standalone(self):
        flags = ["--standalone", "--nproc_per_node=2", "--max_restarts=2"]
        self.succeed(*flags, self.worker, env=self.failing((0, 0), (1, 1)))
        self.assertEqual(
            len(self.assert_same_starts("error_file", "TORCHELASTIC_RUN_ID", "MASTER_ADDR")), 6
        )

    def test_starts_with_an_empty_store_where_torchruns_keeps_old_keys(self):
        flags = ["--standalone", "--nproc_per_node=2", "--max_restarts=1"]
        self.succeed(*flags, self.worker, env=self.failing((1, 0)))
        seen = {
            launcher: [self.starts(launcher)[f"{rank}.1"]["old_key_seen"] for rank in (0, 1)]
            for launcher in torchrun_compare.LAUNCHERS
        }
        self.assertEqual(seen, {"torchrun": [True, True], "ddprun": [False, False]})

    def test_of_two_nodes_is_counted_for_both_where_torchrun_counts_one(self):
        counts = {}
        for launcher in torchrun_compare.LAUNCHERS:
            port = harness.unused_port()
            flags = ["--nnodes=2", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}",
                     "--rdzv_id=two", "--max_restarts=2", "--local_addr=127.0.0.1", self.worker]
            jobs = [self.launch(launcher, *flags, env=self.failing((1, 0))) for _ in (0, 1)]
            for job in jobs:
                self.assertEqual(job.wait().returncode, 0, f"{launcher}: {job.err}")
            starts = self.starts(launcher)
            self.assertEqual(sorted(starts), ["0.0", "0.1", "1.0", "1.1"])
            counts[launcher] = sorted(
                starts[f"{rank}.1"]["TORCHELASTIC_RESTART_COUNT"] for rank in (0, 1)
            )
        self.assertEqual(counts, {"torchrun": ["0", "1"], "ddprun": ["1", "1"]})


class Signal(torchrun_compare.CompareTest):
    def setUp(self):
        super().setUp()
        self.worker = self.script("worker.py", TRAPPING)

    def signalled(self, launcher, number, *flags, **env):
        """The job, ended by the signal, and what each process of it received."""
        for name in os.listdir(self.of(launcher)):
            if name.startswith(("got.", "ready.")):
                os.remove(self.of(launcher, name))
        job = self.launch(launcher, "--nproc_per_node=2", *flags, self.worker, env=env)
        members = ["0", "1", "0.child", "1.child"]
        for member in members:
            path = self.of(launcher, f"ready.{member}")
            harness.wait_until(lambda: os.path.exists(path) or not job.running(), path)
        self.assertTrue(job.running(), job.err)
        job.send_signal(number)
        job.wait()

        def received():
            return {member: self.contents(launcher, f"got.{member}") for member in members}

        if launcher == "torchrun" and number != signal.SIGKILL:
            # It does not wait for its workers' children, which may still write.
            harness.wait_until(lambda: all(received().values()), lambda: str(received()))
        return job, received()

    def test_is_passed_on_to_workers_and_their_children(self):
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
            number = getattr(signal, name)
            with self.subTest(name):
                job, theirs = self.signalled("torchrun", number)
                self.assertEqual(job.returncode, 1)
                self.assertEqual(set(theirs.values()), {name + " "})
                job, ours = self.signalled("ddprun", number)
                self.assertEqual(ours, theirs)
                self.assertEqual(job.returncode, 128 + number)
        job, _ = self.signalled("ddprun", signal.SIGTERM, "--exit_code=torchrun")
        self.assertEqual(job.returncode, 1)

    def test_may_be_another_that_the_flag_names(self):
        flag = "--signals_to_handle=SIGTERM,SIGUSR2"
        job, theirs = self.signalled("torchrun", signal.SIGUSR2, flag)
        self.assertEqual(set(theirs.values()), {"SIGUSR2 "})
        self.assertEqual(job.returncode, 1)
        job, ours = self.signalled("ddprun", signal.SIGUSR2, flag)
        self.assertEqual(ours, theirs)
        self.assertEqual(job.returncode, 128 + signal.SIGUSR2)

    def test_ends_workers_though_restarts_are_left(self):
        for launcher in torchrun_compare.LAUNCHERS:
            job, got = self.signalled(launcher, signal.SIGTERM, "--max_restarts=3", CODE="5")
            self.assertNotEqual(job.returncode, 0)
            self.assertEqual(set(got.values()), {"SIGTERM "}, launcher)

    def test_sigkill_leaves_torchruns_workers_and_none_of_ours(self):
        for launcher in torchrun_compare.LAUNCHERS:
            job, got = self.signalled(launcher, signal.SIGKILL)
            self.assertEqual(job.returncode, -signal.SIGKILL)
            self.assertEqual(set(got.values()), {None})
            mark = f"FOLDER={self.of(launcher)}\0"
            if launcher == "ddprun":
                harness.wait_until(lambda: not harness.processes_with(mark), "workers to end")
            else:
                self.assertEqual(len(harness.processes_with(mark)), 4)


if __name__ == "__main__":
    harness.main()
