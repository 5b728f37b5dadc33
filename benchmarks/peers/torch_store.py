"""torch's TCPStore for store.py: "serve" runs its server (libuv) until stdin ends, "trips PORT N"
measures its client and prints seconds per call.
"""

import datetime
import json
import resource
import sys
import time

from torch.distributed import TCPStore

TIMEOUT = datetime.timedelta(seconds=120)


def serve():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    store = TCPStore("127.0.0.1", 0, None, True, timeout=TIMEOUT, use_libuv=True)
    print(f"listening on 127.0.0.1:{store.port}", flush=True)
    sys.stdin.read()


def seconds_per(rounds, call):
    begin = time.perf_counter()
    for _ in range(rounds):
        call()
    return (time.perf_counter() - begin) / rounds


def trips(port, rounds):
    store = TCPStore("127.0.0.1", port, None, False, timeout=TIMEOUT)
    store.set("k", "value")
    print(json.dumps({"add": seconds_per(rounds, lambda: store.add("n", 1)),
                      "get": seconds_per(rounds, lambda: store.get("k")),
                      "set": seconds_per(rounds, lambda: store.set("k", "value"))}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        trips(int(sys.argv[2]), int(sys.argv[3]))
