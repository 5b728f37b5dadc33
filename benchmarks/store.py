#!/usr/bin/env python3
"""The store: round trips, and many clients at once, against torch's TCPStore server (libuv).

Round trips of torch's own client (Python) and of ours (C++) against both servers; then CLIENTS
connections join, pass a barrier and leave, the server's memory read while all are there. Servers
take turns.

All of it runs in a network namespace of its own, which has no name server: torch's server asks for
the names of its clients, and stands still for 5 s at a time where the name server is silent.
"""

import json
import os
import pathlib
import subprocess
import sys

import harness

TORCH_STORE = pathlib.Path(__file__).with_name("peers") / "torch_store.py"
CALLS = ["add", "get", "set"]


def servers(options):
    return harness.sides(options, {
        "ddprun": [options.bin / "ddprun", "store", "--port=0"],
        "torch": [harness.VENV / "python", TORCH_STORE, "serve"],
    })


def clients(options):
    return {"torch's client": [harness.VENV / "python", TORCH_STORE, "trips"],
            "our client": [options.bin / "ddp-store-load", "trips"]}


def round_trips(options):
    seconds = {}
    for _ in range(options.rounds):
        for client, argv in clients(options).items():
            for server, serve in servers(options).items():
                with harness.Server(serve) as running:
                    answer = json.loads(harness.output([*map(str, argv), running.port, "5000"]))
                for call in CALLS:
                    seconds.setdefault((client, call), {}).setdefault(server, []).append(
                        answer[call])
    return seconds


def barrier(options, serve):
    """(seconds, KiB more per server) of one join of all clients."""
    with harness.Server(serve) as running:
        before = running.resident_kib()
        load = harness.start(
            [str(options.bin / "ddp-store-load"), "barrier", running.port, str(options.clients)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        seconds = float(load.stdout.readline())
        load.stdout.readline()
        more = running.resident_kib() - before
        load.communicate("\n")
        if load.returncode != 0:
            raise SystemExit("ddp-store-load failed")
    return seconds, more


def enter_own_network():
    if "STORE_BENCHMARK_NETWORK" in os.environ:
        return
    os.environ["STORE_BENCHMARK_NETWORK"] = "own"
    run = 'ip link set lo up && exec "$@"'
    os.execvp("unshare", ["unshare", "--map-root-user", "--net", "sh", "-c", run, "sh",
                          sys.executable, *sys.argv])


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--clients", type=int, default=10000)
    options = parser.parse_args()
    enter_own_network()

    trips = round_trips(options)
    rows = []
    for (client, call), of in trips.items():
        ours, theirs = [harness.median(of.get(name)) for name in ("ddprun", "torch")]
        rows.append([f"{call}, {client}", f"{ours * 1e6:.1f} us", f"{theirs * 1e6:.1f} us",
                     harness.ratio(ours, theirs)])
    harness.table(["round trip", "our server", "torch's server", "torch / ours"], rows)

    print()
    joins = {name: [] for name in servers(options)}
    for _ in range(options.rounds):
        for name, serve in servers(options).items():
            joins[name].append(barrier(options, serve))
    ours, theirs = [[harness.median(column) for column in zip(*joins[name])]
                    for name in ("ddprun", "torch")]
    harness.table([f"{options.clients} clients", "our server", "torch's server", "torch / ours"], [
        ["join and pass a barrier", f"{ours[0]:.3f} s", f"{theirs[0]:.3f} s",
         harness.ratio(ours[0], theirs[0])],
        ["memory per client", f"{ours[1] * 1024 / options.clients:.0f} bytes",
         f"{theirs[1] * 1024 / options.clients:.0f} bytes", harness.ratio(ours[1], theirs[1])],
    ])
    harness.write_json(options, "store", {
        "round_trips_s": {f"{client}, {call}": of for (client, call), of in trips.items()},
        "barrier_s_and_kib": joins})


if __name__ == "__main__":
    main()
