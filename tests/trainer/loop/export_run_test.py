"""scripts/export_run.py: wandb, MLflow and transformers read back what metrics.jsonl has."""

import contextlib
import glob
import io
import json
import math
import os
import runpy
import signal
import subprocess
import sys
import unittest
from unittest import mock

import harness
import training

LIBRARIES = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], ".deps", "venv", "trackers")
sys.path.insert(0, LIBRARIES)
try:
    import mlflow
    import transformers
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal import datastore
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

SCRIPT = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "scripts", "export_run.py")


class ExportRun(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.uri = "file:" + self.path("mlruns")
        self.client = mlflow.MlflowClient(tracking_uri=self.uri)

    def export(self, *args, libraries=LIBRARIES, code=0):
        env = self.env(PYTHONPATH=libraries, WANDB_MODE="offline", WANDB_DIR=self.folder,
                       WANDB_SILENT="true", HOME=self.folder)
        done = subprocess.run([sys.executable, SCRIPT, *args], env=env, cwd=self.folder,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def export_to_mlflow(self, *args):
        """In this process, because loading the package takes seconds."""
        text = io.StringIO()
        argv = [SCRIPT, self.path("runs/gpt"), "--to=mlflow", *args]
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(text), \
                mock.patch.dict(os.environ, MLFLOW_TRACKING_URI=self.uri):
            try:
                runpy.run_path(SCRIPT, run_name="__main__")
            except SystemExit as end:
                return text.getvalue() if end.code == 0 else str(end)
        return text.getvalue()

    def note(self, tracker):
        with open(self.path("runs/gpt/exports.json")) as file:
            return json.load(file)[tracker]

    def train_gpt(self, steps=4):
        config = training.gpt_config(data={"validation_fraction": 0.2},
                                     evaluation={"eval_steps": 2})
        config["run"]["max_steps"] = steps
        self.train(config)

    def expected(self, field="loss", split="train"):
        return [(line["step"], line[field]) for line in self.metrics("gpt")
                if line.get("split") == split]

    def history(self, name):
        run = self.note("mlflow")["id"]
        return [(m.step, m.value) for m in self.client.get_metric_history(run, name)]

    def status(self):
        return self.client.get_run(self.note("mlflow")["id"]).info.status

    def wandb_records(self):
        records = []
        for path in sorted(glob.glob(self.path("wandb/offline-run-*/*.wandb"))):
            store = datastore.DataStore()
            store.open_for_scan(path)
            while (data := store.scan_data()) is not None:
                record = wandb_internal_pb2.Record()
                record.ParseFromString(data)
                records.append(record)
            store.close()
        return records

    def test_mlflow_has_the_metrics_and_the_config(self):
        self.train_gpt()
        self.assertIn("finished", self.export_to_mlflow())
        for split in ("train", "validation"):
            self.assertEqual(self.history(f"{split}/loss"), self.expected(split=split))
        run = self.client.get_run(self.note("mlflow")["id"])
        self.assertEqual(self.status(), "FINISHED")
        self.assertEqual(run.info.run_name, "gpt")
        # The times of the run, not of the export.
        lines = self.metrics("gpt")
        self.assertEqual((run.info.start_time, run.info.end_time),
                         (int(lines[0]["ts"] * 1000), int(lines[-1]["ts"] * 1000)))
        self.assertEqual(run.data.params["model.hidden_size"], "32")

    def test_a_run_under_way_is_exported_once_and_goes_on_there(self):
        self.train_gpt()
        path = self.path("runs/gpt/metrics.jsonl")
        with open(path) as file:
            lines = file.readlines()
        with open(path, "w") as file:
            file.writelines([*lines[:3], lines[3][:20]])  # the last line is half written
        self.assertIn("has not ended", self.export_to_mlflow())
        self.assertEqual(self.status(), "RUNNING")
        half = self.history("train/loss")
        with open(path, "w") as file:
            file.writelines(lines)
        self.export_to_mlflow()
        self.assertLess(len(half), len(self.expected()))
        self.assertEqual(self.history("train/loss"), self.expected())
        self.assertEqual(self.status(), "FINISHED")

    def test_ctrl_c_ends_following_without_a_traceback(self):
        self.train_gpt()
        path = self.path("runs/gpt/metrics.jsonl")
        lines = [line for line in self.metrics("gpt") if line.get("event") != "end"]
        with open(path, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        env = self.env(PYTHONPATH=LIBRARIES, MLFLOW_TRACKING_URI=self.uri, HOME=self.folder)
        job = subprocess.Popen(
            [sys.executable, SCRIPT, "runs/gpt", "--to=mlflow", "--follow"], env=env,
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(job.kill)
        harness.wait_until(lambda: os.path.exists(self.path("runs/gpt/exports.json"))
                           and "lines" in self.note("mlflow"), "the first lines exported")
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=harness.DEADLINE_S)
        self.assertEqual(job.returncode, 130, out)
        self.assertIn("and has not ended", out)
        self.assertNotIn("Traceback", out)
        self.assertEqual(self.status(), "RUNNING")

    def test_a_resumed_run_adds_the_steps_that_it_makes_again(self):
        self.train_gpt()
        self.export_to_mlflow()
        before = self.expected()
        path = self.path("runs/gpt/metrics.jsonl")
        lines = self.metrics("gpt")
        again = [line for line in lines if line.get("step", 0) <= 2 and line.get("event") != "end"]
        for step in (3, 4):
            again.append({"ts": lines[-1]["ts"] + step, "split": "train", "step": step,
                          "loss": "nan"})
        with open(path, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in again)
        self.export_to_mlflow()
        found = self.history("train/loss")
        self.assertEqual(found[:len(before)], before)
        self.assertEqual([step for step, _ in found[len(before):]], [3, 4])
        self.assertTrue(all(math.isnan(value) for _, value in found[len(before):]))

    def test_wandb_has_the_metrics_and_the_config(self):
        self.train_gpt()
        self.export("runs/gpt", "--to=wandb", "--project=mine")
        self.export("runs/gpt", "--to=wandb", "--project=mine")  # nothing is doubled
        records = self.wandb_records()
        rows = [{item.key or item.nested_key[0]: json.loads(item.value_json)
                 for item in record.history.item}
                for record in records if record.WhichOneof("record_type") == "history"]
        for split in ("train", "validation"):
            name = f"{split}/loss"
            self.assertEqual([(row["step"], row[name]) for row in rows if name in row],
                             self.expected(split=split))
        runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
        self.assertEqual({(run.run_id, run.project, run.display_name) for run in runs},
                         {(self.note("wandb")["id"], "mine", "gpt")})
        config = {update.key: json.loads(update.value_json) for update in runs[0].config.update}
        self.assertEqual(config["model"]["hidden_size"], 32)

    def test_a_trainer_reads_its_state(self):
        config = training.gpt_config(data={"validation_fraction": 0.2},
                                     evaluation={"eval_steps": 2, "metrics": ["accuracy"],
                                                 "eval_on_start": True},
                                     optimizer={"learning_rate": 0},
                                     checkpoint={"save_best": "accuracy"})
        config["run"]["max_steps"] = 5
        self.train(config)
        for _ in range(2):
            self.assertIn("entries", self.export("runs/gpt", "--to=trainer_state"))
        state = transformers.TrainerState.load_from_json(self.path("runs/gpt/trainer_state.json"))
        self.assertEqual((state.global_step, state.max_steps, state.logging_steps), (5, 5, 1))
        for key, field, split in (("loss", "mean_loss", "train"),
                                  ("eval_loss", "loss", "validation"),
                                  ("grad_norm", "grad_norm", "train"),
                                  ("eval_accuracy", "accuracy", "validation")):
            found = [(entry["step"], entry[key]) for entry in state.log_history if key in entry]
            self.assertEqual(found, self.expected(field, split), key)
        # All are equal, but the one before the first step does not count.
        best = self.expected("accuracy", "validation")[1]
        self.assertEqual((state.best_global_step, state.best_metric), best)
        self.assertIn(f"{best[0]}", os.path.basename(state.best_model_checkpoint))

    def test_a_trainers_state_has_the_steps_of_the_epochs(self):
        config = training.gpt_config()
        config["run"].update(max_steps=-1, max_epochs=0.1)
        self.train(config)
        self.export("runs/gpt", "--to=trainer_state")
        state = transformers.TrainerState.load_from_json(self.path("runs/gpt/trainer_state.json"))
        self.assertEqual(state.max_steps, self.expected()[-1][0])

    def test_says_what_is_wrong_and_changes_nothing(self):
        self.assertIn("runs/none has no metrics.jsonl",
                      self.export("runs/none", "--to=mlflow", code=1))
        self.train_gpt()
        self.assertIn("pip install wandb",
                      self.export("runs/gpt", "--to=wandb", libraries=self.path("none"), code=1))
        self.assertFalse(os.path.exists(self.path("runs/gpt/exports.json")))
        self.export_to_mlflow()
        self.assertIn("already exported as", self.export_to_mlflow("--id=other"))
        self.script("runs/gpt/exports.json", "[")
        self.assertIn("is damaged", self.export_to_mlflow())


if __name__ == "__main__":
    unittest.main()
