"""report.plugin: a plugin's observer is told of a run, and cannot disturb it after the start."""

import os
import re

import harness
import training

PLUGIN = os.environ["DDPRUN_OBSERVER_PLUGIN"]
WITHOUT = os.environ["DDPRUN_FAULTY_PLUGIN"]


class Observers(training.TrainingTest):
    def config(self, fault="", **sections):
        config = training.gpt_config(
            report={"logging_steps": 2, "plugin": PLUGIN, "options": {"fault": fault}},
            data={"validation_fraction": 0.2}, evaluation={"eval_steps": 3},
            checkpoint={"save_steps": 3}, **sections)
        config["run"]["max_steps"] = 4
        return config

    def run_with(self, fault="", **sections):
        config = self.write_config(self.config(fault, **sections))
        job = self.run_ddprun("--nproc_per_node=2", config)
        self.assert_nothing_left()
        return job

    def observed(self):
        with open(self.path("runs/gpt/observed.txt")) as file:
            return [line.rstrip() for line in file]

    def test_gets_what_metrics_jsonl_has(self):
        job = self.run_with()
        self.assertEqual(job.returncode, 0, job.err)
        observed, lines = self.observed(), self.metrics("gpt")
        start = lines[0]
        self.assertEqual(observed[0], f"start gpt 2 ddp {start['parameters']} 0")
        self.assertEqual(observed[-1], "end 4 finished")
        steps = [line.split() for line in observed if line.startswith("step ")]
        self.assertEqual([step[1] for step in steps], ["1/4", "2/4", "3/4", "4/4"])
        # The first, the second and the last one are logged.
        self.assertEqual(["logged" in step for step in steps], [True, True, False, True])
        self.assertAlmostEqual(float(steps[0][2]), lines[1]["loss"], delta=1e-4)
        evaluations = [line.split() for line in observed if line.startswith("evaluation ")]
        expected = [line for line in lines if line.get("split") == "validation"]
        self.assertEqual([int(line[1]) for line in evaluations], [3, 4])
        for line, ours in zip(evaluations, expected):
            self.assertAlmostEqual(float(line[2]), ours["loss"], delta=1e-4)
            self.assertEqual(int(line[3]), ours["samples"])
            self.assertEqual(line[4], "perplexity")
        checkpoints = [line.split() for line in observed if line.startswith("checkpoint ")]
        self.assertEqual([(int(line[1]), line[2]) for line in checkpoints],
                         [(line["step"], line["path"]) for line in lines
                          if line.get("event") == "checkpoint"])

    def test_is_told_that_a_run_goes_on(self):
        self.assertEqual(self.run_with().returncode, 0)
        job = self.run_ddprun("--nproc_per_node=2", "--resume", "runs/gpt", "--set",
                              "run.max_steps=6")
        self.assertEqual(job.returncode, 0, job.err)
        starts = [line for line in self.observed() if line.startswith("start ")]
        self.assertRegex(starts[1], r" [34]$")
        self.assertEqual(self.observed()[-1], "end 6 finished")

    def test_that_throws_is_reported_and_left_out(self):
        job = self.run_with("throw at step 2")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertRegex(
            job.out, r"warning: the observer of \S+libobserver_plugin.so threw in OnStep after "
            r"step 2: disk full. Training goes on without it.\n")
        self.assertEqual(job.out.count("disk full"), 1)
        self.assertEqual([line.split()[0] for line in self.observed()], ["start", "step"])

    def test_that_throws_at_the_start_ends_the_run(self):
        for fault, doing, text in (
                ("throw in constructor", "making the observer", "no such tracker"),
                ("throw at start", "OnStart of the observer ran", "no such project")):
            with self.subTest(fault):
                job = self.run_with(fault, run={"name": fault.replace(" ", "-")})
                self.assertEqual(job.returncode, 1, job.err)
                self.assertIn("-- ERROR IN THE PLUGIN ", job.err)
                self.assertIn(f"While {doing}, the plugin threw:\n", job.err)
                self.assertIn(text, job.err)

    def test_that_crashes_is_named_in_the_stack(self):
        job = self.run_with("crash at step 2")
        self.assertEqual(job.returncode, 139, job.err)
        self.assertRegex(job.err,
                         r"Stack of rank 0 at SIGSEGV:\n(?s:.*)libobserver_plugin")

    def test_that_is_not_there_is_refused_before_the_run(self):
        for path, text in (("missing.so", "missing.so\" cannot be read"),
                           (WITHOUT, "has no observer, and report.plugin asks for one.")):
            with self.subTest(path):
                config = self.config()
                config["report"]["plugin"] = path
                job = self.run_ddprun("--nproc_per_node=2", self.write_config(config))
                self.assertNotEqual(job.returncode, 0)
                self.assertIn(text, re.sub(r"\s+", " ", job.err))
                self.assertFalse(os.path.exists(self.path("runs")))


if __name__ == "__main__":
    harness.main()
