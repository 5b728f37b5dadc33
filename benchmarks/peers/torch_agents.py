"""torch's c10d rendezvous for agents.py: "serve" runs a TCPStore until stdin ends; "meet PORT
NODES" has NODES handlers, a thread each, in one round, and prints the seconds."""

import datetime
import resource
import sys
import threading
import time

from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

TIMEOUT_S = 600


def raise_limit_of_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def serve():
    timeout = datetime.timedelta(seconds=TIMEOUT_S)
    store = TCPStore("127.0.0.1", 0, None, True, timeout=timeout, wait_for_workers=False)
    print(f"listening on 127.0.0.1:{store.port}", flush=True)
    sys.stdin.read()


def meet(port, nodes):
    worlds, errors = [], []

    def join():
        try:
            parameters = RendezvousParameters(
                backend="c10d", endpoint=f"127.0.0.1:{port}", run_id="agents", min_nodes=nodes,
                max_nodes=nodes, local_addr="127.0.0.1", is_host="false", timeout=TIMEOUT_S,
                join_timeout=TIMEOUT_S)
            backend, store = create_backend(parameters)
            info = create_handler(store, backend, parameters).next_rendezvous()
            worlds.append((info.rank, info.world_size))
        except Exception as error:  # pylint: disable=broad-except
            errors.append(repr(error))

    threads = [threading.Thread(target=join, daemon=True) for _ in range(nodes)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if errors or sorted(worlds) != [(rank, nodes) for rank in range(nodes)]:
        sys.exit(f"the nodes are not in one world: {errors[:3]} {sorted(worlds)[:5]}")
    print(seconds, flush=True)


if __name__ == "__main__":
    raise_limit_of_files()
    if sys.argv[1] == "serve":
        serve()
    else:
        meet(sys.argv[2], int(sys.argv[3]))
