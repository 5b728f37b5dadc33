"""ddp-trainer checkpoint list, verify and export, and ddp-trainer diff, on what real runs leave."""

import json
import os
import pathlib
import re
import subprocess
import unittest

import training

TRAINER = os.environ["DDPRUN_TRAINER_PROGRAM"]


class CheckpointCommand(training.TrainingTest):
    def run_toy(self, name, ranks=2, **sections):
        sections.setdefault("report", {"state_hashes": True})
        sections.setdefault("checkpoint", {"save_steps": 5, "save_total_limit": 0})
        config = training.toy_config(**sections)
        config["run"].update(name=name, max_steps=20)
        self.train(config, ranks)
        return self.path(f"runs/{name}")

    def trainer(self, *arguments):
        return subprocess.run([TRAINER, *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.path("."), timeout=120)

    def checked(self, *arguments):
        done = self.trainer(*arguments)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_lists_verifies_and_exports(self):
        # With averages of the weights, each of the formats has them.
        run = self.run_toy("saved", optimizer={"ema_decay": 0.9})
        lines = self.checked("checkpoint", "list", run).splitlines()
        steps = [int(line.split()[0]) for line in lines[1:]]
        self.assertLessEqual({5, 20}, set(steps), lines)  # one may be passed over
        of_folder = self.checked("checkpoint", "list", f"{run}/checkpoints")
        self.assertEqual(lines, of_folder.splitlines())
        good = self.checked("checkpoint", "verify", run)
        self.assertEqual(len(steps), good.count("good "), good)

        newest = f"{run}/checkpoints/step-{max(steps)}"
        for name in ("out.pt", "out.safetensors", "out"):
            said = self.checked("checkpoint", "export", run, f"--to={name}")
            self.assertIn(f"{name}: step {max(steps)} of ", said)
        with open(self.path("out/model.safetensors"), "rb") as exported:
            with open(f"{run}/model/model.safetensors", "rb") as saved:
                self.assertEqual(saved.read(), exported.read())
        # Each of them is a model to begin with.
        for start in ("out.pt", "out.safetensors", newest):
            path = os.path.join(self.path("."), start)
            config = training.toy_config(model={"name_or_path": path})
            config["run"].update(name="from", max_steps=1)
            self.train(config)

        shard = next(pathlib.Path(newest).glob("shard-*"))
        with open(shard, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
        done = self.trainer("checkpoint", "verify", run)
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stdout, rf"damaged +{newest}: .*{shard.name}")
        done = self.trainer("checkpoint", "export", run, "--to=older.pt")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("passed over: ", done.stderr)

    def test_evaluate_computes_what_the_run_computed(self):
        for name in ("train", "dev"):
            with open(self.path(f"{name}.csv"), "w") as file:
                file.write("a,b,kind\n")
                for i in range(61):
                    file.write(f"{i % 7},{i * len(name) % 5},{'hi' if i % 7 > 3 else 'lo'}\n")
        for kind in ("ddp", "zero1", "zero3"):
            self.train({
                "run": {"name": kind, "max_steps": 9},
                "model": {"type": "mlp", "layer_sizes": [2, 8, 2]},
                "data": {"format": "csv", "train_files": ["train.csv"], "label_column": "kind",
                         "target_type": "class", "validation_files": ["dev.csv"]},
                "strategy": {"type": kind}, "training": {"loss": "cross_entropy"},
                "evaluation": {"metrics": ["accuracy"]}, "checkpoint": {"save_steps": 9}}, 2)
            expected = [one for one in self.metrics(kind) if one.get("split") == "validation"][-1]
            found = json.loads(self.checked("evaluate", f"runs/{kind}", "--data", "dev.csv",
                                            "--json"))
            self.assertEqual((9, 61), (found["step"], found["samples"]))
            for value in ("loss", "accuracy"):
                self.assertAlmostEqual(expected[value], found[value], places=6, msg=kind)
        refused = self.trainer("evaluate", "runs/ddp", "--data", "none.csv")
        self.assertEqual(2, refused.returncode, refused.stderr)
        self.assertIn('There is no file "none.csv"', refused.stderr)

    def test_the_end_of_a_run_keeps_what_others_put_into_its_model(self):
        config = training.gpt_config(
            run={"name": "extended", "max_steps": 8},
            data={"validation_fraction": 0.02},
            evaluation={"eval_steps": 4},
            checkpoint={"save_steps": 4, "save_total_limit": 0, "save_best": "loss"})
        self.train(config)
        run = self.path("runs/extended")
        with open(f"{run}/model/notes.txt", "w") as file:
            file.write("mine")
        job = self.run_ddprun(f"--resume={run}", "--set", "run.max_steps=12")
        self.assertEqual(0, job.returncode, job.err)
        with open(f"{run}/model.aside-1/notes.txt") as file:
            self.assertEqual("mine", file.read())
        self.assertNotIn("notes.txt", os.listdir(f"{run}/model"))
        self.assertIn(f"it is {run}/model.aside-1 now", job.out)
        # Which weights these are, and where the best ones are.
        self.assertIn("/model.safetensors, of the last step, 12\n", job.out)
        best = re.search(r"the best loss, \S+, was that of step (\d+); its weights: ddp-trainer "
                         r"checkpoint export (\S+) --to=FOLDER\n", job.out)
        self.assertTrue(best, job.out)
        self.checked("checkpoint", "export", best[2], "--to=best")

    def test_what_is_no_checkpoint_is_said(self):
        os.makedirs(self.path("empty"))
        done = self.trainer("checkpoint", "list", "empty")
        self.assertEqual(2, done.returncode)
        self.assertIn("NO CHECKPOINTS", done.stderr)
        done = self.trainer("diff", "empty", "empty")
        self.assertEqual(2, done.returncode)
        self.assertIn("NO RUN FOLDER", done.stderr)

    def test_diff_names_keys_step_and_tensor(self):
        first = self.run_toy("first")
        same = self.run_toy("same")
        said = self.checked("diff", first, same)
        self.assertIn("configs: the same", said)
        self.assertIn("state hashes: the same in 20 steps", said)
        self.assertRegex(said, r"checkpoints: the same in \d steps?")
        other = self.run_toy("other", optimizer={"learning_rate": 0.5})
        done = self.trainer("diff", first, other)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertRegex(done.stdout, r"config: optimizer.learning_rate: \S+, 0.5\n")
        # The gradients of the first step do not know the learning rate.
        self.assertRegex(done.stdout, r"the first of 20 steps that differs is step 1: layers\.\S+, "
                                      r"on rank 0, and \d+ more")
        self.assertIn("checkpoints: those of step 5 differ: model.layers.0.bias", done.stdout)

    def test_diff_of_hashes_of_other_steps_finds_no_equality(self):
        runs = [self.run_toy(name, checkpoint={"save_steps": 0}) for name in ("one", "other")]
        with open(f"{runs[1]}/state_hashes.jsonl", "w") as file:
            file.write("damaged\n")
        done = self.trainer("diff", *runs)
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertIn("there is no step of which both runs have them", done.stdout)
        self.assertIn("nothing to compare", done.stdout)

    def test_diff_of_runs_without_anything_to_compare(self):
        runs = [self.run_toy(name, report={"state_hashes": False},
                             checkpoint={"save_steps": 0}) for name in ("one", "other")]
        done = self.trainer("diff", *runs)
        self.assertEqual(2, done.returncode, done.stdout)
        self.assertIn("nothing to compare", done.stdout)

    def test_the_ledger_adds_up(self):
        run = self.run_toy("ledger")
        with open(f"{run}/metrics.jsonl") as file:
            lines = [json.loads(line) for line in file]
        ledger = [line for line in lines if line.get("event") == "ledger"][-1]
        self.assertEqual(20, ledger["step"])
        parts = sum(ledger[f"{part}_seconds"]
                    for part in ("useful", "data", "ranks", "saving", "evaluation", "lost"))
        self.assertAlmostEqual(ledger["wall_seconds"], parts, delta=0.01)
        self.assertEqual("end", lines[-1]["event"])


if __name__ == "__main__":
    unittest.main()
