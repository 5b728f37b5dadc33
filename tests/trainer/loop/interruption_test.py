"""Runs that are interrupted at random moments, in every way there is, end as if they had not been:
the same weights and optimizer state, bit for bit, and the same metrics.

    interruption_test.py [--seeds FIRST:END]
    interruption_test.py --seed N          one run again

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import signal
import sys
import time
import unittest

import harness
import training

# Which process is hit, and how. "worker" and "agent" get the signal alone.
HITS = (
    ("agent", signal.SIGTERM),
    ("agent", signal.SIGUSR1),
    ("agent", signal.SIGINT),
    ("agent", signal.SIGKILL),
    ("worker", signal.SIGTERM),
    ("worker", signal.SIGKILL),
    ("template", signal.SIGKILL),
    ("all", signal.SIGKILL),
)
STOPPED = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: 130}
MOST_INTERRUPTIONS = 4
# Keys of metrics.jsonl that depend on time.
RATES = re.compile("^(ts|seconds|.*_seconds|.*per_second.*|eta.*|pipeline_bubble)$")

done = collections.Counter()


def make_plan(seed):
    draw = random.Random(seed)
    ranks = draw.choice((1, 2, 2, 4))
    steps = draw.randint(20, 60)
    hook = draw.choice(("none", "fp16", "power_sgd")) if ranks > 1 else "none"
    config = training.gpt_config(
        run={"name": "run", "seed": seed, "max_steps": steps},
        model={
            "name_or_path": "",
            "dropout": draw.choice((0, 0.1)),
            "hidden_size": 32,
            "num_hidden_layers": draw.choice((1, 2)),
        },
        data={"validation_fraction": draw.choice((0, 0.2))},
        training={
            "per_device_train_batch_size": draw.choice((2, 8)),
            "gradient_accumulation_steps": draw.choice((1, 1, 2, 3)),
            "max_grad_norm": draw.choice((0, 1)),
            "matmul_engine": "default",  # not what is the fastest at the moment
        },
        optimizer={"type": draw.choice(("adamw", "sgd")), "momentum": 0.9},
        strategy={"comm_hook": hook},
        report={"logging_steps": draw.choice((1, 3, 7))},
        checkpoint={
            "save_steps": draw.choice((1, 4, 9, "1 epoch", "0.2 s")),
            "save_total_limit": draw.choice((1, 2)),
        },
    )
    if hook == "none" and draw.random() < 0.4:
        config["training"]["virtual_ranks"] = 4
    if hook == "power_sgd":
        config["strategy"]["power_sgd_start_step"] = draw.choice((2, 10))
    if config["optimizer"]["type"] == "adamw":
        del config["optimizer"]["momentum"]
    if config["data"]["validation_fraction"]:
        config["evaluation"] = {"eval_steps": draw.choice((5, 8))}
    hits = [
        {
            "who": who,
            "signal": number,
            # Seconds after the start, as a part of what the whole run takes; or after this part of
            # the steps that are left, a little later.
            "after_start": draw.random() if draw.random() < 0.3 else None,
            "after_steps": draw.random(),
            "later_s": draw.choice((0, draw.uniform(0, 0.05))),
            "rank": draw.randrange(ranks),
            "again": draw.choice(("resume", "auto")),
            "restarts": draw.choice((0, 0, 1)),
        }
        for who, number in draw.choices(HITS, k=draw.randint(1, MOST_INTERRUPTIONS))
    ]
    return {"seed": seed, "ranks": ranks, "config": config, "hits": hits}


def tensors_of(checkpoint):
    """{file and name: dtype, shape, bytes} of a checkpoint's shards, but for the run's time."""
    found = {}
    for path in sorted(glob.glob(os.path.join(checkpoint, "*.safetensors"))):
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            body = file.read()
        header.pop("__metadata__", None)
        header.pop("run.seconds", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            key = (os.path.basename(path), name)
            found[key] = (entry["dtype"], entry["shape"], body[begin:end])
    return found


def is_guard(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read() == "ddprun-guard\n"
    except OSError:
        return False


class Interruption(training.TrainingTest):
    def follow(self, seed):
        plan = make_plan(seed)
        config = plan["config"]
        keys = {section: config[section] for section in ("training", "strategy", "checkpoint")}
        print(f"seed {seed}: {plan['ranks']} ranks, {config['run']['max_steps']} steps, {keys}")
        self.interrupt_and_compare(plan)

    def interrupt_and_compare(self, plan):
        config = plan["config"]
        whole = dict(config, run=dict(config["run"], output_dir="whole/{name}"))
        begin = time.monotonic()
        job = self.finish(self.begin(plan, [self.write_config(whole)]))
        self.assertEqual(job.returncode, 0, job.err)
        self.seconds = time.monotonic() - begin
        self.config_path = self.write_config(config)
        start = [self.config_path]
        for hit in plan["hits"]:
            start = self.interrupt(plan, hit, start)
            if start is None:
                break
        if start is not None:
            job = self.begin(plan, start)
            self.finish(job)
            self.assertEqual(job.returncode, 0, job.err)
        self.compare("whole/run", self.run_folder())
        self.assert_nothing_left()

    def begin(self, plan, start, restarts=0):
        # Into a file: nobody reads a pipe while a job waits to be hit.
        with open(self.path("out"), "a") as out:
            return self.start(
                f"--nproc_per_node={plan['ranks']}",
                f"--max_restarts={restarts}",
                *start,
                env={"OMP_NUM_THREADS": "1"},
                stdout=out,
            )

    def interrupt(self, plan, hit, start):
        """How to go on; None: the run has ended."""
        job = self.begin(plan, start, hit["restarts"])
        self.await_moment(plan, hit, job)
        was_hit = self.hit(job, hit)
        self.finish(job)
        name = f"{hit['who']} {signal.Signals(hit['signal']).name}"
        done[name if was_hit else name + " (had ended)"] += 1
        print(f"  {name}, then exit {job.returncode}, {self.last_step()} steps", flush=True)
        self.check_end(hit, was_hit, job)
        self.assert_nothing_left()
        if job.returncode == 0:
            return None
        return self.way_on(hit["again"])

    def await_moment(self, plan, hit, job):
        if hit["after_start"] is not None:
            return time.sleep(0.05 + hit["after_start"] * self.seconds)
        done_before = self.last_step()
        left = plan["config"]["run"]["max_steps"] - done_before
        awaited = done_before + 1 + int(hit["after_steps"] * left)
        harness.wait_until(
            lambda: job.poll() is not None or self.last_step() >= awaited, f"step {awaited}"
        )
        time.sleep(hit["later_s"])

    def hit(self, job, hit):
        victims = self.victims(job, hit) if job.poll() is None else []
        for pid in victims:
            try:
                os.kill(pid, hit["signal"])
            except ProcessLookupError:
                pass
        return bool(victims)

    def victims(self, job, hit):
        if hit["who"] == "agent":
            return [job.pid]
        processes = harness.processes_with(self.mark)
        if hit["who"] == "all":
            # The guard, in a session of its own, removes what the others leave.
            return [job.pid] + [pid for pid in processes if pid != job.pid and not is_guard(pid)]
        workers, templates = [], []
        for pid in processes:
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"--template" not in file.read():
                        continue
                # A worker has the node's memory; the template has not.
                with open(f"/proc/{pid}/maps") as file:
                    (workers if "ddprun-node-memory" in file.read() else templates).append(pid)
            except OSError:
                pass
        found = sorted(workers if hit["who"] == "worker" else templates)
        return found[hit["rank"] % len(found) :][:1] if found else []

    def check_end(self, hit, was_hit, job):
        code, number = job.returncode, hit["signal"]
        if not was_hit:
            return self.assertEqual(code, 0, job.err)
        right = {0}  # it was at its end, or went on
        if hit["who"] in ("agent", "all"):
            # Before it had its handlers the signal ended it.
            right.add(-number)
            if number in STOPPED:
                right.add(STOPPED[number])
        elif hit["who"] == "worker" and number in STOPPED:
            right.add(STOPPED[number])
        elif hit["who"] == "worker" and not hit["restarts"]:
            right = {128 + number, 0}
        elif hit["who"] == "template":
            right.add(1)  # before it had forked the ranks
        self.assertIn(code, right, job.err)
        if code in (75, 130):
            self.assertNotIn("-- ", job.err)

    def way_on(self, again):
        folder = self.run_folder()
        if folder is None or not self.checkpoints(folder):
            # Nothing is there to go on from.
            shutil.rmtree(self.path("runs"), ignore_errors=True)
            return [self.config_path]
        if again == "resume":
            return ["--resume", folder]
        return ["--set", "run.resume=auto", self.config_path]

    def run_folder(self):
        found = sorted(glob.glob(self.path("runs/*")), key=os.path.getmtime)
        self.assertLessEqual(len(found), 1, "one run has several folders")
        return os.path.relpath(found[0], self.folder) if found else None

    def last_step(self):
        folder = self.run_folder()
        path = self.path(f"{folder}/metrics.jsonl")
        if folder is None or not os.path.exists(path):
            return 0
        with open(path) as file:
            return max([int(n) for n in re.findall(r'"step":(\d+)', file.read())], default=0)

    def compare(self, whole, interrupted):
        last = [self.checkpoints(run)[-1] for run in (whole, interrupted)]
        self.assertEqual(*map(os.path.basename, last))
        tensors = [tensors_of(checkpoint) for checkpoint in last]
        self.assertEqual(*[list(found) for found in tensors])
        for name, tensor in tensors[0].items():
            self.assertEqual(tensor, tensors[1][name], f"{name} differs")
        numbers = []
        for checkpoint in last:
            with open(checkpoint + "/index.json") as file:
                numbers.append(json.load(file)["numbers"])
        self.assertEqual(*numbers)
        weights = [self.bytes_of(f"{run}/model/model.safetensors") for run in (whole, interrupted)]
        self.assertEqual(*weights)
        self.assertEqual(*[self.lasting_metrics(run) for run in (whole, interrupted)])
        left = glob.glob(self.path(f"{interrupted}/checkpoints/*tmp*"))
        self.assertEqual(left, [])

    def checkpoints(self, run):
        """Complete ones, the oldest first."""
        found = glob.glob(self.path(f"{run}/checkpoints/step-*"))
        steps = [int(path.rpartition("-")[2]) for path in found if re.search(r"/step-\d+$", path)]
        return [self.path(f"{run}/checkpoints/step-{step}") for step in sorted(steps)]

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def lasting_metrics(self, run):
        with open(self.path(f"{run}/metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
        return [
            {key: value for key, value in line.items() if not RATES.match(key)}
            for line in lines
            if "split" in line
        ]


def add_test(seed):
    setattr(Interruption, f"test_seed_{seed}", lambda self: self.follow(seed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="0:8")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    for seed in range(first, end) if options.seed is None else [options.seed]:
        add_test(seed)
    program = unittest.main(module=__name__, argv=[sys.argv[0]], exit=False)
    for name, count in sorted(done.items()):
        print(f"  {count:4} x {name}")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
