"""The same random requests to our store server and to torch's own: the same bytes come back.

Usage: store_difference_test.py STORE_SERVER_MAIN [SEED]

Where ours differs on purpose, the requests are not sent (tests/rendezvous/store says what ours do):
- a WAIT while another one is open on the connection: ours closes it, torch loses one of them;
- a WAIT for queues and other keys together, or for a key twice: torch may never wake it;
- a COMPARE_SET that stores nothing, for a key that is waited for: torch wakes the waiter;
- another WAIT of a connection that has waited for a queue: torch goes on to wake it by that queue;
- BARRIER: torch 2.11 has none. VALIDATE in two segments: torch closes the connection.
The order of LIST_KEYS is nobody's promise, so lists are compared sorted.
"""

import datetime
import random
import socket
import struct
import subprocess
import sys
import unittest

from torch.distributed import TCPStore

SERVER = None  # path of our server program, from the command line
SEED = None
ROUNDS = 60
REQUESTS_PER_ROUND = 40
CONNECTIONS = 3
DEADLINE_S = 30

PLAIN = [b"/a", b"/b", b"n"]       # set, added to, compared
AWAITED = [b"/w0", b"/w1", b"/w2"]  # waited for; not compared
QUEUES = [b"/q0", b"/q1"]
VALUES = [b"", b"0", b"-7", b" 12abc", b"no number", b"9223372036854775807", b"x" * 3000]


def text(value):
    return struct.pack("<Q", len(value)) + value


def texts(values):
    return struct.pack("<Q", len(values)) + b"".join(map(text, values))


class Client:
    """One connection; every exchange ends with a ping, whose answer shows where the rest ends."""

    nonces = 0

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"\x00" + struct.pack("<I", 0x3C85F7CE))

    def exchange(self, request, nonce):
        """Sends the request and returns the reply; None if the server closed the connection."""
        mark = struct.pack("<I", nonce)
        received = b""
        try:
            self.socket.sendall(request + b"\x0d" + mark)
            while not received.endswith(mark):
                part = self.socket.recv(1 << 16)
                if not part:
                    return None
                received += part
        except ConnectionError:
            return None
        return received[:-4]

    def close(self):
        self.socket.close()


class Requests:
    """Draws requests that both servers answer alike."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, *choices):
        return self.rng.choice([key for keys in choices for key in keys])

    def some(self, keys):
        return self.rng.sample(keys, self.rng.randint(0, len(keys)))

    def draw(self, may_wait):
        rng = self.rng
        value = rng.choice(VALUES)
        number = struct.pack("<q", rng.choice([0, 1, -5, 2**63 - 1]))
        makers = [
            lambda: b"\x01" + text(self.pick(PLAIN, AWAITED)) + text(value),
            lambda: b"\x02" + text(self.pick(PLAIN)) + text(rng.choice(VALUES)) + text(value),
            lambda: b"\x03" + text(self.pick(PLAIN, AWAITED, QUEUES)),
            lambda: b"\x04" + text(self.pick(PLAIN, AWAITED)) + number,
            lambda: b"\x05" + texts(self.some(PLAIN + AWAITED + QUEUES)),
            lambda: b"\x07",
            lambda: b"\x08" + text(self.pick(PLAIN, AWAITED, QUEUES)),
            lambda: b"\x09" + text(self.pick(PLAIN, AWAITED)) + text(value),
            lambda: b"\x0a" + texts([self.pick(PLAIN) for _ in range(rng.randint(0, 3))]),
            lambda: b"\x0b" + self.pairs(),
            lambda: b"\x0c",
            lambda: b"\x0e" + text(self.pick(QUEUES)) + text(value),
            lambda: b"\x0f" + text(self.pick(QUEUES)),
            lambda: b"\x10" + text(self.pick(QUEUES)),
            lambda: b"\x11",
        ]
        waits = [
            lambda: b"\x06" + texts(self.some(AWAITED)),
            lambda: b"\x06" + texts([self.pick(QUEUES)]),
        ] if may_wait else []
        return rng.choice(makers + 3 * waits)()

    def pairs(self):
        keys = self.some(PLAIN + AWAITED)
        return struct.pack("<Q", len(keys)) + b"".join(
            text(key) + text(self.rng.choice(VALUES)) for key in keys)


def comparable(request, answer):
    if answer is None or not request.startswith(b"\x11"):
        return answer
    keys, position = [], 8
    while position < len(answer):
        size = struct.unpack_from("<Q", answer, position)[0]
        keys.append(answer[position + 8:position + 8 + size])
        position += 8 + size
    return answer[:8], sorted(keys)


class Difference(unittest.TestCase):
    def setUp(self):
        self.ours = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     text=True)
        self.addCleanup(self.end_ours)
        self.our_port = int(self.ours.stdout.readline())

    def end_ours(self):
        self.ours.stdin.close()
        self.ours.wait(timeout=DEADLINE_S)
        self.ours.stdout.close()

    def connect(self):
        return [Client(self.our_port), Client(self.theirs.port)]

    def on_both(self, connection, request, nonce):
        ours, theirs = [side.exchange(request, nonce) for side in connection]
        self.assertEqual(comparable(request, ours), comparable(request, theirs),
                         f"{request!r}; seed {SEED}, after {self.history[-8:]}")
        return ours

    def clear(self, connection):
        for key in PLAIN + AWAITED:
            self.on_both(connection, b"\x08" + text(key), 1)
        for queue in QUEUES:
            while struct.unpack("<q", self.on_both(connection, b"\x0f" + text(queue), 1)[:8])[0]:
                continue

    def run_round(self, requests):
        connections = [self.connect() for _ in range(CONNECTIONS)]
        waiting = [False] * CONNECTIONS
        awaited_queue = [False] * CONNECTIONS
        self.clear(connections[0])
        for _ in range(REQUESTS_PER_ROUND):
            index = requests.rng.randrange(CONNECTIONS)
            request = requests.draw(not waiting[index] and not awaited_queue[index])
            if request.startswith(b"\x06") and b"/q" in request:
                awaited_queue[index] = True
            self.nonce += 1
            self.history.append((index, request))
            answer = self.on_both(connections[index], request, self.nonce)
            if answer is None:
                for side in connections[index]:
                    side.close()
                connections[index] = self.connect()
                waiting[index] = awaited_queue[index] = False
            elif request.startswith(b"\x06"):
                waiting[index] = answer == b""
            elif request == b"\x0c":
                waiting[index] = False
            # Only now, after the answer to the request, is it known which clients it has woken.
            for other in range(CONNECTIONS):
                self.nonce += 1
                if self.on_both(connections[other], b"", self.nonce) == b"\x00":
                    waiting[other] = False
        for connection in connections:
            for side in connection:
                side.close()

    def test_random_requests(self):
        self.theirs = TCPStore("127.0.0.1", 0, None, True, use_libuv=True,
                               timeout=datetime.timedelta(seconds=DEADLINE_S))
        self.history = []  # of (connection, request)
        self.nonce = 0x51000000  # whose bytes begin no answer
        requests = Requests(random.Random(SEED))
        for _ in range(ROUNDS):
            self.run_round(requests)


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    SEED = int(sys.argv.pop(1)) if len(sys.argv) > 1 else random.randrange(2**32)
    unittest.main()
