"""A job with a token on two hosts, and a third host that wants to get in."""

import ast
import os
import resource
import subprocess
import sys

import harness
import hosts_test_case

# Speaks to the store as torch's client does, which knows no token: VALIDATE and PING.
ASK_STORE = """
import os, socket, struct, sys, time
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
def ask():
    with socket.create_connection(place, timeout=20) as store:
        store.sendall(struct.pack("=BI", 0, 0x3C85F7CE) + struct.pack("=BI", 0x0D, 4711))
        return store.recv(4)
assert ask() == struct.pack("=I", 4711)
"""
WORKER = ASK_STORE + """
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
print("master", *place, flush=True)
while not os.path.exists(os.environ["FOLDER"] + "/go"):
    time.sleep(0.01)
if first and os.environ["RANK"] == "1":
    sys.exit(7)
assert ask() == struct.pack("=I", 4711)
tokens = [name for name in os.environ if name.startswith("DDPRUN_TOKEN")]
print("rank", os.environ["RANK"], "has a store", tokens, flush=True)
time.sleep(1000 if first else 0)
"""
# What a stranger sends, each over a connection of its own; prints what comes back.
STRANGER = """
import json, os, socket, struct, sys
place = (sys.argv[1], int(sys.argv[2]))
def message(**fields):
    text = json.dumps(fields).encode()
    return struct.pack(">I", len(text)) + text
hello = message(type="hello", run_id="none", min_nodes=2, max_nodes=2, max_restarts=1, pid=1,
                host="stranger", local_world_size=1, role="default")
validate = struct.pack("=BI", 0, 0x3C85F7CE)
key = b"/stranger"
attempts = {
    "store": validate + struct.pack("=BQ", 1, len(key)) + key + struct.pack("=Q", 1) + b"x",
    "join": b"ddprun\\n" + hello + message(type="join"),
    "end": b"ddprun\\n" + hello + message(type="end", attempt=0, kind="failed", message="mine"),
    "junk": b"GET / HTTP/1.1\\r\\n\\r\\n" + os.urandom(3000),
    "long": b"DDPRUN" + os.urandom(100000),
    "reflected": b"DDPRUN\\x01" + bytes(32),
}
for name, sent in attempts.items():
    with socket.create_connection(place, timeout=20) as connection:
        try:
            connection.sendall(sent)
            heard = connection.recv(65)
        except ConnectionError:  # closed with bytes unread
            heard = b""
        if name == "reflected":  # shows the server its own MAC
            connection.sendall(b"P" + heard[33:])
            heard = connection.recv(65)
        print(name, heard, flush=True)
# Connections that say nothing, or begin and do not go on, are held for as long as this runs.
held = [socket.create_connection(place, timeout=20) for _ in range(300)]
for connection in held[150:]:
    connection.sendall(b"DDPRUN\\x01")
print("holds", flush=True)
sys.stdin.read()
"""
# Wants all of the port's room: opens each of its connections again as soon as it is closed.
FLOOD = """
import selectors, socket, sys
place = (sys.argv[1], int(sys.argv[2]))
selector = selectors.DefaultSelector()
def open_one():
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(place)
    selector.register(connection, selectors.EVENT_READ)
for _ in range(400):
    open_one()
closed = 0
while True:
    for key, _ in selector.select():
        selector.unregister(key.fileobj)
        key.fileobj.close()
        open_one()
        closed += 1
        if closed == 400:
            print("floods", flush=True)
"""
FLOODED = ASK_STORE + """
print("master", *place, flush=True)
while not os.path.exists(os.environ["FOLDER"] + "/go"):
    time.sleep(0.01)
for _ in range(20):
    assert ask() == struct.pack("=I", 4711)
"""
REFUSAL = b"this port wants a token: set DDPRUN_TOKEN_FILE\n"


class ThreeHosts(hosts_test_case.HostsTest):
    HOSTS = 3

    def setUp(self):
        super().setUp()
        done = subprocess.run([harness.DDPRUN, "token"], capture_output=True, check=True)
        self.token_file = os.path.join(self.folder, "token")
        with open(self.token_file, "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(done.stdout)
        self.with_token = {"DDPRUN_TOKEN_FILE": self.token_file}

    def flags(self, backend, i):
        flags = self.static(i) if backend == "static" else self.c10d()
        return ["--nnodes=2" if flag.startswith("--nnodes") else flag for flag in flags]

    def line_of(self, node):
        line = node.stdout.readline()
        self.assertIn("master", line)
        return line.split()[1:]

    def attack(self, place):
        stranger = self.start_on(
            self.hosts[2], self.script("stranger.py", STRANGER), *place, program=sys.executable,
            stdin=subprocess.PIPE)
        self.addCleanup(stranger.stdin.close)
        heard = {}
        while (line := stranger.stdout.readline().strip()) != "holds":
            self.assertTrue(line, stranger.poll())
            name, _, text = line.partition(" ")
            heard[name] = ast.literal_eval(text)
        return stranger, heard

    def run_attacked(self, backend):
        nodes = [
            self.start_on(self.hosts[i], *self.flags(backend, i), "--max_restarts=1",
                          self.script("worker.py", WORKER), env=self.with_token)
            for i in range(2)
        ]
        place = [self.line_of(node) for node in nodes][0]
        meeting = ["host0", "29500"]
        strangers = []
        for port in {tuple(place), tuple(meeting)}:
            stranger, heard = self.attack(port)
            strangers.append(stranger)
            self.assertEqual(heard.pop("reflected"), b"R\x02\x01")
            self.assertIn(heard.pop("long"), (b"", b"R\x03\x01"))
            self.assertEqual(set(heard.values()), {REFUSAL}, heard)
        # Agents of others: with no token, and with another one.
        for env in ({}, {"DDPRUN_TOKEN": "ab" * 32}):
            other = self.start_on(self.hosts[2], *self.flags(backend, 1), "true", env=env)
            self.finish(other)
            self.assertEqual(other.returncode, 3, other.err)
            self.assertIn("ANOTHER TOKEN" if env else "this port wants a token", other.err)
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        self.finish_all(nodes)
        os.unlink(os.path.join(self.folder, "go"))
        out = "".join(node.out for node in nodes)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} has a store []", out)
        err = "".join(node.err for node in nodes)
        for why in ("came without a token", "has another token", "is no ddprun"):
            self.assertIn(why, err)
            self.assertLessEqual(err.count(why), 2)  # once at each port
        for stranger in strangers:
            stranger.stdin.close()
            stranger.wait()

    def test_a_stranger_does_not_get_into_a_static_job(self):
        self.run_attacked("static")
        self.assert_nothing_left()

    def test_a_stranger_does_not_get_into_a_c10d_job(self):
        self.run_attacked("c10d")
        self.assert_nothing_left()

    def test_a_flood_of_connections_leaves_room_for_the_job(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        nodes = [
            self.start_on(self.hosts[i], *self.flags("static", i), self.script("w.py", FLOODED),
                          env=self.with_token, preexec_fn=few_files)
            for i in range(2)
        ]
        place = [self.line_of(node) for node in nodes][0]
        flood = self.start_on(self.hosts[2], self.script("flood.py", FLOOD), *place,
                              program=sys.executable)
        self.addCleanup(flood.wait)
        self.addCleanup(flood.kill)
        self.assertEqual(flood.stdout.readline(), "floods\n")
        with open(os.path.join(self.folder, "go"), "w"):
            pass
        self.finish_all(nodes)

    def test_a_job_without_a_token_says_what_would_keep_strangers_out(self):
        nodes = [self.start_on(self.hosts[i], *self.flags("static", i), "true") for i in range(2)]
        self.finish_all(nodes)
        self.assertIn("only the network protects them, or a token (ddprun token)", nodes[0].err)


if __name__ == "__main__":
    hosts_test_case.main()
