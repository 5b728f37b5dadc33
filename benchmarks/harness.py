"""Shared by the benchmarks: the two sides of a comparison run in turns, medians are compared.

Each benchmark prints a Markdown table on stdout and, with --json FILE, writes what it measured
together with the machine and the date.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = ROOT / ".deps/venv/bin"


class Parser(argparse.ArgumentParser):
    """Parses, and refuses to measure on a machine that is doing something else."""

    def __init__(self, **options):
        super().__init__(**options)
        self.add_argument("--loaded", action="store_true",
                          help="measure even where other programs use the cores; then no figure "
                               "is worth keeping")

    def parse_args(self, *args, **more):
        options = super().parse_args(*args, **more)
        if not options.loaded:
            require_quiet()
        return options


def parser(description, rounds):
    result = Parser(description=description)
    result.add_argument("--json", metavar="FILE", help="write the results there too")
    result.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    result.add_argument("--bin", default=ROOT / "build/release/bin", type=pathlib.Path,
                        metavar="FOLDER", help="where ddprun is; default: build/release/bin")
    result.add_argument("--only", metavar="NAME", action="append",
                        help="measure only this side (can be given again)")
    return result


def cpu_seconds():
    """{pid: (seconds used so far, name)} of all processes that can be read."""
    result = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            head, tail = stat.read_text().rsplit(")", 1)
        except OSError:  # it has ended
            continue
        fields = tail.split()
        ticks = int(fields[11]) + int(fields[12])
        result[int(stat.parent.name)] = (ticks / os.sysconf("SC_CLK_TCK"), head.split("(", 1)[1])
    return result


def busy_seconds():
    """Seconds that all cores together have worked since the machine started; waiting for a disk
    is no work."""
    user, nice, system, _, _, irq, softirq, *_ = map(
        int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def require_quiet(allowed=0.1, seconds=2, patience=60):
    """Returns when less than `allowed` of one core was used for some seconds; ends the run, naming
    who uses the cores, if that does not come."""
    deadline = time.monotonic() + patience
    while True:
        before, begin = cpu_seconds(), busy_seconds()
        time.sleep(seconds)
        used = (busy_seconds() - begin) / seconds
        if used < allowed:
            return
        if time.monotonic() > deadline:
            break
    busiest = sorted(((now - before.get(pid, (now, name))[0], name, pid)
                      for pid, (now, name) in cpu_seconds().items()), reverse=True)[:3]
    users = ", ".join(f"{name} (pid {pid}, {share / seconds:.0%} of a core)"
                      for share, name, pid in busiest if share > 0)
    sys.exit(f"Other programs use {used:.2f} cores: {users or 'they come and go'}. Times taken "
             "meanwhile would be theirs. End them, or give --loaded to see figures anyway.")


def sides(options, commands):
    """The commands to measure: {name: argv}. A side whose program is missing ends the run."""
    if options.only:
        commands = {name: argv for name, argv in commands.items() if name in options.only}
    for name, argv in commands.items():
        if shutil.which(str(argv[0])) is None:
            sys.exit(f"{name}: {argv[0]} was not found. Build with scripts/test.sh, which installs "
                     "the peers too; or leave this side out with --only.")
    return {name: [str(word) for word in argv] for name, argv in commands.items()}


def ddprun(options, ranks):
    return [options.bin / "ddprun", f"--nproc_per_node={ranks}"]


def torchrun(ranks):
    return [VENV / "torchrun", f"--nproc_per_node={ranks}"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# A shell that is told to end tells its children, and waits until they have saved and ended.
ALL_AT_ONCE = "trap 'trap \"\" TERM; kill 0; wait' TERM; "


def on_nodes(nodes, launcher, rest):
    """The command that starts a launcher, ddprun or torchrun, on so many nodes, all here."""
    if nodes == 1:
        return [*launcher, *rest]
    port = free_port()
    agents = [shlex.join(map(str, [*launcher, f"--nnodes={nodes}", f"--node_rank={node}",
                                   "--master_addr=127.0.0.1", f"--master_port={port}", *rest]))
              for node in range(nodes)]
    return ["sh", "-c", ALL_AT_ONCE + " & ".join(agents) + " & wait"]


def with_a_spare(nodes, launcher, rest):
    """The command that starts a launcher on so many nodes and one that waits, all here, in a job
    whose nodes may change. The first node hosts the rendezvous."""
    port = free_port()
    agents = [shlex.join(map(str, [*launcher, f"--nnodes={nodes}", "--rdzv_backend=c10d",
                                   f"--rdzv_endpoint=127.0.0.1:{port}", "--rdzv_id=7",
                                   f"--rdzv_conf=is_host={node == 0}", *rest]))
              for node in range(nodes + 1)]
    return ["sh", "-c", ALL_AT_ONCE + " & sleep 1; ".join(agents) + " & wait"]


def measures_torch(options):
    """Whether PyTorch's side is measured: --only leaves it out, or it is not installed."""
    if options.only and "torch" not in options.only:
        return False
    python = VENV / "python3"
    found = python.exists() and subprocess.run(
        [python, "-c", "import torch"], capture_output=True, check=False).returncode == 0
    if not found:
        print("PyTorch's side is left out: scripts/setup.sh --peers installs it.", file=sys.stderr)
    return found


def mpirun(ranks):
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return ["mpirun.openmpi", *as_root, "--oversubscribe", "-np", str(ranks)]


def mpich(ranks):
    return ["mpirun.mpich", "-np", str(ranks)]


def environment():
    """Ours, without what would tell one side's workers how to run and not the other's."""
    return {name: value for name, value in os.environ.items()
            if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT")}


def start(argv, more=None, **options):
    """In a session of its own, so that stop() reaches all that it started; MORE variables."""
    env = {**environment(), **(more or {})}
    return subprocess.Popen(argv, env=env, start_new_session=True, **options)


def stop(process):
    """Ends the launcher, which is to end its workers; insists after 10 s."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout:
        process.stdout.close()


class Server:
    """A process that prints where it listens, and serves until its stdin ends."""

    def __init__(self, argv):
        self.process = start([str(word) for word in argv], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, argv))} did not start")
        self.port = line.split(":")[-1].strip()

    def resident_kib(self):
        return proc_kib(self.process.pid, "status", "VmRSS")

    def cpu_seconds(self):
        return cpu_seconds()[self.process.pid][0]

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.process.stdin.close()
        stop(self.process)


def output(argv):
    """stdout of a command that must succeed."""
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, argv))} failed ({done.returncode}):\n{done.stderr[-3000:]}")
    return done.stdout


def children(pid):
    """The direct children of a process, the oldest first."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found, key=started)


def descendants(pid):
    """The children, theirs, and so on: some launchers have a process between them and workers."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def started(pid):
    """Start time in clock ticks."""
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


def proc_kib(pid, file, field):
    """A "Field:  123 kB" line of /proc/PID/FILE."""
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/{file} has no {field}")


def median(values):
    return statistics.median(values) if values else None


def machine():
    model = next((line.split(":", 1)[1].strip()
                  for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    memory = proc_kib("self", "../meminfo", "MemTotal") / 2**20
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gib": round(memory, 1),
            "kernel": platform.release(), "python": platform.python_version()}


def table(header, rows):
    def line(cells):
        print("| " + " | ".join(cells) + " |")

    line(header)
    line("---" if i == 0 else "---:" for i in range(len(header)))
    for row in rows:
        line(str(cell) for cell in row)


def ratio(ours, theirs):
    """How many times ours is smaller than theirs, for a cell."""
    return f"{theirs / ours:.3g}x" if ours and theirs else "-"


def write_json(options, name, results):
    if not options.json:
        return
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = {"benchmark": name, "date": date, "machine": machine(), "rounds": options.rounds,
              "results": results}
    pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
