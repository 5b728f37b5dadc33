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


class Recovery(training.TrainingTest):
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

    def disturb(self, ranks, kills, spared=None, **sections):
        """Kills at random moments, each once the one before is made up for."""
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
            if kill == 0:
                first = self.holds(job, "hit", spared)
        if kills > 1:
            harness.wait_until(
                lambda: self.no_more(self.holds(job, "hit", spared), first),
                lambda: f"{self.holds(job, 'hit', spared)} to be no more than {first}")
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), kills, self.text("hit.err"))
        self.assert_same("hit")

    def wait_for_recoveries(self, job, count):
        harness.wait_until(
            lambda: self.recovered("hit") >= count or job.poll() is not None,
            lambda: f"recovery {count}: " + self.text("hit.err")[-3000:])

    def recovered(self, name):
        return len(RECOVERED.findall(self.text(name + ".out")))

    def holds(self, job, name, spared):
        """Returns what must not grow: descriptors of the agent; of a rank that is never killed
        descriptors, mappings beyond one for each rank's heap and one for what controls them, and
        blocks of the memory that the ranks share."""
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
        return found + [len(files), max(0, maps - 1 - len(workers)), blocks]

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

    def test_of_two_ranks_ends_with_the_same_bits(self):
        self.disturb(2, KILLS)

    def test_of_three_ranks_leaves_nothing(self):
        self.disturb(3, KILLS, spared=1)

    def test_of_four_ranks_with_checkpoints(self):
        self.disturb(4, KILLS, checkpoint={"save_steps": 1}, data={"validation_fraction": 0.2},
                     evaluation={"eval_steps": 10})
        self.assertEqual([name for name in os.listdir(self.path("runs/hit/checkpoints"))
                          if not re.fullmatch(r"step-\d+|latest", name)], [])

    def test_of_rank_zero_goes_on_in_its_files(self):
        sections = {"checkpoint": {"save_steps": 10}, "data": {"validation_fraction": 0.2},
                    "evaluation": {"eval_steps": 15}}
        self.whole(2, 100, **sections)
        job = self.begin(config_of("hit", 100, **sections), 2)
        for kill in range(3):
            self.wait_for_step(job, "hit", 15 + 25 * kill)
            os.kill(self.workers("hit")[0], signal.SIGKILL)
            self.wait_for_recoveries(job, kill + 1)
        self.end(job, "hit")
        self.assert_same("hit")
        self.assertNotIn("; restart", self.text("hit.err"))
        events = [line["event"] for line in self.metrics("hit") if "event" in line]
        self.assertEqual((events.count("start"), events.count("end")), (1, 1))
        self.assertRegex(self.text("hit.out"), r"step 100/100 .*\n")
        ledger = [line for line in self.metrics("hit") if line.get("event") == "ledger"][-1]
        self.assertEqual(ledger["starts"], 1)
        self.assertLessEqual(ledger["lost_seconds"], ledger["wall_seconds"])

    def test_in_an_evaluation(self):
        # Which takes most of the time, also after the last step.
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

    def test_after_the_last_step_it_is_saved_all_the_same(self):
        # Where a save takes longer than a step, ranks wait for it before they begin the last one.
        sections = {"checkpoint": {"save_steps": 1, "save_total_limit": 1}, "model": {
            "name_or_path": "", "dropout": 0.1, "hidden_size": 256, "num_hidden_layers": 4}}
        self.whole(3, 12, **sections)
        for victim in range(3):
            name = f"hit{victim}"
            job = self.begin(config_of(name, 12, **sections), 3)
            self.wait_for_step(job, name, 12)
            os.kill(self.workers(name)[victim], signal.SIGKILL)
            self.end(job, name)
            checkpoints = sorted(os.listdir(self.path(f"runs/{name}/checkpoints")))
            self.assertEqual(checkpoints, ["latest", "step-12"], self.text(name + ".err")[-3000:])
            self.assert_same(name)

    def test_just_after_an_early_stop(self):
        # The loss hardly falls, so that the second evaluation ends the run, after 20 of 400 steps.
        sections = {"checkpoint": {"save_steps": 0, "save_best": "loss"},
                    "data": {"validation_fraction": 0.9}, "optimizer": {"learning_rate": 1e-12},
                    "evaluation": {"eval_steps": 10, "early_stopping_patience": 1,
                                   "early_stopping_threshold": 0.5},
                    "training": {"per_device_train_batch_size": 1, "matmul_engine": "default",
                                 "gradient_accumulation_steps": 2}}
        self.whole(3, 400, **sections)
        self.assertEqual(self.metrics("whole")[-1]["step"], 20)
        for victim in range(3):
            name = f"hit{victim}"
            job = self.begin(config_of(name, 400, **sections), 3)
            for step in (10, 20):  # in the evaluation or after it
                self.wait_for_step(job, name, step)
                try:
                    os.kill(self.workers(name)[victim], signal.SIGKILL)
                except ProcessLookupError:
                    self.assertEqual(step, 20)  # the run has ended already
                if step == 10:
                    harness.wait_until(lambda: RECOVERED.search(self.text(name + ".out")),
                                       lambda: self.text(name + ".err")[-3000:])
            self.end(job, name)
            self.assert_same(name)
            self.assertEqual(self.metrics(name)[-1]["step"], 20)

    def test_of_several_at_once(self):
        self.whole(4, 400)
        job = self.begin(config_of("hit", 400), 4)
        lost = 0
        for victims in ((1, 2), (0, 3), (0, 1, 2)):
            self.wait_for_step(job, "hit", self.steps_done("hit") + 10)
            workers = self.workers("hit")
            for rank in victims:
                os.kill(workers[rank], signal.SIGKILL)
            lost += len(victims)
            self.wait_for_recoveries(job, lost)
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), lost)
        self.assertNotIn("; restart", self.text("hit.err"))
        self.assert_same("hit")

    def test_while_another_is_being_replaced(self):
        self.whole(4, 400)
        job = self.begin(config_of("hit", 400), 4)
        lost = 0
        for stopped, victims in ((0, (1, 2)), (3, (2, 0)), (1, (0, 2, 3))):
            self.wait_for_step(job, "hit", self.steps_done("hit") + 10)
            self.lose("hit", stopped, victims)
            lost += len(victims)
            self.wait_for_recoveries(job, lost)
        self.end(job, "hit")
        self.assertEqual(self.recovered("hit"), lost)
        self.assert_same("hit")

    def test_of_one_that_has_just_come_is_a_restart(self):
        self.whole(3, 60, checkpoint={"save_steps": 5})
        job = self.begin(config_of("hit", 60, checkpoint={"save_steps": 5}), 3)
        self.wait_for_step(job, "hit", 12)
        workers = self.workers("hit")
        os.kill(workers[1], signal.SIGSTOP)
        os.kill(workers[2], signal.SIGKILL)
        harness.wait_until(lambda: self.workers("hit")[2] != workers[2], "another process")
        os.kill(self.workers("hit")[2], signal.SIGKILL)
        self.end(job, "hit")
        self.assertIn("; restart 1 of 3", self.text("hit.err"))
        self.assert_same("hit")

    def test_of_all_is_a_restart(self):
        self.whole(2, 60, checkpoint={"save_steps": 5})
        job = self.begin(config_of("hit", 60, checkpoint={"save_steps": 5}), 2)
        self.wait_for_step(job, "hit", 12)
        for pid in self.workers("hit").values():
            os.kill(pid, signal.SIGKILL)
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
