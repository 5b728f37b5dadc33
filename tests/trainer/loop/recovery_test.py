"""Workers that are killed are replaced while the others go on: the same weights and metrics as of a
run that nobody disturbed, and nothing left.

    recovery_test.py [--kills N] [--seed N]

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR.
"""

import os
import re
import signal

import harness
import recovery_runs
from recovery_runs import RECOVERED, config_of


class Recovery(recovery_runs.Runs):
    def test_of_two_ranks_ends_with_the_same_bits(self):
        self.disturb(2)

    def test_of_three_ranks_leaves_nothing(self):
        self.disturb(3, spared=1)

    def test_of_four_ranks_with_checkpoints(self):
        self.disturb(4, checkpoint={"save_steps": 1}, data={"validation_fraction": 0.2},
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
        self.disturb_evaluations()

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
        self.disturb_several_at_once()

    def test_while_another_is_being_replaced(self):
        self.disturb_while_replacing()

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
        self.assertNotIn("allows no restarts", self.text("hit.err"))
        job = self.begin(config_of("off", 10**6, run={"name": "off", "max_steps": 10**6,
                                                       "recovery": "peer"}), 2, "--max_restarts=0")
        self.wait_for_step(job, "off", 5)
        os.kill(self.workers("off")[1], signal.SIGKILL)
        self.end(job, "off", 137)
        self.assertEqual(self.text("off.err").count("allows no restarts"), 1)


if __name__ == "__main__":
    recovery_runs.main()
