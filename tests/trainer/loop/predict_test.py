"""ddp-trainer predict and evaluate on new rows: their text, and what they refuse."""

import json
import os
import random
import shutil
import signal
import subprocess

import data_formats_test
import harness
import training

TRAINER = os.environ["DDPRUN_TRAINER_PROGRAM"]
BOTH = '"hi, so"'  # a class


def table(rows):
    return "a,color,kind\n" + "".join(
        f"{i % 7},{('red', 'blue')[i % 2]},{'lo' if i % 5 < 3 else BOTH}\n" for i in range(rows))


class Predict(training.TrainingTest):
    def setUp(self):
        super().setUp()
        with open(self.path("train.csv"), "w") as file:
            file.write("a,color,kind\n")
            for i in range(60):
                kind = BOTH if i % 7 > 3 else "lo"
                file.write(f"{i % 7},{('red', 'blue')[i % 2]},{kind}\n")
        self.train(self.config("one"))
        os.remove(self.path("train.csv"))

    def config(self, name, **data):
        return {"run": {"name": name, "max_steps": 30}, "training": {"loss": "cross_entropy"},
                "model": {"type": "mlp", "layer_sizes": [3, 8, 2]},
                "optimizer": {"learning_rate": 0.05}, "checkpoint": {"save_steps": 30},
                "data": {"format": "csv", "train_files": ["train.csv"], "label_column": "kind",
                         "target_type": "class", "standardize": True, **data}}

    def run_trainer(self, *arguments):
        return subprocess.run([TRAINER, *arguments], capture_output=True, text=True,
                              cwd=self.path("."), timeout=120)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def test_rows_in_order_as_json_lines_and_csv_without_the_training_file(self):
        self.write("new.csv", "color,a\n" + "".join(f"red,{i % 7}\n" for i in range(23)))
        done = self.run_trainer("predict", "runs/one", "--data", "new.csv")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("23 predictions with step 30 of runs/one", done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(["hi, so" if i % 7 > 3 else "lo" for i in range(23)],
                         [row["class"] for row in rows])
        for row in rows:
            self.assertAlmostEqual(1, sum(row["probabilities"].values()), places=5)
        done = self.run_trainer("predict", "runs/one", "--data", "new.csv", "--format", "csv",
                                "--out", "new.out")
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)
        with open(self.path("new.out")) as file:
            lines = file.read().splitlines()
        self.assertEqual('class,"probability hi, so",probability lo', lines[0])
        self.assertTrue(lines[1].startswith("lo,") and lines[5].startswith('"hi, so",'), lines)
        self.assertEqual(24, len(lines))

        self.write("new.csv", "a,color\n1,red\n")
        refused = self.run_trainer("predict", "runs/one", "--data", "new.csv", "--out", "new.out")
        self.assertEqual(2, refused.returncode, refused.stderr)
        self.assertIn("OUTPUT FILE EXISTS", refused.stderr)
        with open(self.path("new.out")) as file:
            self.assertEqual(24, len(file.readlines()))
        done = self.run_trainer("predict", "runs/one", "--data", "new.csv", "--out", "new.out",
                                "--overwrite")
        self.assertEqual(0, done.returncode, done.stderr)
        with open(self.path("new.out")) as file:
            self.assertEqual(1, len(file.readlines()))
        refused = self.run_trainer("predict", "runs/one", "--data", "n*.csv", "--out",
                                   "./new.csv", "--overwrite")
        self.assertEqual(2, refused.returncode, refused.stderr)
        self.assertIn('"new.csv" is to be read and to be replaced', refused.stderr)
        with open(self.path("new.csv")) as file:
            self.assertEqual(2, len(file.readlines()))

    def use_by(self, ranks, command, run, *flags):
        job = self.run_ddprun(f"--nproc_per_node={ranks}", TRAINER, command, f"runs/{run}",
                              "--data", "new.csv", *flags)
        self.assertEqual(0, job.returncode, job.err)
        return job

    def test_several_ranks_write_what_one_does(self):
        for rows in (3, 8, 61):  # of batches of 8
            self.write("new.csv", table(rows))
            alone = self.run_trainer("predict", "runs/one", "--data", "new.csv").stdout
            self.assertEqual(rows, alone.count("\n"))
            for ranks in (2, 3):
                self.assertEqual(alone, self.use_by(ranks, "predict", "one").out)
                job = self.use_by(ranks, "predict", "one", "--out", f"{rows}.{ranks}")
                self.assertEqual("", job.out)
                self.assertIn(f"{rows} predictions with step 30", job.err)
                with open(self.path(f"{rows}.{ranks}")) as file:
                    self.assertEqual(alone, file.read())

    def test_several_ranks_evaluate_each_sample_once(self):
        config = self.config("virtual")
        config["training"].update(virtual_ranks=4, per_device_train_batch_size=4)
        for name in ("train.csv", "new.csv"):
            self.write(name, table(61))
        self.train(config)
        for run in ("one", "virtual"):
            alone, *others = (json.loads(self.use_by(ranks, "evaluate", run, "--json").out)
                              for ranks in (1, 2, 3))
            for other in others:
                self.assertEqual((61, alone["accuracy"]), (other["samples"], other["accuracy"]))
                self.assertAlmostEqual(alone["loss"], other["loss"], delta=1e-6)
            if run == "virtual":
                self.assertEqual(alone["loss"], others[0]["loss"])

    def test_the_classes_of_an_evaluation(self):
        self.write("new.csv", "a,color,kind\n" + "".join(
            f'{i % 7},red,{"lo" if i % 7 < 3 else BOTH}\n' for i in range(21)))
        done = self.run_trainer("evaluate", "runs/one", "--data", "new.csv", "--by_class")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual("""\

  class   precision  recall      f1  samples
  hi, so     1.0000  0.7500  0.8571       12
  lo         0.7500  1.0000  0.8571        9

  actual \\ predicted  hi, so  lo
  hi, so                   9   3
  lo                       0   9
""", done.stdout[done.stdout.index("\n  class"):])

    def test_a_class_of_two_lines_is_one_line_of_the_table(self):
        self.write("train.csv", table(30).replace("hi, so", "hi,\nso"))
        self.train(self.config("lines"))
        done = self.run_trainer("evaluate", "runs/lines", "--data", "train.csv", "--by_class")
        self.assertEqual(0, done.returncode, done.stderr)
        table_lines = done.stdout[done.stdout.index("\n  class"):].splitlines()
        self.assertEqual(["", "  class", "  hi, so", "  lo", "", "  actual", "  hi, so", "  lo"],
                         [line[:8].rstrip() for line in table_lines])

    def test_a_model_folder_predicts_as_its_run_does(self):
        self.write("new.csv", "color,a,kind\n" + "".join(f"red,{i % 7},lo\n" for i in range(23)))
        for command, *more in (("predict",), ("evaluate", "--json")):
            run, model, apart = (
                self.run_trainer(command, *path, "--data", "new.csv", *more)
                for path in (["runs/one"], ["runs/one/model/"],
                             [shutil.copytree(self.path("runs/one/model"), self.path(command)),
                              "--config", "train.json"]))
            for other in (model, apart):
                self.assertEqual(0, other.returncode, other.stderr)
                if command == "predict":
                    self.assertEqual(run.stdout, other.stdout)
                else:
                    said, expected = json.loads(other.stdout), json.loads(run.stdout)
                    for key in ("samples", "loss", "accuracy"):
                        self.assertEqual(expected[key], said[key])
            self.assertIn("the model in" if command == "predict" else '"model":',
                          model.stderr + model.stdout)
        for path, words in ((["predict"], "does not say what the rows of files are"),
                            (["runs/one", "--config", "train.json"], "CONFIG BESIDE A RUN")):
            refused = self.run_trainer("predict", *path, "--data", "new.csv")
            self.assertEqual((2, ""), (refused.returncode, refused.stdout), refused.stderr)
            self.assertIn(words, refused.stderr.replace("\n", " "))

    def test_refused_files_leave_no_output(self):
        for text, words in {
                "a,color,size\n1,red,2\n": 'columns that the training data did not have: "size"',
                "a,kind\n1,lo\n": 'has no column "color"',
                "a,color\n1,red\n2,green\n": '"green", which no row of the training data has',
                "a,color\n1,red\n,red\n": 'Column "a" has no value',
                "": "no row", "a,color\n": "no row"}.items():
            self.write("new.csv", text)
            refused = self.run_trainer("predict", "runs/one", "--data", "new.csv", "--out", "out")
            self.assertEqual(2, refused.returncode, text + refused.stderr)
            self.assertIn(words, refused.stderr.replace("\n", " "), text)
            self.assertFalse([name for name in os.listdir(self.path(".")) if "out" in name])
        for text, words in {"a,color,kind\n1,red,mid\n": "UNKNOWN LABEL",
                            "a,color\n1,red\n": 'has no column "kind"', "": "no row"}.items():
            self.write("new.csv", text)
            refused = self.run_trainer("evaluate", "runs/one", "--data", "new.csv")
            self.assertEqual(2, refused.returncode, text + refused.stderr)
            self.assertIn(words, refused.stderr.replace("\n", " "), text)
        refused = self.run_trainer("predict", "runs/one", "--data", "none.csv")
        self.assertIn("Correct the path.", refused.stderr)
        os.mkdir(self.path("runs/empty"))
        refused = self.run_trainer("predict", "runs/empty", "--data", "new.csv")
        self.assertEqual(2, refused.returncode, refused.stderr)

    def test_classes_that_are_not_utf_8_need_the_training_file(self):
        with open(self.path("train.csv"), "w", encoding="latin-1") as file:
            file.write("a,color,kind\n" + "1,green,ja\n2,rot,nö\n3,blau,ja\n" * 4)
        self.train({**self.config("latin"), "model": {"type": "mlp", "layer_sizes": [4, 8, 2]}})
        done = self.run_trainer("evaluate", "runs/latin", "--data", "train.csv", "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(12, json.loads(done.stdout)["samples"])
        done = self.run_trainer("predict", "runs/latin", "--data", "train.csv")
        self.assertEqual((0, 12), (done.returncode, done.stdout.count("\n")), done.stderr)
        os.rename(self.path("train.csv"), self.path("other.csv"))
        refused = self.run_trainer("predict", "runs/latin", "--data", "other.csv")
        self.assertEqual((2, ""), (refused.returncode, refused.stdout))
        self.assertIn("train.csv", refused.stderr)

    def test_images_in_one_folder_without_classes(self):
        numbers = random.Random(5)
        names = sorted(data_formats_test.COLOURS)
        for i, name in enumerate(names * 8):
            picture = data_formats_test.png(
                data_formats_test.noisy(numbers, data_formats_test.COLOURS[name], 144), 12)
            for folder in (f"pictures/{name}", "new"):
                os.makedirs(self.path(folder), exist_ok=True)
                with open(self.path(f"{folder}/{i:02}.png"), "wb") as file:
                    file.write(picture)
        self.train({"run": {"name": "images", "max_steps": 60},
                    "model": {"type": "mlp", "layer_sizes": [432, 8, 3]},
                    "optimizer": {"learning_rate": 0.01}, "checkpoint": {"save_steps": 60},
                    "data": {"format": "image_folder", "train_files": ["pictures"]}})
        done = self.run_trainer("predict", "runs/images", "--data", "new")
        self.assertEqual(0, done.returncode, done.stderr)
        of_folder = self.run_trainer("predict", "runs/images/model", "--data", "new")
        self.assertEqual(done.stdout, of_folder.stdout, of_folder.stderr)
        self.assertEqual([(f"new/{i:02}.png", name) for i, name in enumerate(names * 8)],
                         [(row["file"], row["class"])
                          for row in map(json.loads, done.stdout.splitlines())])

    def lines_of_tests(self, run):
        return [(line["step"], line["samples"], line["loss"]) for line in self.metrics(run)
                if line.get("split") == "test"]

    def test_files_are_evaluated_once_at_the_end_with_the_best_weights(self):
        draw = random.Random(4)
        for name, rows in (("train", 60), ("dev", 21), ("test", 23)):
            self.write(name + ".csv", "a,color,kind\n" + "".join(
                f"{draw.randrange(9)},{draw.choice(('red', 'blue'))},{draw.choice(('hi', 'lo'))}\n"
                for _ in range(rows)))
        # The rate grows until the loss does, too.
        config = self.config("best", validation_files=["dev.csv"], test_files=["test.csv"])
        config.update(
            scheduler={"warmup_steps": 1000}, optimizer={"type": "sgd", "learning_rate": 300},
            evaluation={"eval_steps": 3},
            checkpoint={"save_best": "loss", "load_best_model_at_end": True, "save_steps": 30})
        job = self.train(config, 2)
        losses = {line["step"]: line["loss"] for line in self.metrics("best")
                  if line.get("split") == "validation"}
        best = min(losses, key=losses.get)
        self.assertLess(best, 30)
        ((step, samples, loss),) = self.lines_of_tests("best")
        self.assertEqual((best, 23), (step, samples))
        self.assertIn(f"test loss {loss:.4f}", job.out)
        found = json.loads(self.run_trainer(
            "evaluate", f"runs/best/checkpoints/step-{best}", "--data", "test.csv",
            "--json").stdout)
        self.assertAlmostEqual(found["loss"], loss, places=6)
        self.assertEqual(0, self.run_trainer("report", "runs/best").returncode)
        with open(self.path("runs/best/report.html")) as file:
            self.assertIn(f"{loss:.5g} at step {best}", file.read())

        # A run that is resumed makes up for a test that is missing, and for no other.
        config["run"]["resume"] = "auto"
        self.train(config, 2)
        self.assertEqual([(step, samples, loss)], self.lines_of_tests("best"))
        with open(self.path("runs/best/metrics.jsonl")) as file:
            lines = [line for line in file if '"split":"test"' not in line]
        with open(self.path("runs/best/metrics.jsonl"), "w") as file:
            file.writelines(lines)
        self.train(config, 2)
        self.assertEqual([(step, samples, loss)], self.lines_of_tests("best"))

        self.write("test.csv", "a,color,kind\n1,red,mid\n")
        config["run"] = {"name": "refused", "max_steps": 30}
        refused = self.run_ddprun(self.write_config(config))
        self.assertEqual(2, refused.returncode)
        self.assertIn("UNKNOWN LABEL", refused.err)
        self.assertFalse(os.path.exists(self.path("runs/refused")))

    def test_a_run_that_is_stopped_in_its_test_makes_up_for_it(self):
        with open(os.path.join(training.GOLDEN, "text.txt")) as file:
            text = file.read()
        self.write("long.txt", text * (20_000_000 // len(text)))
        config = training.gpt_config(run={"name": "gpt", "max_steps": 4, "resume": "auto"},
                                     checkpoint={"save_steps": 4})
        config["data"]["test_files"] = ["long.txt"]
        with open(self.path("out"), "w") as out:
            job = self.start("--nproc_per_node=2", self.write_config(config), stdout=out,
                             stderr=out)

        def said():
            with open(self.path("out")) as file:
                return file.read()

        harness.wait_until(lambda: "weights: " in said() or job.poll() is not None, said)
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=harness.DEADLINE_S)
        self.assertIn("the test (data.test_files) was given up", said())
        self.assertEqual([], self.lines_of_tests("gpt"))
        self.assertEqual("finished", self.metrics("gpt")[-1]["reason"])
        self.assertTrue(os.path.exists(self.path("runs/gpt/model/model.safetensors")))
        self.write("long.txt", text)
        self.train(config, 2)
        ((step, samples, _),) = self.lines_of_tests("gpt")
        self.assertEqual((4, True), (step, samples > 0))

    def test_a_language_model_is_evaluated_and_does_not_predict(self):
        config = training.gpt_config(
            run={"name": "gpt", "max_steps": 4}, checkpoint={"save_steps": 4},
            strategy={"type": "tensor_parallel"})
        config["data"]["validation_files"] = config["data"]["train_files"]
        self.train(config, 2)
        expected = [one for one in self.metrics("gpt") if one.get("split") == "validation"][-1]
        files = config["data"]["train_files"]
        files = files if isinstance(files, list) else [files]
        done = self.run_trainer("evaluate", "runs/gpt", "--json", "--data", *files)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertAlmostEqual(expected["loss"], json.loads(done.stdout)["loss"], places=5)
        done = self.run_trainer("evaluate", "runs/gpt/model", "--json", "--data", *files)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertAlmostEqual(expected["loss"], json.loads(done.stdout)["loss"], places=5)
        refused = self.run_trainer("predict", "runs/gpt", "--data", *files)
        self.assertEqual((2, ""), (refused.returncode, refused.stdout), refused.stderr)
        self.assertIn("ddp-trainer generate", refused.stderr)

    def test_a_run_on_random_numbers_takes_no_files(self):
        config = training.toy_config(checkpoint={"save_steps": 5})
        config["run"].update(name="toy", max_steps=5)
        self.train(config)
        self.write("new.csv", "a\n1\n")
        for command in ("evaluate", "predict"):
            refused = self.run_trainer(command, "runs/toy", "--data", "new.csv")
            self.assertEqual((2, ""), (refused.returncode, refused.stdout), refused.stderr)
            self.assertIn("trained on random numbers", refused.stderr)


if __name__ == "__main__":
    harness.main()
