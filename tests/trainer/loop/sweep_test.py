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
SWEEP = ["--sweep=optimizer.learning_rate=1e-3,1e30,1e-1", "--sweep=run.seed=1,2"]


class SweepTest(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.script("t.json", json.dumps(CONFIG))

    def sweep(self, *args, **options):
        return self.run_ddprun("--nproc_per_node=2", *SWEEP, *args, "t.json", **options)

    def read(self, name):
        with open(self.path(name), newline="") as file:
            return file.read()

    def rows(self, name="sweep.csv"):
        with open(self.path(f"sweeps/t/{name}"), newline="") as file:
            return list(csv.DictReader(file))

    def statuses(self):
        return [row["status"] for row in self.rows()]

    def test_runs_all_combinations_and_goes_on_after_a_failure(self):
        job = self.sweep()
        self.assertEqual(job.returncode, 1)  # of 1e30: the loss is no number
        self.assertEqual(
            self.statuses(), ["finished"] * 2 + ["exit code 1"] * 2 + ["finished"] * 2
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
        self.assertEqual(self.sweep().returncode, 1)
        self.assertEqual(
            self.statuses(), ["finished before"] * 2 + ["exit code 1"] * 2 + ["finished before"] * 2
        )
        again = {name for name in set(os.listdir(self.path("sweeps/t"))) - folders}
        self.assertEqual(again, {"learning_rate=1e30,seed=1-2", "learning_rate=1e30,seed=2-2"})

    def test_begins_nothing_when_one_of_its_runs_cannot_go_well(self):
        self.sweep()
        before = {name: self.read(f"sweeps/t/{name}") for name in ("sweep.csv", "sweep.html")}
        job = self.run_ddprun(
            "--sweep=optimizer.learning_rate=1e-3,-1", "--sweep=run.seed=1,2", "t.json"
        )
        self.assertEqual(job.returncode, 2)
        self.assertEqual(job.err.count("-- OUT OF RANGE"), 1, job.err)
        self.assertIn(
            "In run 3 of 4: optimizer.learning_rate=-1 run.seed=1; and in 1 more run", job.err)
        self.assertNotIn("[ddprun] run", job.err)
        for name, text in before.items():
            self.assertEqual(self.read(f"sweeps/t/{name}"), text)

    def test_keeps_the_tables_of_other_sweeps(self):
        self.sweep()
        before = self.read("sweeps/t/sweep.csv")
        for status in ("finished", "finished before"):
            job = self.run_ddprun("--sweep=run.max_steps=1,2", "t.json")
            self.assertIn("sweeps/t/sweep-2.csv and sweep-2.html", job.out)
            self.assertEqual(self.read("sweeps/t/sweep.csv"), before)
            self.assertEqual(self.read("sweeps/t/sweep-2.csv").count(f",{status},"), 2)
        self.assertNotIn("sweep-3.csv", os.listdir(self.path("sweeps/t")))

    def test_keeps_a_file_that_no_sweep_wrote(self):
        self.script("sweep.csv", "mine\n")
        job = self.run_ddprun("--sweep=run.seed=1", "--set", "run.output_dir=.", "t.json")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(self.read("sweep.csv"), "mine\n")
        self.assertEqual(self.read("sweep-2.csv").count(",finished,"), 1)

    def test_repeats_runs_whose_config_has_changed(self):
        self.sweep()
        self.script("t.json", json.dumps({**CONFIG, "run": {"max_steps": 5}}))
        self.sweep()
        steps = [row["steps"] for row in self.rows("sweep-2.csv")]
        self.assertEqual(steps[:2] + steps[4:], ["5"] * 4)
        self.assertIn("learning_rate=1e-3,seed=1-2", os.listdir(self.path("sweeps/t")))

    def test_runs_some_at_the_same_time(self):
        # The runs do not end by themselves.
        sweep = ["--sweep=run.seed=1,2", "--sweep_jobs=2", "--set=run.max_steps=100000000"]
        job = self.start(*sweep, "t.json", start_new_session=True)
        for seed in (1, 2):
            path = self.path(f"sweeps/t/seed={seed}/metrics.jsonl")
            harness.wait_until(lambda path=path: os.path.exists(path), path)
        job.send_signal(signal.SIGINT)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assertEqual(self.statuses(), ["stopped"] * 2)
        self.assertIn("run 1 of 2: seed=1, its output: sweeps/t/seed=1.log", job.err)
        self.assertNotIn("step ", job.err + job.out.replace("steps", ""))
        self.assertIn("run seed=2: ", self.read("sweeps/t/seed=2.log"))
        self.assert_nothing_left()

    def test_at_the_same_time_goes_on_after_a_failure(self):
        job = self.sweep("--sweep_jobs=3")
        self.assertEqual(job.returncode, 1)
        self.assertEqual(
            self.statuses(), ["finished"] * 2 + ["exit code 1"] * 2 + ["finished"] * 2
        )
        self.assertIn("run 3 of 6: exit code 1", job.err)
        self.assertIn("LOSS", self.read("sweeps/t/learning_rate=1e30,seed=1.log"))
        self.assertEqual(self.sweep("--sweep_jobs=3").err.count("finished before"), 4)
        self.assert_nothing_left()

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
        self.assertEqual(self.statuses(), ["stopped", "not begun"])
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
