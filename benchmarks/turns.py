"""Two running jobs by turns: what a setting costs a step.

Both jobs are started, and one is stopped (SIGSTOP) while the other takes some steps: two runs one
after the other differ by more than is looked for, and so do steps of a minute ago. The ratio of
turns that are neighbours is therefore what counts.
"""

import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time

import harness


class Told:
    """When each step was told whose number is a multiple of `every`, read as the file grows: to
    read it whole at each look takes time from the ranks, and more from the run that writes more."""

    def __init__(self, path, every=1):
        self.path, self.every = path, every
        self.times, self.read = [], 0

    def look(self):
        """All of them so far."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.read)
                new = file.read()
        except OSError:
            return self.times
        new = new[:new.rfind(b"\n") + 1]
        self.read += len(new)
        for line in map(json.loads, new.splitlines()):
            if line.get("split") == "train" and line["step"] % self.every == 0:
                self.times.append(line["ts"])
        return self.times


def steps_of(path):
    """When each step so far was told."""
    return Told(path).look()


def steps_between(told):
    """Seconds from one step told to the next: a rank's own "step_seconds" leave out what it waits
    for the others after its update, which is where they meet without recovery."""
    return [after - before for before, after in zip(told, told[1:])]


def wait_for(condition, process, path, seconds=120, every=0.002):
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            with open(os.path.join(path, "out"), encoding="utf-8") as out:
                said = "".join(out.readlines()[-20:])
            sys.exit(f"{' '.join(map(str, process.args))} "
                     + ("goes on no more" if process.poll() is None else
                        f"has ended with code {process.returncode}") + f". Last lines:\n{said}")
        time.sleep(every)


@contextlib.contextmanager
def job(options, make_config):
    """A running job, its folder and its metrics. `make_config` gets the folder."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = os.path.join(folder, "train.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(make_config(folder), file)
        with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
            nodes = getattr(options, "nodes", 1)
            launcher = harness.ddprun(options, options.ranks // nodes)
            if getattr(options, "machine", False):
                command = harness.with_a_spare(nodes, launcher,
                                               ["--spares=1", "--max_restarts=1", path])
            else:
                command = harness.on_nodes(nodes, launcher, ["--max_restarts=1", path])
            process = harness.start(command, stdout=out, stderr=out)
            try:
                yield process, folder, os.path.join(folder, "run/metrics.jsonl")
            finally:
                signal_all(process, signal.SIGCONT)
                harness.stop(process)


def signal_all(process, number):
    if process.poll() is not None:
        return
    for pid in (process.pid, *harness.descendants(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@contextlib.contextmanager
def nothing_beside(process):
    yield


def take(options, sides, turns, steps, warm, every, beside):
    """{side: [the median of each turn, in seconds for `every` steps]}."""
    with contextlib.ExitStack() as stack:
        jobs = {}
        for name, make_config in sides.items():
            process, folder, path = stack.enter_context(job(options, make_config))
            told = Told(path, every)
            jobs[name] = process, folder, told
            wait_for(lambda: len(told.look()) >= warm, process, folder)
            signal_all(process, signal.SIGSTOP)
        seconds = {name: [] for name in sides}
        for turn in range(turns):
            for name in sides if turn % 2 else reversed(list(sides)):
                process, folder, told = jobs[name]
                before = len(told.look())
                with beside.get(name, nothing_beside)(process):
                    signal_all(process, signal.SIGCONT)
                    # The first one told was begun before the last stop.
                    wait_for(lambda: len(told.look()) > before + steps + 1, process, folder,
                             every=0.05)
                    signal_all(process, signal.SIGSTOP)
                seconds[name].append(harness.median(steps_between(told.look()[before:])))
    return seconds


def compare(options, sides, turns, steps, warm, every=1, beside=None):
    """Prints and returns what take() finds in options.rounds rounds. `sides` are two functions by
    name; `beside` are contexts by name, which get the job's process and surround each turn."""
    found = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, medians in take(options, sides, turns, steps, warm, every, beside or {}).items():
            found[name] += [seconds / every for seconds in medians]
    first, second = sides
    ratios = [a / b for a, b in zip(found[first], found[second])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    rows = [[name, f"{harness.median(each) * 1e3:.2f} ms", ""] for name, each in found.items()]
    harness.table(["", "median step", f"half of {len(ratios)} pairs of turns"],
                  [*rows, [f"{first} / {second}", f"{middle:.3f}", f"{low:.3f} to {high:.3f}"]])
    return found
