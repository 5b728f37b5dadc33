"""Workers that are killed are replaced while the others go on: the same weights and metrics as of a
run that nobody disturbed, and nothing left.

    recovery_test.py [--kills N] [--seed N]

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

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
# Of metrics.jsonl: how long things took.
RATES = re.compile("^(ts|seconds|.*_seconds|.*per_second.*|eta.*|goodput)$")
RECOVERED = re.compile(r"rank (\d) was lost: recovered in [\d.]+ s, in step (\d+)")


def config_of(name, steps, **sections):
    return training.gpt_config(**{
        "run": {"name": name, "seed": 3, "max_steps": steps},
        "model": {"name_or_path": "", "dropout": 0.1, "hidden_size": 32, "num_hidden_layers": 1},
        "training": {"per_device_train_batch_size": 1, "matmul_engine": "default"},
        "checkpoint": {"save_steps": 0},
        **sections,
    })


class Recovery(training.TrainingTest):
    def begin(self, config, ranks, *flags):
        """A run and its workers by rank."""
        name = config["run"]["name"]
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
            return self.steps_done(name) >= step

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

    def disturb(self, ranks, kills, **sections):
        """Kills at random moments, each once the one before is made up for."""
        steps = 100 + 40 * kills
        self.whole(ranks, steps, **sections)
        draw = random.Random(SEED + ranks)
        job = self.begin(config_of("hit", steps, **sections), ranks)
        first, blocks = None, 0
        for kill in range(kills):
            # Until the step that was done again is behind all ranks.
            self.wait_for_step(job, "hit", self.steps_done("hit") + 3)
            time.sleep(draw.uniform(0, 0.02))
            workers = self.workers("hit")
            victim = workers[draw.randrange(1, ranks)]
            os.kill(victim, draw.choice((signal.SIGKILL, signal.SIGSEGV)))
            harness.wait_until(
                lambda kill=kill: self.recovered("hit") > kill or job.poll() is not None,
                lambda kill=kill: f"recovery {kill}: " + self.text("hit.err")[-3000:])
            if first is None:
                first, blocks = self.holds(job, workers[0]), self.blocks(workers[0])
        harness.wait_until(lambda: self.holds(job, workers[0]) == first,
                           lambda: f"{self.holds(job, workers[0])} to become {first}")
        self.assertLess(self.blocks(workers[0]), 2 * blocks)
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), kills, self.text("hit.err"))
        self.assert_same("hit")

    def recovered(self, name):
        return len(RECOVERED.findall(self.text(name + ".out")))

    def holds(self, job, rank_zero):
        """What must not grow: descriptors of the agent and of rank 0, and its mappings."""
        with open(f"/proc/{rank_zero}/maps") as file:
            maps = sum("ddprun-node-memory" in line for line in file)
        return [maps] + [len(os.listdir(f"/proc/{pid}/fd")) for pid in (job.pid, rank_zero)]

    def blocks(self, rank_zero):
        """Of the memory that the ranks share."""
        folder = f"/proc/{rank_zero}/fd/"
        return sum(os.stat(folder + name).st_blocks for name in os.listdir(folder)
                   if "ddprun-node-memory" in os.readlink(folder + name))

    def test_of_two_ranks_ends_with_the_same_bits(self):
        self.disturb(2, KILLS)

    def test_of_four_ranks_with_checkpoints(self):
        self.disturb(4, KILLS, checkpoint={"save_steps": 7}, data={"validation_fraction": 0.2})

    def test_of_rank_zero_is_a_restart(self):
        self.whole(2, 60, checkpoint={"save_steps": 5})
        job = self.begin(config_of("hit", 60, checkpoint={"save_steps": 5}), 2)
        self.wait_for_step(job, "hit", 12)
        os.kill(self.workers("hit")[0], signal.SIGKILL)
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), 0)
        self.assertIn("; restart 1 of 3", self.text("hit.err"))
        self.assert_same("hit")

    def test_of_two_at_once_is_a_restart(self):
        self.whole(3, 60, checkpoint={"save_steps": 5})
        job = self.begin(config_of("hit", 60, checkpoint={"save_steps": 5}), 3)
        self.wait_for_step(job, "hit", 12)
        workers = self.workers("hit")
        for rank in (1, 2):
            os.kill(workers[rank], signal.SIGKILL)
        self.end(job, "hit")
        self.assertIn("; restart 1 of 3", self.text("hit.err"))
        self.assert_same("hit")

    def test_none_is_a_restart_and_without_restarts_a_failure(self):
        job = self.begin(config_of("hit", 10**6, run={"name": "hit", "max_steps": 10**6,
                                                       "recovery": "none"}), 2)
        self.wait_for_step(job, "hit", 5)
        os.kill(self.workers("hit")[1], signal.SIGKILL)
        harness.wait_until(lambda: "; restart 1 of 3" in self.text("hit.err"), "the restart")
        job.send_signal(signal.SIGTERM)
        self.end(job, "hit", 75)
        job = self.begin(config_of("off", 10**6), 2, "--max_restarts=0")
        self.wait_for_step(job, "off", 5)
        os.kill(self.workers("off")[1], signal.SIGKILL)
        self.end(job, "off", 137)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    options, rest = parser.parse_known_args()
    KILLS, SEED = options.kills, options.seed
    unittest.main(verbosity=2, argv=[sys.argv[0], *rest])
