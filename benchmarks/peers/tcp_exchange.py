"""What a link gives: two processes send each other BYTES at once over one TCP connection, which is
what an all-reduce of BYTES between two hosts has to move.

    tcp_exchange.py PORT BYTES...          listens; prints one JSON line per size
    tcp_exchange.py HOST:PORT BYTES...     connects
"""

import json
import socket
import statistics
import sys
import threading
import time

WARM_UP, ROUNDS = 3, 11


def connect(place):
    host, _, port = place.rpartition(":")
    if not host:
        with socket.create_server(("0.0.0.0", int(port))) as server:
            return server.accept()[0]
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def receive(link, buffer):
    rest = memoryview(buffer)
    while rest:
        count = link.recv_into(rest)
        if count == 0:
            sys.exit("tcp_exchange.py: the other side has gone")
        rest = rest[count:]


def once(link, data, buffer):
    begin = time.perf_counter()
    receiver = threading.Thread(target=receive, args=(link, buffer))
    receiver.start()
    link.sendall(data)
    receiver.join()
    return time.perf_counter() - begin


def main():
    link = connect(sys.argv[1])
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for size in map(int, sys.argv[2:]):
        data, buffer = bytes(size), bytearray(size)
        for _ in range(WARM_UP):
            once(link, data, buffer)
        times = [once(link, data, buffer) for _ in range(ROUNDS)]
        if ":" not in sys.argv[1]:
            print(json.dumps({"bytes": size, "seconds_median": statistics.median(times)}),
                  flush=True)


if __name__ == "__main__":
    main()
