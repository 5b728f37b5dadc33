"""`ddprun store` as a user runs it: the server, the questions, the mistakes."""

import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
DEADLINE_S = 60


def environment(**more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("PET_", "MASTER_"))}
    return {**env, **more}


class StoreCommand(unittest.TestCase):
    def serve(self, *args, **options):
        options = {"stderr": subprocess.PIPE, **options}
        server = subprocess.Popen([DDPRUN, "store", *args], stdout=subprocess.PIPE,
                                  text=True, env=environment(), **options)
        if server.stderr is not None:
            self.addCleanup(server.stderr.close)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line)
        self.endpoint = line.split()[-1]
        self.port = int(self.endpoint.rpartition(":")[2])
        return server

    def ask(self, *args, **env):
        if not env:
            args = [*args, f"--endpoint=127.0.0.1:{self.port}"]
        return subprocess.run([DDPRUN, "store", *args], capture_output=True, text=True,
                              env=environment(**env), timeout=DEADLINE_S, check=False)

    def answer(self, *args, **env):
        done = self.ask(*args, **env)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def status_with(self, text):
        deadline = time.monotonic() + DEADLINE_S
        while text not in (status := self.answer("status")):
            self.assertLess(time.monotonic(), deadline, status)
        return status


class Unread(StoreCommand):
    def test_serves_though_nobody_reads_what_it_says(self):
        unread, full = os.pipe()
        self.addCleanup(os.close, unread)
        os.set_blocking(full, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(full, b"x" * 4096)
        os.set_blocking(full, True)
        server = self.serve("--host=127.0.0.1", "--port=0", stderr=full)
        os.close(full)
        server.send_signal(signal.SIGUSR1)
        self.assertEqual(self.answer("set", "key", "value"), "")
        self.assertEqual(self.answer("get", "key"), "value\n")


class Questions(StoreCommand):
    def setUp(self):
        self.server = self.serve("--host=127.0.0.1", "--port=0")

    def test_sets_gets_lists_and_deletes(self):
        self.assertEqual(self.answer("set", "color", "blue"), "")
        self.assertEqual(self.answer("get", "color"), "blue\n")
        self.assertEqual(self.answer("list"), "/color\n")
        self.assertEqual(self.answer("delete", "color"), "")
        self.assertEqual(self.answer("list"), "")

    def test_takes_keys_as_messages_show_them(self):
        self.answer("set", "/a//b", "1")
        self.assertEqual(self.answer("get", "a//b"), "1\n")

    def test_takes_the_store_of_a_workers_environment(self):
        self.answer("set", "k", "v")
        self.assertEqual(
            self.answer("get", "k", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port)), "v\n")

    def test_says_that_a_key_is_not_there(self):
        for verb in ("get", "delete"):
            done = self.ask(verb, "absent")
            self.assertEqual(done.returncode, 1)
            self.assertIn("NO SUCH KEY", done.stderr)
            self.assertIn('no key "absent"', done.stderr)

    def test_get_with_a_timeout_waits(self):
        waiting = subprocess.Popen(
            [DDPRUN, "store", "get", "late", "--timeout=60", f"--endpoint={self.endpoint}"],
            stdout=subprocess.PIPE, text=True, env=environment())
        self.status_with("for /late, which nobody has set")
        self.answer("set", "late", "v")
        self.assertEqual(waiting.communicate(timeout=DEADLINE_S)[0], "v\n")
        self.assertEqual(waiting.returncode, 0)

    def test_a_wait_that_ends_in_vain_names_the_key(self):
        self.answer("set", "there", "")
        self.answer("wait", "there", "--timeout=0")
        done = self.ask("wait", "there", "never", "--timeout=0.01")
        self.assertEqual(done.returncode, 1)
        self.assertIn("KEY DID NOT APPEAR", done.stderr)
        self.assertIn("never", done.stderr)

    def test_status_tells_connections_keys_and_waits(self):
        self.answer("set", "k", "v")
        waiting = subprocess.Popen([DDPRUN, "store", "wait", "a", "b", "c", "d", "e",
                                    f"--endpoint={self.endpoint}"], env=environment())
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.kill)
        status = self.status_with("waiting=1").splitlines()
        self.assertTrue(status[0].startswith("connections=2 keys=1 queued=0 waiting=1 "), status)
        self.assertRegex(status[1], r"^127\.0\.0\.1:\d+ has waited [\d.]+ s for /a, /b, /c "
                                    r"and 2 more keys, which nobody has set$")


class Server(StoreCommand):
    def test_ends_well_when_it_is_told_to(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve("--port=0")
            server.send_signal(number)
            self.assertEqual(server.wait(timeout=DEADLINE_S), 0)

    def test_prints_its_state_on_sigusr1(self):
        server = self.serve("--port=0")
        self.assertIn("--rdzv_endpoint=" + self.endpoint, server.stderr.readline())
        self.assertIn("warning: whoever reaches port", server.stderr.readline())
        server.send_signal(signal.SIGUSR1)
        self.assertTrue(server.stderr.readline().startswith("connections=0 keys=0 "))

    def test_listens_on_every_address_unless_told_one(self):
        self.serve("--port=0")
        self.answer("set", "k", "v")

    def test_says_which_port_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = self.ask("--host=127.0.0.1", f"--port={port}", UNUSED="1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("PORT TAKEN", done.stderr)
        self.assertIn("--port; 0 takes a free one", done.stderr)

    def test_raises_its_limit_of_connections(self):
        server = self.serve("--port=0")
        with open(f"/proc/{server.pid}/limits") as file:
            soft, hard = next(line for line in file if "open files" in line).split()[3:5]
        self.assertEqual(soft, hard)


class CommandLine(StoreCommand):
    def check(self, args, title, *texts):
        done = self.ask(*args, UNUSED="1")
        self.assertEqual(done.returncode, 2, done.stderr)
        for text in (title, *texts):
            self.assertIn(text, done.stderr)

    def test_help(self):
        self.assertIn("ddprun store get KEY", self.answer("--help", UNUSED="1"))

    def test_mistakes_are_named_with_what_would_work(self):
        self.check(["gett", "k"], "UNKNOWN COMMAND", 'Did you mean "get"?')
        self.check(["--prot=1"], "UNKNOWN FLAG", "Did you mean --port?")
        self.check(["--port=70000"], "BAD VALUE", "0 to 65535")
        self.check(["--port"], "BAD VALUE", "--port needs a value")
        self.check(["get"], "BAD VALUE", "expected one KEY")
        self.check(["set", "k"], "BAD VALUE", "expected KEY and VALUE")
        self.check(["get", "k", "--timeout=soon"], "BAD VALUE", "seconds, 0 or more")
        self.check(["get", "k", "--port=1"], "FLAGS CONTRADICT", "--endpoint")
        self.check(["--timeout=1"], "FLAGS CONTRADICT", "--timeout")
        self.check(["--host=127.0.0.1:5"], "BAD VALUE", "without a port")

    def test_a_program_named_store_is_started_by_its_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "store")
            with open(path, "w") as file:
                file.write("#!/bin/sh\necho the program $RANK\n")
            os.chmod(path, 0o755)
            for args in (["./store"], ["--nproc_per_node=1", "./store"]):
                done = subprocess.run([DDPRUN, *args], cwd=folder, capture_output=True, text=True,
                                      env=environment(), timeout=DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("the program 0", done.stdout)


if __name__ == "__main__":
    unittest.main()
