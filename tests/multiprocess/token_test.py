"""The token of a job: who agrees about it, and that it is nowhere to be found."""

import os
import re
import shutil
import socket
import struct
import unittest

import harness

TOKEN = "00112233445566778899aabbccddeeff" * 2
OTHER = "ff" * 32
WAITS = 'touch "$FOLDER/started-$RANK"; exec sleep 1000'


def regions_with(pid, secrets):
    """[(secret, flags)] of the memory of a process that holds a secret, by the kernel's VmFlags."""
    found = []
    with open(f"/proc/{pid}/smaps") as file:
        text = file.read()
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for entry in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", text)[1:]:
            begin, end = (int(part, 16) for part in entry.split()[0].split("-"))
            flags = re.search(r"VmFlags: (.*)", entry)[1].split()
            if "rd" not in flags or begin >= 1 << 63:
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, ValueError):  # pages of the kernel
                continue
            found += [(secret, flags) for secret in secrets if secret in content]
    return found


class TokenTest(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.file = self.script("token", TOKEN + "\n")
        os.chmod(self.file, 0o600)
        self.port = harness.unused_port()

    def start_node(self, rank, backend, *target, token, flags=()):
        return self.start(
            "--nnodes=2", f"--node_rank={rank}", f"--rdzv_backend={backend}",
            f"--rdzv_endpoint=127.0.0.1:{self.port}", *flags, *target, env=token)

    def test_nodes_with_the_same_token_meet(self):
        for backend in ("static", "c10d"):
            with self.subTest(backend=backend):
                tokens = ({"DDPRUN_TOKEN_FILE": self.file}, {"DDPRUN_TOKEN": TOKEN.upper()})
                nodes = [self.start_node(rank, backend, "env", token=tokens[rank])
                         for rank in (0, 1)]
                for node in nodes:
                    self.finish(node)
                    self.assertEqual(node.returncode, 0, node.err)
                    self.assertNotIn("DDPRUN_TOKEN", node.out)
                    self.assertNotIn("refused", node.err)
        self.assert_nothing_left()

    def test_nodes_that_disagree_are_refused_and_the_host_says_whom(self):
        cases = [
            ({"DDPRUN_TOKEN": TOKEN}, {"DDPRUN_TOKEN": OTHER}, "ANOTHER TOKEN",
             "it has another token"),
            ({}, {"DDPRUN_TOKEN": TOKEN}, "NO TOKEN THERE",
             "it has a token, and this node has none"),
            ({"DDPRUN_TOKEN": TOKEN}, {}, 'it says "this port wants a token',
             "it came without a token"),
        ]
        for backend in ("static", "c10d"):
            for host, node, error, line in cases:
                if backend == "static" and not node:
                    continue  # a process of this machine, as a worker would be
                with self.subTest(backend=backend, error=error):
                    self.port = harness.unused_port()
                    # With c10d, the node that comes first would be the host.
                    conf = ["--rdzv_conf=is_host=1"], ["--rdzv_conf=is_host=0"]
                    nodes = [self.start_node(rank, backend, "true", token=(host, node)[rank],
                                             flags=conf[rank] if backend == "c10d" else ())
                             for rank in (0, 1)]
                    self.finish(nodes[1])
                    self.assertEqual(nodes[1].returncode, 3, nodes[1].err)
                    self.assertIn(error, nodes[1].err)
                    nodes[0].terminate()
                    self.finish(nodes[0])
                    self.assertIn(line, nodes[0].err)
        self.assert_nothing_left()

    def test_a_bad_token_starts_nothing(self):
        loose = self.script("loose", TOKEN)
        os.chmod(loose, 0o644)
        cases = [({"DDPRUN_TOKEN_FILE": loose}, "Other users can read or replace the token"),
                 ({"DDPRUN_TOKEN_FILE": "gone"}, "No such file"),
                 ({"DDPRUN_TOKEN": "hunter2"}, "64 hexadecimal digits")]
        for env, text in cases:
            for command in (["--nnodes=2", f"--master_port={self.port}", "touch", "ran"],
                            ["store", f"--port={self.port}"]):
                done = self.run_ddprun(*command, env=env)
                self.assertEqual(done.returncode, 2, done.err)
                self.assertIn("BAD TOKEN", done.err)
                self.assertIn(text, done.err)
                self.assertNotIn("hunter2", done.err)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_the_token_is_nowhere_to_be_found(self):
        flags = ("--report_file=report.json", "--log_dir=logs", "--redirects=3",
                 "--log_level=debug")
        nodes = [self.start_node(0, "c10d", "sh", "-c", WAITS,
                                 token={"DDPRUN_TOKEN_FILE": self.file}, flags=flags),
                 self.start_node(1, "c10d", "sh", "-c", WAITS, token={"DDPRUN_TOKEN": TOKEN})]
        for rank in (0, 1):
            self.wait_for_file(f"started-{rank}")
        secrets = [TOKEN.encode(), bytes.fromhex(TOKEN)]
        for pid in harness.processes_with(self.mark):
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    self.assertNotIn(TOKEN.encode(), file.read(), (pid, name))
        # A core has all memory but what is marked "dd" (MADV_DONTDUMP).
        held = regions_with(nodes[0].pid, secrets)
        self.assertTrue(held)
        for secret, region in held:
            self.assertIn("dd", region, secret)
        nodes[1].send_signal(9)
        for node in nodes:
            self.finish(node)
        texts = [text for node in nodes for text in (node.out, node.err)]
        os.unlink(self.file)
        for folder, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(folder, name), errors="replace") as file:
                    texts.append(file.read())
        self.assertGreater(len(texts), 5)
        for text in texts:
            self.assertNotIn(TOKEN, text)

    def test_a_store_of_its_own_keeps_strangers_out_too(self):
        store = self.start("store", "--host=127.0.0.1", f"--port={self.port}",
                           env={"DDPRUN_TOKEN_FILE": self.file})
        self.addCleanup(store.kill)
        self.assertIn("listening", store.stdout.readline())
        flags = ("--rdzv_conf=is_host=0,join_timeout=30",)
        without = self.finish(self.start_node(0, "c10d", "true", token={}, flags=flags))
        self.assertEqual(without.returncode, 3, without.err)
        self.assertIn("this port wants a token", without.err)
        nodes = [self.start_node(rank, "c10d", "true", token={"DDPRUN_TOKEN": TOKEN}, flags=flags)
                 for rank in (0, 1)]
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 0, node.err)
        store.terminate()
        self.finish(store)
        self.assertIn("it came without a token", store.err)

    @unittest.skipIf(os.geteuid() != 0, "only root can become other users")
    def test_other_users_of_the_machine_do_not_get_in_without_a_token(self):
        user, other = 12345, 12346
        program = shutil.copy(harness.DDPRUN, self.folder)
        for path in (self.folder, self.tmp):
            os.chown(path, user, user)
        show = 'echo "$MASTER_PORT"; exec sleep 1000'
        job = self.start("sh", "-c", show, executable=program,
                         preexec_fn=lambda: os.setresuid(user, user, user))
        port = int(job.stdout.readline())

        def ask(as_user):
            """What a torch client of that user hears: VALIDATE and PING are sent."""
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:  # no exec: the user may have no right to read this Python
                try:
                    os.setresuid(as_user, as_user, as_user)
                    with socket.socket() as client:
                        client.connect(("127.0.0.1", port))
                        client.sendall(struct.pack("=BIBI", 0, 0x3C85F7CE, 0x0D, 4711))
                        os.write(writer, client.recv(64))
                finally:
                    os._exit(0)
            os.close(writer)
            with open(reader, "rb") as file:
                heard = file.read()
            os.waitpid(child, 0)
            return heard
        answer = struct.pack("=I", 4711)
        self.assertEqual([ask(user), ask(0)], [answer, answer])
        self.assertEqual(ask(other), b"this port is of another user's job\n")
        job.terminate()
        self.finish(job)
        self.assertRegex(job.err, r"refused 127.0.0.1:\d+: it is of another user of this machine")

    def test_a_token_is_made_by_a_command(self):
        first, second = (self.run_ddprun("token") for _ in range(2))
        self.assertRegex(first.out, r"^[0-9a-f]{64}\n$")
        self.assertNotEqual(first.out, second.out)
        self.assertIn("DDPRUN_TOKEN_FILE", self.run_ddprun("token", "--help").out)


if __name__ == "__main__":
    harness.main()
