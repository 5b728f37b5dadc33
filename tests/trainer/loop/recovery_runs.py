"""Runs whose workers are killed, beside one that nobody disturbs."""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import sys
import time
import unittest

import harness
import training

KILLS = 5
SEED = 0
# Keys of metrics.jsonl that depend on time.
RATES = re.compile("^(ts|seconds|.*_seconds|.*per_second.*|eta.*|goodput)$")
RECOVERED = re.compile(r"rank (\d) was lost: recovered in [\d.]+ s, .*step (\d+)")


def config_of(name, steps, **sections):
    return training.gpt_config(**{
        "run": {"name": name, "seed": 3, "max_steps": steps},
        "model": {"name_or_path": "", "dropout": 0.1, "hidden_size": 32, "num_hidden_layers": 1},
        "training": {"per_device_train_batch_size": 1, "matmul_engine": "default"},
        "checkpoint": {"save_steps": 0},
        **sections,
    })


class Runs(training.TrainingTest):
    mappings = 0  # of a rank, besides one for each rank's heap and one for what controls them

    def begin(self, config, ranks, *flags):
        """A run and its workers by rank."""
        name = config["run"]["name"]
        self.ranks = ranks
        # Output to files: nobody has to read it.
        with open(self.path(name + ".out"), "w") as out, open(self.path(name + ".err"), "w") as err:
            job = self.start(f"--nproc_per_node={ranks}", "--max_restarts=3",
                             "--log_level=debug", *flags,
                             self.write_config(config, name + ".json"), stdout=out, stderr=err)
        return job

    def text(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def workers(self, name):
        """The newest pid of each rank."""
        started = re.findall(r"worker started rank=(\d+) .*pid=(\d+)", self.text(name + ".err"))
        return {int(rank): int(pid) for rank, pid in started}

    def steps_done(self, name):
        try:
            with open(self.path(f"runs/{name}/metrics.jsonl"), "rb") as file:
                file.seek(max(0, os.path.getsize(file.name) - 8192))
                lines = file.read().split(b"\n")[1:-1]  # whole ones
        except OSError:
            return 0
        steps = [line["step"] for line in map(json.loads, lines) if line.get("split") == "train"]
        return steps[-1] if steps else 0

    def wait_for_step(self, job, name, step):
        def reached():
            self.assertIsNone(job.poll(), self.text(name + ".err"))
            # The launcher may log the start of a worker after its first steps.
            return self.steps_done(name) >= step and len(self.workers(name)) == self.ranks

        harness.wait_until(reached, f"step {step} of {name}")

    def weights(self, name):
        with open(self.path(f"runs/{name}/model/model.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def told(self, name):
        return [{key: value for key, value in line.items() if not RATES.match(key)}
                for line in self.metrics(name) if line.get("split")]

    def end(self, job, name, code=0):
        job.wait(timeout=10 * harness.DEADLINE_S)
        self.assertEqual(job.returncode, code, self.text(name + ".err"))
        self.assert_nothing_left()

    def whole(self, ranks, steps, **sections):
        job = self.begin(config_of("whole", steps, **sections), ranks)
        self.end(job, "whole")

    def assert_same(self, name):
        self.assertEqual(self.weights(name), self.weights("whole"))
        self.assertEqual(self.told(name), self.told("whole"))

    def disturb(self, ranks, spared=None, **sections):
        """Kills at random moments, each once the one before is made up for."""
        kills = KILLS
        steps = 400 + 40 * kills  # also on a busy machine there are some after the last kill
        self.whole(ranks, steps, **sections)
        draw = random.Random(SEED + ranks)
        job = self.begin(config_of("hit", steps, **sections), ranks)
        victims = [rank for rank in range(ranks) if rank != spared]
        for kill in range(kills):
            # Until the step that was done again is behind all ranks.
            self.wait_for_step(job, "hit", self.steps_done("hit") + 3)
            time.sleep(draw.uniform(0, 0.02))
            os.kill(self.workers("hit")[draw.choice(victims)],
                    draw.choice((signal.SIGKILL, signal.SIGSEGV)))
            self.wait_for_recoveries(job, kill + 1)
            self.assertIsNone(job.poll(), self.text("hit.err")[-3000:])
            if kill == 0:
                first = self.holds(job, "hit", spared)
        if kills > 1:
            harness.wait_until(
                lambda: self.no_more(self.holds(job, "hit", spared), first),
                lambda: f"{self.holds(job, 'hit', spared)} to be no more than {first}")
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), kills, self.text("hit.err"))
        self.assert_same("hit")

    def disturb_evaluations(self):
        """An evaluation takes most of the time, also after the last step."""
        sections = {"data": {"validation_fraction": 0.9}, "evaluation": {"eval_steps": 10},
                    "optimizer": {"ema_decay": 0.9}}
        self.whole(3, 60, **sections)
        job = self.begin(config_of("hit", 60, **sections), 3)
        for kill, (step, victim) in enumerate(((10, 1), (20, 0), (40, 2), (60, 0))):
            self.wait_for_step(job, "hit", step)
            os.kill(self.workers("hit")[victim], signal.SIGKILL)
            self.wait_for_recoveries(job, kill + 1)
        self.end(job, "hit")
        self.assert_same("hit")
        self.assertIn("in the evaluation after step", self.text("hit.out"))

    def disturb_several_at_once(self):
        def kill(victims):
            workers = self.workers("hit")
            for rank in victims:
                os.kill(workers[rank], signal.SIGKILL)

        self.disturb_groups([lambda: kill((1, 2)), lambda: kill((0, 3)), lambda: kill((0, 1, 2))],
                            (2, 2, 3))

    def disturb_while_replacing(self):
        self.disturb_groups([lambda: self.lose("hit", 0, (1, 2)),
                             lambda: self.lose("hit", 3, (2, 0)),
                             lambda: self.lose("hit", 1, (0, 2, 3))], (2, 2, 3))

    def disturb_groups(self, kills, counts):
        """Each of `kills` kills `counts` of four ranks, without a restart."""
        self.whole(4, 400)
        job = self.begin(config_of("hit", 400), 4)
        lost = 0
        for kill, count in zip(kills, counts):
            self.wait_for_step(job, "hit", self.steps_done("hit") + 10)
            kill()
            lost += count
            self.wait_for_recoveries(job, lost)
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), lost)
        self.assertNotIn("; restart", self.text("hit.err"))
        self.assert_same("hit")

    def wait_for_recoveries(self, job, count):
        harness.wait_until(
            lambda: self.recovered("hit") >= count or job.poll() is not None,
            lambda: f"recovery {count}: " + self.text("hit.err")[-3000:])

    def recovered(self, name):
        return len(RECOVERED.findall(self.text(name + ".out")))

    def holds(self, job, name, spared):
        """Returns what must not grow: descriptors of the agent; of a rank that is never killed
        descriptors, mappings beyond those that it needs, and blocks of the memory that the ranks
        share."""
        found = [len(os.listdir(f"/proc/{job.pid}/fd"))]
        if spared is None:
            return found
        workers = self.workers(name)
        process = f"/proc/{workers[spared]}"
        with open(process + "/maps") as file:
            maps = sum("ddprun-node-memory" in line for line in file)
        files = os.listdir(process + "/fd")
        blocks = sum(os.stat(f"{process}/fd/{file}").st_blocks for file in files
                     if "ddprun-node-memory" in os.readlink(f"{process}/fd/{file}"))
        return found + [len(files), max(0, maps - 1 - len(workers) - self.mappings), blocks]

    def no_more(self, now, first):
        return now[:3] == first[:3] and (len(now) < 4 or now[3] < 2 * first[3])

    def lose(self, name, stopped, victims):
        """Kills one after the other, each once the one before has been replaced, while a rank that
        is stopped keeps all others from going on."""
        workers = self.workers(name)
        os.kill(workers[stopped], signal.SIGSTOP)
        try:
            for victim in victims:
                os.kill(workers[victim], signal.SIGKILL)
                harness.wait_until(lambda: self.workers(name)[victim] != workers[victim],
                                   lambda: "another process: " + self.text(name + ".err")[-3000:])
        finally:
            try:
                os.kill(workers[stopped], signal.SIGCONT)
            except ProcessLookupError:
                pass


def main():
    global KILLS, SEED
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    options, rest = parser.parse_known_args()
    KILLS, SEED = options.kills, options.seed
    unittest.main(verbosity=2, argv=[sys.argv[0], *rest])
