#!/usr/bin/env python3
"""Ten to ten thousand agents form a round, lose 1 %, and form the next one, by `ddprun store`.

The coordinator is a real one; the agents have the real rendezvous and its connections, but no
workers, and share the threads of a few processes (agents_main.cc). torch's c10d rendezvous meets
beside it, a thread for each agent, up to --torch_agents.
"""

import json
import resource
import subprocess

import harness

TORCH_LIMIT_S = 60
PEERS = harness.ROOT / "benchmarks/peers"


def raise_limit_of_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Agents:
    """The agents of a job, in processes that have room for their connections."""

    def __init__(self, options, port, nodes, count):
        processes = 1 if nodes < 1000 else 2 if nodes < 5000 else 4
        lost = max(1, nodes // 100 // processes)  # of each process
        self.left = nodes - lost * processes
        self.processes = [harness.start(
            [str(options.bin / "ddp-agents"), port, str(nodes), str(self.left),
             str(nodes // processes), str(lost), *(["count"] if count else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]

    def go(self):
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()

    def next_round(self, nodes):
        """The seconds and the messages of a round."""
        self.go()
        found = [json.loads(process.stdout.readline()) for process in self.processes]
        ranks = sorted(rank for one in found for rank in one["ranks"])
        if ranks != list(range(nodes)):
            raise SystemExit("the nodes are not in one world")
        return {"seconds": max(one["end"] for one in found) - min(one["begin"] for one in found),
                "messages": sum(one["messages"] for one in found)}

    def end(self):
        self.go()
        for process in self.processes:
            if process.wait() != 0:
                raise SystemExit("ddp-agents failed")


def ours(options, nodes, count=False):
    """A row of what one job measured."""
    with harness.Server([options.bin / "ddprun", "store", "--host=127.0.0.1", "--port=0"]) as store:
        before, used = store.resident_kib(), store.cpu_seconds()
        agents = Agents(options, store.port, nodes, count)
        row = {"formed": agents.next_round(nodes)}
        row["store_kib"] = store.resident_kib() - before
        row["again"] = agents.next_round(agents.left)
        row["store_cpu"] = store.cpu_seconds() - used
        agents.end()
    return row


def theirs(nodes):
    """The seconds of a round, or nothing if there is none within the limit."""
    python = harness.VENV / "python"
    with harness.Server([python, PEERS / "torch_store.py", "serve"]) as store:
        meeting = harness.start(
            [str(python), str(PEERS / "torch_agents.py"), store.port, str(nodes)],
            stdout=subprocess.PIPE, text=True)
        try:
            return float(meeting.communicate(timeout=TORCH_LIMIT_S)[0])
        except subprocess.TimeoutExpired:
            harness.stop(meeting)
            return None


def main():
    parser = harness.parser(__doc__.splitlines()[0], rounds=5)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 100, 1000, 3000, 10000])
    parser.add_argument("--torch_agents", type=int, default=100,
                        help="the most with torch's rendezvous; default: %(default)s")
    options = parser.parse_args()
    raise_limit_of_files()
    with_torch = harness.measures_torch(options)
    found = {}
    for nodes in options.agents:
        found[nodes] = {"ours": [], "torch": []}
        for _ in range(options.rounds):
            found[nodes]["ours"].append(ours(options, nodes))
            if with_torch and nodes <= options.torch_agents:
                found[nodes]["torch"].append(theirs(nodes))
        found[nodes]["messages"] = ours(options, nodes, count=True)
    rows = []
    for nodes, of in found.items():
        def middle(*names, of=of):
            values = []
            for row in of["ours"]:
                for name in names:
                    row = row[name]
                values.append(row)
            return harness.median(values)

        formed = middle("formed", "seconds")
        met = [seconds for seconds in of["torch"] if seconds]
        torch = harness.median(met) if len(met) == len(of["torch"]) else None
        limit = f"over {TORCH_LIMIT_S} s" if of["torch"] else "-"
        counted = of["messages"]
        rows.append([
            f"{nodes:,}", f"{formed:.3f} s", f"{torch:.3f} s" if torch else limit,
            harness.ratio(formed, torch), f"{middle('again', 'seconds'):.3f} s",
            f"{middle('store_cpu') / nodes * 1e6:.0f} us",
            f"{counted['formed']['messages'] / nodes:.1f}, "
            f"{counted['again']['messages'] / nodes:.1f}",
            f"{middle('store_kib') / nodes:.1f} KiB"])
    harness.table(["agents", "first round", "torch", "torch / ours", "1 % lost, next round",
                   "coordinator's CPU per agent, both rounds", "messages per agent, each round",
                   "coordinator's memory per agent"], rows)
    harness.write_json(options, "agents", found)


if __name__ == "__main__":
    main()
