"""torch's c10d rendezvous for agents.py: NODES handlers, a thread each, meet in one round at the
TCPStore of PORT. Prints the seconds.

Usage: torch_agents.py PORT NODES
"""

import resource
import sys
import threading
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

TIMEOUT_S = 600


def raise_limit_of_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
    meet(sys.argv[1], int(sys.argv[2]))
