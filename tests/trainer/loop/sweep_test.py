"""ddprun --sweep with the real trainer: what is run, skipped, marked, written and returned."""

import csv
import json
import os
import signal

import harness

CONFIG = {
    "model": {"type": "mlp", "layer_sizes": [10, 5]},
    "data": {"format": "random", "num_samples": 64, "input_size": 10, "target_size": 5},
    "run": {"max_steps": 4},
}
SWEEP = ["--sweep=optimizer.learning_rate=1e-3,-1,1e-1", "--sweep=run.seed=1,2"]


class SweepTest(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.script("t.json", json.dumps(CONFIG))

    def sweep(self, *args, **options):
        return self.run_ddprun("--nproc_per_node=2", *SWEEP, *args, "t.json", **options)

    def rows(self):
        with open(self.path("sweeps/t/sweep.csv"), newline="") as file:
            return list(csv.DictReader(file))

    def statuses(self):
        return [row["status"] for row in self.rows()]

    def test_runs_all_combinations_and_goes_on_after_a_failure(self):
        job = self.sweep()
        self.assertEqual(job.returncode, 2)  # of the learning rate -1
        self.assertEqual(
            self.statuses(), ["finished"] * 2 + ["exit code 2"] * 2 + ["finished"] * 2
        )
        rows = self.rows()
        self.assertEqual([row["run.seed"] for row in rows], ["1", "2"] * 3)
        for row in rows:
            if row["status"] == "finished":
                self.assertEqual(row["steps"], "4")
                self.assertGreater(float(row["loss"]), 0)
                with open(self.path(row["folder"] + "/config.resolved.json")) as file:
                    config = json.load(file)
                self.assertEqual(str(config["run"]["seed"]), row["run.seed"])
        self.assertIn("optimizer.learning_rate  run.seed", job.out)
        with open(self.path("sweeps/t/sweep.html")) as file:
            self.assertIn("<table>", file.read())
        self.assert_nothing_left()

    def test_does_not_repeat_what_has_finished(self):
        self.sweep()
        folders = set(os.listdir(self.path("sweeps/t")))
        self.assertEqual(self.sweep().returncode, 2)
        self.assertEqual(
            self.statuses(), ["finished before"] * 2 + ["exit code 2"] * 2 + ["finished before"] * 2
        )
        self.assertEqual(set(os.listdir(self.path("sweeps/t"))), folders)

    def test_repeats_runs_whose_config_has_changed(self):
        self.sweep()
        self.script("t.json", json.dumps({**CONFIG, "run": {"max_steps": 5}}))
        self.sweep()
        self.assertEqual([row["steps"] for row in self.rows()], ["5", "5", "", "", "5", "5"])
        self.assertIn("learning_rate=1e-3,seed=1-2", os.listdir(self.path("sweeps/t")))

    def test_is_stopped_by_a_signal_and_marks_nothing_then(self):
        job = self.start(
            "--sweep=run.seed=1,2",
            "--set=run.max_steps=100000000",
            "t.json",
            start_new_session=True,
        )
        harness.wait_until(
            lambda: os.path.exists(self.path("sweeps/t/seed=1/metrics.jsonl")), "the first run"
        )
        job.send_signal(signal.SIGINT)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assertEqual(self.statuses(), ["stopped"])
        self.assertIn("1 of 2 runs were not begun", job.out)
        self.assertNotIn("finished.json", os.listdir(self.path("sweeps/t/seed=1")))
        self.assert_nothing_left()

    def test_leaves_nothing_when_it_is_killed(self):
        job = self.start(
            "--nproc_per_node=2", "--sweep=run.seed=1,2", "--set=run.max_steps=100000000", "t.json"
        )
        harness.wait_until(
            lambda: os.path.exists(self.path("sweeps/t/seed=1/metrics.jsonl")), "the first run"
        )
        job.kill()
        self.finish(job)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
