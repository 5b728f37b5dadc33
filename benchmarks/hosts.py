#!/usr/bin/env python3
"""All-reduce and training steps over a network: ddprun against Gloo and MPI, on virtual hosts.

The hosts are namespaces of this machine, their cables are as slow as --mbit says (tests/hosts). The
sides take turns; medians are shown. "line" is the share of the link's rate that an all-reduce uses,
if each of N hosts sends, and is sent, 2 (N - 1) / N of the tensor, the least that any algorithm
needs. "TCP alone" is what two processes get that only exchange as many bytes over one connection.
"""

import functools
import itertools
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

import allreduce
import ddp
import harness
import plots
import published

sys.path.insert(0, str(harness.ROOT / "tests/hosts"))
import virtual_hosts  # noqa: E402

SIZES = {"4 KB": 4 << 10, "1 MB": 1 << 20, "25 MB": 25 << 20}
PORT = "29400"
STEPS = ["--rounds", "3", "--steps", "3"]
DEADLINE_S = 300


class Job:
    """Processes on the hosts that end together."""

    def __init__(self, hosts, commands):
        """commands: one argv per host. Waits for all; ends the benchmark if any fails."""
        env = {**harness.environment(), "OMP_NUM_THREADS": "1"}
        started = [host.start(*argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) for host, argv in zip(hosts, commands)]
        results = [process.communicate(timeout=DEADLINE_S) for process in started]
        for process, argv, (_, errors) in zip(started, commands, results):
            if process.returncode != 0:
                sys.exit(f"{' '.join(map(str, argv))} failed ({process.returncode}):\n"
                         f"{errors[-3000:]}")
        self.out = "".join(out for out, _ in results)

    def lines(self):
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


class Bench:
    """The measurements on the hosts of one link."""

    def __init__(self, options, hosts, folder):
        self.options = options
        self.hosts = hosts
        self.folder = pathlib.Path(folder)

    def per_host(self, program, ranks, *target):
        """ddprun's and torchrun's flags are the same."""
        return [[program, f"--nnodes={len(self.hosts)}", f"--node_rank={i}",
                 f"--nproc_per_node={ranks}", f"--master_addr={self.hosts[0].address}",
                 f"--master_port={PORT}", *target] for i in range(len(self.hosts))]

    def ddprun(self, ranks, program, *words):
        target = ["--no_python", self.options.bin / program, *words]
        return Job(self.hosts, self.per_host(self.options.bin / "ddprun", ranks, *target))

    def torchrun(self, ranks, script, *words):
        target = [harness.ROOT / "benchmarks/peers" / script, *words]
        return Job(self.hosts, self.per_host(harness.VENV / "torchrun", ranks, *target))

    def tcp(self, *words):
        script = harness.ROOT / "benchmarks/peers/tcp_exchange.py"
        place = f"{self.hosts[0].address}:{PORT}"
        return Job(self.hosts[:2], [[sys.executable, script, PORT, *words],
                                    [sys.executable, script, place, *words]])

    def rsh(self):
        """The program that mpirun takes for rsh. It shares all but network and name with this
        process, so that it can enter the other hosts."""
        agent = self.folder / "rsh"
        places = [f'{host.address}) exec {shlex.join(self.on(host))} sh -c "$*" ;;'
                  for host in self.hosts]
        agent.write_text('#!/bin/sh\nhost=$1; shift\ncase "$host" in\n' + "\n".join(places)
                         + "\nesac\n")
        agent.chmod(0o755)
        return str(agent)

    def slots(self, ranks):
        return ",".join(f"{host.address}:{ranks}" for host in self.hosts)

    def openmpi(self, ranks, program, *words):
        # Not bound to cores: every host would take the first ones, which are the same.
        mpirun = [word for word in harness.mpirun(ranks * len(self.hosts))
                  if word != "--oversubscribe"] + ["--bind-to", "none"]
        flags = ["--mca", "plm_rsh_agent", self.rsh(), "--host", self.slots(ranks),
                 "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
        return self.on_first([*mpirun, *flags, program, *words])

    def mpich(self, ranks, program, *words):
        """Between hosts by TCP: UCX would find that they share this machine's memory."""
        ucx = ["env", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=eth0"]
        flags = ["-launcher", "rsh", "-launcher-exec", self.rsh(), "-iface", "eth0",
                 "-hosts", self.slots(ranks)]
        mpirun = harness.mpich(ranks * len(self.hosts))
        return self.on_first([*ucx, *mpirun, *flags, program, *words])

    def on_first(self, argv):
        """Returns the JSON lines of a program that the first host starts on all."""
        text = harness.output([str(word) for word in [*self.on(self.hosts[0]), *argv]])
        return [json.loads(line) for line in text.splitlines()]

    @staticmethod
    def on(host):
        return host.argv(apart=("net", "uts"))


def all_reduce_sides(bench, ranks):
    @functools.cache
    def program(compiler):
        return allreduce.compile_mpi_side(compiler, bench.folder)
    sizes = [str(size) for size in SIZES.values()]
    sides = {
        "ddprun": lambda: bench.ddprun(ranks, "ddp-allreduce", *sizes).lines(),
        "hierarchical": lambda: bench.ddprun(ranks, "ddp-allreduce", "--hierarchical",
                                             *sizes).lines(),
        "Gloo": lambda: bench.torchrun(ranks, "gloo_allreduce.py", *sizes).lines(),
        "OpenMPI": lambda: bench.openmpi(ranks, program("mpicxx.openmpi"), *sizes),
        "MPICH": lambda: bench.mpich(ranks, program("mpicxx.mpich"), *sizes),
        "TCP alone": lambda: bench.tcp(*sizes).lines(),
    }
    if ranks == 1 or len(bench.hosts) == 2:
        del sides["hierarchical"]  # it is ddprun's default there
    return {name: side for name, side in sides.items()
            if not bench.options.only or name in bench.options.only}


def measure_all_reduce(bench, mbit, ranks):
    sides = all_reduce_sides(bench, ranks)
    seconds = {}
    for _ in range(bench.options.rounds):
        for name, side in sides.items():
            for result in side():
                seconds.setdefault((name, result["bytes"]), []).append(result["seconds_median"])
    return [{"mbit": mbit, "hosts": len(bench.hosts), "ranks_per_host": ranks, "side": name,
             "bytes": size, "seconds": harness.median(values), "seconds_all": values}
            for (name, size), values in seconds.items()]


def measure_steps(bench, mbit):
    """ddp-bench's overlap modes, and PyTorch's DistributedDataParallel over Gloo."""
    result_file = bench.folder / "steps.json"
    bench.ddprun(1, "ddp-bench", "--json", str(result_file), "overlap", *ddp.GPT, *STEPS,
                 "--bucket_mb", "2")
    own = {**json.loads(result_file.read_text()), "mbit": mbit}
    torch = bench.torchrun(1, "ddp_step.py", *ddp.GPT, *STEPS, "--buckets_mb", "2").lines()[0]
    return own, torch


def gbit(mbit):
    return f"{mbit / 1000:g} Gbit/s"


def line_share(row):
    """Of what a link carries, with the least that each host has to send."""
    least = 2 * (row["hosts"] - 1) / row["hosts"] * row["bytes"]
    return least * 8 / row["seconds"] / (row["mbit"] * 1e6)


def all_reduce_table(results):
    sides = list(dict.fromkeys(row["side"] for row in results))
    rows = [["link, ranks, size", *sides, "line, ddprun",
             *(f"{side} / ddprun" for side in sides if side not in ("ddprun", "TCP alone"))]]
    cells = {(row["mbit"], row["hosts"], row["ranks_per_host"], row["bytes"], row["side"]): row
             for row in results}
    for mbit, hosts, ranks, size in dict.fromkeys(key[:4] for key in cells):
        line = {side: cells.get((mbit, hosts, ranks, size, side)) for side in sides}
        own = line.get("ddprun")
        label = next(name for name, value in SIZES.items() if value == size)
        rows.append([
            f"{gbit(mbit)}, {hosts} x {ranks}, {label}",
            *(allreduce.cell(row["seconds"]) if row else "-" for row in line.values()),
            f"{line_share(own):.0%}" if own and size >= 1 << 20 else "-",
            *(harness.ratio(own["seconds"], row["seconds"]) if own and row else "-"
              for side, row in line.items() if side not in ("ddprun", "TCP alone"))])
    return rows


def share_plot(results, mbit, hosts):
    series = {}
    for row in results:
        if row["mbit"] == mbit and row["hosts"] == hosts and row["ranks_per_host"] == 1:
            series.setdefault(row["side"], []).append((row["bytes"], row["seconds"]))
    return plots.lines(series, "bytes", "time", published.size_text, allreduce.cell)


def parts_of_page(results):
    """{marker: (heading, tables, [(title, plot)])}"""
    links = list(dict.fromkeys((row["mbit"], row["hosts"]) for row in results["allreduce"]
                               if row["ranks_per_host"] == 1))
    return {
        "allreduce": (
            "All-reduce between hosts", [all_reduce_table(results["allreduce"])],
            [(f"{gbit(mbit)}, {hosts} hosts", share_plot(results["allreduce"], mbit, hosts))
             for mbit, hosts in links]),
        "steps": ("Training steps on two hosts",
                  [ddp.overlap_table(own, torch) for own, torch in results["steps"]],
                  [(gbit(own["mbit"]), ddp.overlap_plot(own)) for own, _ in results["steps"]]),
    }


def measure(options):
    results = {"allreduce": [], "steps": []}
    for mbit, count in itertools.product(options.mbit, options.hosts):
        with virtual_hosts.Hosts(count, mbit=mbit) as hosts, \
                tempfile.TemporaryDirectory() as folder:
            bench = Bench(options, hosts, folder)
            for ranks in options.ranks:
                results["allreduce"] += measure_all_reduce(bench, mbit, ranks)
            if not options.only and count == 2:
                results["steps"].append(measure_steps(bench, mbit))
    return results


def main():
    virtual_hosts.as_root_of_own()
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--mbit", type=int, nargs="+", default=[1000, 10000],
                        help="rates of the link in 10^6 bits per second; default: 1000 10000")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 3, 4],
                        help="numbers of hosts; default: 2 3 4")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2],
                        help="ranks on each host; default: 1 2")
    published.add_options(parser, "runs/hosts.html")
    options = parser.parse_args()
    try:
        results = measure(options)
    except virtual_hosts.Impossible as why:
        sys.exit(f"hosts.py: {why}")
    harness.write_json(options, "hosts", results)
    published.publish("Gradients over a network", parts_of_page(results), options)


if __name__ == "__main__":
    main()
