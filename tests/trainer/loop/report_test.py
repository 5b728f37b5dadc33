"""The page of `ddp-trainer report` is whole HTML, has the numbers of metrics.jsonl, loads nothing,
and shows all text of a run as text. A run with report.tensorboard or early stopping leaves what
the page needs, too."""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import harness
import training

TRAINER = os.path.join(os.path.dirname(os.environ["DDPRUN_PROGRAM"]), "ddp-trainer")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
OPEN_ENDED = {"meta", "line", "path", "br"}  # an SVG's line and path end themselves


class Page(html.parser.HTMLParser):
    """Asserts that each element ends, and collects lines of charts, scripts and references."""

    def __init__(self, text):
        super().__init__()
        self.open, self.lines, self.scripts, self.references, self.text = [], {}, 0, [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.scripts += tag == "script"
        self.references += [attrs[name] for name in ("src", "href", "action", "srcset", "data")
                            if name in attrs]
        assert not any(name.startswith("on") for name in attrs), attrs
        if tag == "path":
            self.lines[attrs["data-label"]] = dict(
                zip(map(float, attrs["data-x"].split()), map(float, attrs["data-y"].split())))
        if tag not in OPEN_ENDED:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in OPEN_ENDED:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class Report(training.TrainingTest):
    def report(self, *args, command="report"):
        run = subprocess.run([TRAINER, command, *args], cwd=self.folder, capture_output=True,
                             text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        path = re.fullmatch(rf"{command}: (.*)\n", run.stdout)[1]
        with open(self.path(path)) as file:
            return file.read()

    def config(self, name, **sections):
        config = training.gpt_config(evaluation={"eval_steps": 4},
                                     data={"validation_fraction": 0.2}, **sections)
        config["run"]["name"] = name
        return config

    def test_the_numbers_are_those_of_the_metrics(self):
        self.train(self.config("run"), 2)
        text = self.report("runs/run")
        page = Page(text)
        lines = self.metrics("run")
        trained = [line for line in lines if line.get("split") == "train"]
        self.assertGreater(len(trained), 5)
        for label, field in {"training": "mean_loss", "learning rate": "learning_rate",
                             "gradient norm": "grad_norm"}.items():
            self.assertEqual(page.lines[label], {line["step"]: line[field] for line in trained})
        self.assertEqual(page.lines["samples/s"],
                         {line["step"]: line["samples"] / line["step_seconds"] for line in trained})
        evaluated = {line["step"]: line["loss"] for line in lines
                     if line.get("split") == "validation"}
        self.assertGreater(len(evaluated), 1)
        self.assertEqual(page.lines["validation"], evaluated)
        best = min(evaluated, key=evaluated.get)
        self.assertIn(f"{evaluated[best]:.5g} at step {best}", page.text)
        ledger = [line for line in lines if line.get("event") == "ledger"][-1]
        self.assertIn(f"{ledger['evaluation_seconds']:.5g} s", page.text)
        self.assertIn("finished", page.text)
        times = [line["own_seconds"] for line in trained if "own_seconds" in line][-1]
        self.assertLessEqual(times["all"]["min"], times["all"]["max"])
        self.assertIn("A step by rank", page.text)

    def test_it_loads_nothing_and_text_stays_text(self):
        name = 'x\'"><script>alert(1)</script><img src=a onerror=alert(1)>&amp;'
        self.train(self.config("one"))
        self.train(self.config("two", optimizer={"learning_rate": 0.02}))
        metrics = self.path("runs/two/metrics.jsonl")
        with open(metrics) as file:
            lines = [json.loads(line) for line in file]
        lines[0].update(run=name, device=name)
        lines[-1].update(reason=name, message=name)
        with open(metrics, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        text = self.report("runs/one", "runs/two", "--out=both.html")
        page = Page(text)
        self.assertEqual((page.scripts, page.references), (1, []))
        without_name = text.replace("'http://www.w3.org/2000/svg'", "")  # of SVG's elements
        self.assertNotRegex(without_name, r"https?:|url\(|@import")
        self.assertIn(name, page.text)
        self.assertIn(name + " training", page.lines)
        self.assertIn("optimizer.learning_rate", page.text)
        self.assertNotIn("per_device_train_batch_size", page.text.split("All keys")[0])
        if BROWSER is None:
            print("without a browser: the page was not loaded by one", file=sys.stderr)
            return
        dump = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
             f"--user-data-dir={self.path('browser')}", "file://" + self.path("both.html")],
            capture_output=True, text=True, check=True, timeout=240).stdout
        self.assertEqual(Page(dump).lines, page.lines)
        self.assertEqual(Page(dump).scripts, 1)

    def test_a_picture_is_the_step_of_the_report_alone(self):
        self.train(self.config("run", report={"trace_steps": [3, 4]}), 2)
        self.train(self.config("untraced"))
        whole = self.report("runs/run", "runs/untraced", "--out=both.html")
        alone = self.report("runs/run", "runs/untraced", command="picture")
        figure = re.search(r"<figure.*</figure>", alone, re.DOTALL)[0]
        self.assertIn(figure, whole)
        self.assertIn("backward", figure)
        self.assertNotIn("<table>", alone)
        self.assertTrue(os.path.exists(self.path("runs/run/picture.html")))
        run = subprocess.run([TRAINER, "picture", "runs/untraced"], cwd=self.folder,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("NO MEASURED STEP", run.stderr)
        self.assertFalse(os.path.exists(self.path("runs/untraced/picture.html")))

    def test_what_is_no_page_of_its_own_stays(self):
        self.train(self.config("run"))
        before = self.metrics("run")
        for args, title in ((["runs/run", "--out=runs/run/metrics.jsonl"], "NOT REPLACED"),
                            (["runs"], "NO RUN FOLDER")):
            run = subprocess.run([TRAINER, "report", *args], cwd=self.folder, capture_output=True,
                                 text=True, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(title, run.stderr)
        self.assertEqual(self.metrics("run"), before)
        self.assertFalse(os.path.exists(self.path("runs/report.html")))

    def test_early_stopping_ends_every_strategy_after_the_same_step(self):
        for strategy, ranks in (("single", 1), ("ddp", 2), ("zero2", 2), ("pipeline", 2),
                                ("tensor_parallel", 2)):
            config = self.config(strategy, strategy={"type": strategy},
                                 optimizer={"learning_rate": 1e-12},
                                 checkpoint={"save_best": "loss", "load_best_model_at_end": True})
            config["run"]["max_steps"] = 100
            config["evaluation"].update(early_stopping_patience=2, early_stopping_threshold=0.5)
            if strategy == "tensor_parallel":
                config["training"]["per_device_train_batch_size"] *= 2
            job = self.train(config, ranks)
            self.assertIn("training ends early: loss has not improved in 2 evaluations", job.out)
            lines = self.metrics(strategy)
            self.assertEqual((lines[-1]["reason"], lines[-1]["step"]), ("finished", 12))
            self.assertTrue(os.path.exists(self.path(f"runs/{strategy}/model/model.safetensors")))

    def test_a_plateau_lowers_the_learning_rate_of_every_strategy_after_the_same_step(self):
        scheduler = {"lr_scheduler_type": "reduce_lr_on_plateau", "warmup_steps": 0,
                     "plateau_patience": 1, "plateau_threshold": 0.9}
        for strategy, ranks in (("single", 1), ("ddp", 2), ("zero3", 2)):
            config = self.config(strategy, strategy={"type": strategy}, scheduler=scheduler,
                                 optimizer={"learning_rate": 1e-12})
            config["run"]["max_steps"] = 16
            config["evaluation"]["eval_steps"] = 4
            job = self.train(config, ranks)
            # The first evaluation is the best one, and two may not improve it.
            self.assertIn("the learning rate falls to 1.00e-13: loss has not improved in 2 "
                          "evaluations", job.out)
            rates = [line["learning_rate"] for line in self.metrics(strategy)
                     if line.get("split") == "train"]
            self.assertEqual(rates, [1e-12] * 12 + [1e-12 * 0.1] * 4)

    def test_the_weights_at_the_end_are_those_of_the_best_step(self):
        for strategy in ("ddp", "zero3", "pipeline"):
            # The rate grows until the loss does, too.
            config = self.config(strategy, strategy={"type": strategy},
                                 scheduler={"warmup_steps": 1000},
                                 checkpoint={"save_best": "loss", "load_best_model_at_end": True})
            config["optimizer"] = {"type": "sgd", "learning_rate": 300}
            config["run"]["max_steps"] = 20
            job = self.train(config, 2)
            losses = {line["step"]: line["loss"] for line in self.metrics(strategy)
                      if line.get("split") == "validation"}
            best = min(losses, key=losses.get)
            self.assertLess(best, 20)
            self.assertIn(f"of the best, {best}\n", job.out)
            subprocess.run([TRAINER, "checkpoint", "export",
                            f"runs/{strategy}/checkpoints/step-{best}", f"--to=best-{strategy}"],
                           cwd=self.folder, capture_output=True, check=True)
            weights = []
            for folder in (f"runs/{strategy}/model", f"best-{strategy}"):
                with open(self.path(f"{folder}/model.safetensors"), "rb") as file:
                    weights.append(file.read())
            self.assertEqual(*weights)


if __name__ == "__main__":
    unittest.main()
