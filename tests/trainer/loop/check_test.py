"""ddp-trainer check and ddprun --dry_run: what they find without a step, all at once, each once."""

import json
import os
import shutil
import subprocess
import unittest.mock

import harness
import training

TRAINER = os.path.join(os.path.dirname(harness.DDPRUN), "ddp-trainer")


class CheckTest(training.TrainingTest):
    def check(self, config, *args):
        return subprocess.run(
            [TRAINER, "check", self.write_config(config), *args],
            cwd=self.folder,
            env=self.env(),
            capture_output=True,
            text=True,
            timeout=harness.DEADLINE_S,
        )

    def test_the_program_says_which_commands_it_has(self):
        job = subprocess.run([TRAINER, "validate", "runs/toy"], capture_output=True, text=True)
        self.assertEqual(job.returncode, 2)
        self.assertIn("there is no command validate", job.stderr)
        self.assertRegex(job.stderr, r"The commands are:.* check .*generate")

    def test_output_that_is_lost_is_no_success(self):
        for command in (["schema"], ["config-doc", "run.seed"], ["--help"], ["--version"],
                        ["check", self.write_config(training.gpt_config())]):
            with self.subTest(command=command), open("/dev/full", "w") as full:
                job = subprocess.run([TRAINER, *command], stdout=full, stderr=subprocess.PIPE,
                                     cwd=self.folder, env=self.env(), text=True,
                                     timeout=harness.DEADLINE_S)
                self.assertEqual(job.returncode, 1, job.stderr)
                self.assertIn("The text that was to be printed is not whole", job.stderr)

    def test_an_override_may_stand_in_front_of_the_config(self):
        job = subprocess.run(
            [TRAINER, "--set", "run.seed=x", self.path("absent.json")],
            capture_output=True, text=True, timeout=harness.DEADLINE_S,
        )
        self.assertEqual(job.returncode, 2)
        self.assertIn("absent.json", job.stderr)

    def expect_problems(self, job, *titles):
        self.assertEqual(job.returncode, 2, job.stdout + job.stderr)
        found = [line.split(" -")[0][3:] for line in job.stderr.splitlines() if line[:3] == "-- "]
        self.assertEqual(sorted(found), sorted(titles), job.stderr)
        self.assertFalse(os.path.exists(self.path("runs")))

    def wider_model(self):
        """A folder whose config.json describes a wider model than its weights have."""
        folder = self.path("wider")
        shutil.copytree(os.path.join(training.GOLDEN, "gpt_init"), folder)
        with open(os.path.join(folder, "config.json")) as file:
            sizes = json.load(file)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(sizes | {"n_inner": 100}, file)
        return folder

    def test_says_what_a_good_config_needs(self):
        job = self.check(training.gpt_config(), "--nproc_per_node=2")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("train.json, for 2 ranks: no problem found", job.stdout)
        for fact in ("training samples, all read", "memory: about", "disk: ", "steps: "):
            self.assertIn(fact, job.stdout)
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_warns_of_checkpoints_that_a_disk_may_not_hold(self):
        config = training.toy_config()
        config["checkpoint"] = {"save_total_limit": 10**12}
        job = self.check(config)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertRegex(
            job.stdout + job.stderr, "checkpoints: there are up to 1000000000001 at a time, of"
        )

    def test_a_run_to_resume_that_is_not_there_is_a_problem(self):
        config = training.toy_config(run={"resume": "absent"})
        self.expect_problems(self.check(config), "NO CHECKPOINT")
        os.mkdir(self.path("empty"))
        config["run"]["resume"] = "empty"
        self.expect_problems(self.check(config), "NOT A CHECKPOINT")
        self.assertEqual(os.listdir(self.path("empty")), [])

    def test_a_run_that_cannot_be_resumed_so_is_a_problem(self):
        config = training.toy_config(run={"max_steps": 2}, optimizer={"momentum": 0.5})
        self.train(config)

        def times():
            return {name: os.stat(self.path("runs/toy/" + name)).st_mtime_ns
                    for name in os.listdir(self.path("runs/toy"))}

        before = times()
        config["run"].update(resume="runs/toy", max_steps=4)
        config["optimizer"]["momentum"] = 0.6
        job = self.check(config)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("optimizer.momentum was 0.5 until here, and is 0.6 from here on",
                      job.stderr)
        del config["run"]["max_steps"]
        config["run"]["max_epochs"] = 9
        config["training"]["per_device_train_batch_size"] //= 2
        job = self.check(config)
        self.assertEqual(job.returncode, 2, job.stdout)
        self.assertIn("-- CANNOT GO ON FROM THIS CHECKPOINT", job.stderr)
        self.assertEqual(times(), before)

    def test_a_wrong_key_does_not_hide_missing_files(self):
        config = training.gpt_config(
            optimizer={"lerning_rate": 1}, data={"train_files": ["no/*.txt"]}
        )
        self.expect_problems(self.check(config), "UNKNOWN KEY", "NO DATA FILE")

    def test_data_weights_and_validation_are_looked_at_all_the_same(self):
        config = training.gpt_config(
            model={"name_or_path": self.wider_model()},
            data={"train_files": ["no/*.txt"], "validation_files": ["none.txt"]},
        )
        self.expect_problems(
            self.check(config), "NO DATA FILE", "NO DATA FILE", "WEIGHTS DO NOT FIT THE MODEL"
        )

    def test_rows_are_read(self):
        rows = [f"{i % 7},{i % 3}" for i in range(50)]
        rows[30] = "x,1"
        self.script("t.csv", "a,label\n" + "\n".join(rows) + "\n")
        config = training.toy_config(model={"type": "linear"})
        del config["model"]["layer_sizes"]
        config["data"] = {
            "format": "csv",
            "train_files": ["t.csv"],
            "label_column": "label",
            "feature_columns": ["a"],
        }
        job = self.check(config)
        self.assertEqual(job.returncode, 2, job.stdout)
        self.assertIn("t.csv:32", job.stderr)

    def test_a_loss_that_the_first_step_would_refuse_is_a_problem(self):
        rows = [f"{i % 7},{i % 2}" for i in range(50)]
        self.script("t.csv", "a,label\n" + "\n".join(rows) + "\n")
        for loss, target in (("mse", "class"), ("cross_entropy", "number")):
            config = training.toy_config(model={"type": "linear"}, training={"loss": loss})
            del config["model"]["layer_sizes"]
            config["data"] = {"format": "csv", "train_files": ["t.csv"],
                              "label_column": "label", "target_type": target}
            with self.subTest(loss=loss, target=target):
                self.expect_problems(self.check(config), "LOSS DOES NOT FIT THE DATA")
                run = self.run_ddprun(self.write_config(config))
                self.assertEqual(run.returncode, 2, run.err)
                shutil.rmtree(self.path("runs"))
                config["data"]["target_type"] = "number" if target == "class" else "class"
                self.assertEqual(self.check(config).returncode, 0)

    def test_more_than_the_machine_holds_is_refused_before_anything_is_made(self):
        config = training.toy_config()
        config["model"] = {"type": "gpt", "vocab_size": 1000000000, "hidden_size": 128}
        config["data"] = {"train_files": [os.path.join(training.GOLDEN, "text.txt")]}
        config["checkpoint"] = {"save_at_end": False}
        self.expect_problems(self.check(config), "NOT ENOUGH MEMORY")
        job = self.run_ddprun("--nproc_per_node=2", self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertRegex(job.err, "2 ranks need about [0-9.]+ TiB")
        self.assertIn("Most of it is the model", job.err)
        config["model"].update(hidden_size=1 << 14)
        config["checkpoint"] = {"save_at_end": True}
        self.expect_problems(self.check(config), "NOT ENOUGH MEMORY", "NOT ENOUGH DISK SPACE")
        config["model"].update(hidden_size=1 << 30, num_attention_heads=1)
        self.expect_problems(self.check(config), "WRONG MODEL SIZE")

    def test_counts_problems_that_are_not_shown(self):
        config = training.gpt_config(optimizer={f"a{i}": 1 for i in range(7)})
        job = self.check(config)
        self.assertIn("(2 more errors not shown", job.stderr)
        self.assertIn("train.json, for 1 rank: 7 problems", job.stderr)

    def test_finds_that_gpus_are_missing(self):
        visible = {"CUDA_VISIBLE_DEVICES": ""}  # also where there are some
        with unittest.mock.patch.dict(os.environ, visible):
            for settings in ({"run": {"device": "cuda"}},
                             {"strategy": {"type": "dp", "devices": ["cuda:0", "cuda:1"]}}):
                job = self.check(training.gpt_config(**settings))
                self.assertEqual(job.returncode, 2, job.stdout)
                self.assertRegex(job.stderr, "-- (NO GPU|NO CUDA MODULE|TOO FEW GPUS)")
                self.assertIn("for 1 rank: 1 problem\n", job.stderr)

    def test_dry_run_checks(self):
        job = self.run_ddprun("--dry_run", self.write_config(training.gpt_config()))
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("no problem found", job.err)
        self.assertTrue(job.out.startswith("# Nothing is started."), job.out)
        config = training.gpt_config(optimizer={"lerning_rate": 1})
        job = self.run_ddprun("--dry_run", self.write_config(config))
        self.assertEqual(job.returncode, 2)
        self.assertIn('has no key "lerning_rate"', job.err)
        self.assertEqual(job.out, "")

    def test_dry_run_of_a_sweep_says_each_problem_once(self):
        config = self.write_config(training.gpt_config())
        job = self.run_ddprun(
            "--dry_run",
            "--sweep=run.seed=1,2,3",
            "--sweep=optimizer.learning_rate=1e-3,-1",
            "--sweep=data.train_files=[\"no.txt\"],[\"" + training.GOLDEN + "/text.txt\"]",
            config,
        )
        self.assertEqual(job.returncode, 2, job.err)
        self.assertEqual(job.err.count("NO DATA FILE"), 1, job.err)
        self.assertEqual(job.err.count("\n-- ") + job.err.startswith("-- "), 2, job.err)
        self.assertIn("12 runs, for 1 rank: 2 problems", job.err)

    def test_problems_that_one_run_has_together_are_said_once_each(self):
        job = self.run_ddprun(
            "--dry_run", "--sweep=optimizer.lr=1,2", "--sweep=run.sed=1,2",
            self.write_config(training.gpt_config()))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertEqual(job.err.count("UNKNOWN KEY"), 4, job.err)
        self.assertIn("4 runs, for 1 rank: 4 problems", job.err)


if __name__ == "__main__":
    harness.main()
