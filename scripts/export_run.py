#!/usr/bin/env python3
"""Hands a run of ddp-trainer to Weights & Biases, MLflow or Trackio, or to readers of a Trainer.

    export_run.py runs/NAME --to=wandb
    export_run.py runs/NAME --to=mlflow --project=experiments --follow

The config becomes the parameters of the tracker's run, and each line of metrics.jsonl its metrics,
with names such as train/loss, at the step of the line. The tracker's own package and its own
variables decide where they go (WANDB_MODE, MLFLOW_TRACKING_URI and so on).

A run may be exported again, also while it trains: only new lines are handed over. What has been
exported is noted in exports.json in the run's folder; nothing else there changes. A run that went
back to a checkpoint makes some steps again: the tracker then has both values of them.

    export_run.py runs/NAME --to=trainer_state

writes trainer_state.json, as transformers' Trainer leaves it, into the run's folder.
"""

import argparse
import json
import math
import os
import pathlib
import signal
import sys
import time

WAIT_S = 5
NO_METRICS = {"ts", "step", "split", "event"}


def fail(what, hint):
    sys.exit(f"export_run.py: {what}\n  {hint}")


def number(value):
    """A number of metrics.jsonl, which has NaN as text; None for what is no number."""
    if value in ("nan", "inf", "-inf"):
        return float(value)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def milliseconds(seconds):
    return int(seconds * 1000)


class Run:
    """The folder of a run."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / "metrics.jsonl").is_file():
            fail(f"{folder} has no metrics.jsonl", "Name the folder of a run, such as runs/NAME.")
        self.name = self.folder.resolve().name

    def config(self):
        path = self.folder / "config.resolved.json"
        try:
            return json.loads(path.read_text())
        except OSError as error:
            fail(f"{path} cannot be read: {error.strerror}", "Each run has this file.")
        except ValueError as error:
            fail(f"{path} is not JSON: {error}", "It was damaged or edited.")

    def lines(self):
        """The whole lines, as {"ts": ...}. The last one may be half written."""
        lines = []
        with open(self.folder / "metrics.jsonl", encoding="utf-8", errors="replace") as file:
            for count, text in enumerate(file, 1):
                if not text.endswith("\n"):
                    break
                try:
                    line = json.loads(text)
                    line["ts"] + 0
                    lines.append(line)
                except (ValueError, KeyError, TypeError):
                    print(f"export_run.py: line {count} of {file.name} is damaged and left out",
                          file=sys.stderr)
        return lines


class Notes:
    """exports.json: for each tracker the run's id there, how many lines have been exported, and the
    time of the last one."""

    def __init__(self, run, tracker):
        self.path = run.folder / "exports.json"
        self.tracker = tracker
        try:
            self.all = json.loads(self.path.read_text())
            self.own = self.all.setdefault(tracker, {})
        except FileNotFoundError:
            self.all = {tracker: {}}
            self.own = self.all[tracker]
        except (ValueError, AttributeError):
            fail(f"{self.path} is damaged", "Move it away to export the run as a new one.")

    def new_lines(self, lines):
        count, last = self.own.get("lines", 0), self.own.get("ts", 0)
        if count == 0 or (count <= len(lines) and lines[count - 1]["ts"] == last):
            return lines[count:]
        return [line for line in lines if line["ts"] > last]  # a resumed run has cut its file

    def write(self):
        beside = self.path.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps(self.all, indent=2) + "\n")
        beside.replace(self.path)


class Wandb:
    def __init__(self, package, run, project, run_id):
        self.run = package.init(project=project, name=run.name, config=run.config(), id=run_id,
                                resume="allow")
        # Not W&B's own step, which refuses values of a step that comes again.
        self.run.define_metric("*", step_metric="step")
        self.id = self.run.id

    def log(self, step, _, metrics):
        self.run.log({**metrics, "step": step})

    def end(self, reason, _):
        self.run.summary["end"] = reason
        self.run.finish(exit_code=1 if reason == "failed" else 0)

    def close(self):
        self.run.finish()


class Trackio:
    """Its runs of a project are known by their names."""

    def __init__(self, package, run, project, run_id):
        self.package = package
        self.id = run_id or run.name
        package.init(project=project, name=self.id, config=run.config(), resume="allow")

    def log(self, step, _, metrics):
        self.package.log(metrics, step=step)

    def end(self, *_):
        self.close()

    def close(self):
        self.package.finish()


class Mlflow:
    STATUS = {"failed": "FAILED", "stopped": "KILLED"}
    LONGEST = 500  # characters of a parameter that every server takes

    def __init__(self, package, run, project, run_id):
        self.package = package
        self.client = package.MlflowClient()
        self.id = run_id or self.create(run, project)
        self.client.update_run(self.id, status="RUNNING")

    def create(self, run, project):
        experiment = self.client.get_experiment_by_name(project)
        place = experiment.experiment_id if experiment else self.client.create_experiment(project)
        begin = [milliseconds(line["ts"]) for line in run.lines()[:1]]
        made = self.client.create_run(place, *begin, run_name=run.name).info.run_id
        parameters = [self.package.entities.Param(f"{section}.{key}", json.dumps(value))
                      for section, keys in run.config().items() if isinstance(keys, dict)
                      for key, value in keys.items() if len(json.dumps(value)) <= self.LONGEST]
        for first in range(0, len(parameters), 100):
            self.client.log_batch(made, params=parameters[first:first + 100])
        return made

    def log(self, step, seconds, metrics):
        self.client.log_batch(self.id, metrics=[
            self.package.entities.Metric(name, value, milliseconds(seconds), step)
            for name, value in metrics.items()])

    def end(self, reason, seconds):
        self.client.set_terminated(self.id, self.STATUS.get(reason, "FINISHED"),
                                   milliseconds(seconds))

    def close(self):
        pass  # the run stays RUNNING, because it trains or may go on


TRACKERS = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio}


def log_history(lines):
    """The lines as those that a Trainer logs."""
    for line in lines:
        split = line.get("split")
        if split not in ("train", "validation"):
            continue
        entry = {"epoch": line["epoch"], "step": line["step"]}
        if split == "train":
            entry.update(loss=number(line["mean_loss"]), learning_rate=line["learning_rate"],
                         grad_norm=number(line["grad_norm"]))
        else:
            entry.update({f"eval_{key}": number(value) for key, value in line.items()
                          if key not in NO_METRICS | {"epoch", "samples", "seconds"}
                          and number(value) is not None})
            entry["eval_runtime"] = line["seconds"]
            if line["seconds"] > 0:
                entry["eval_samples_per_second"] = line["samples"] / line["seconds"]
        yield entry


def best_of(config, lines):
    """The fields about the best evaluation. Which values are better: docs/report.md."""
    metric = config["checkpoint"]["save_best"]
    less = metric in ("perplexity", "mse", "rmse", "mae") or metric.endswith(("loss", "error"))
    # An evaluation before the first step (evaluation.eval_on_start) decides nothing.
    values = [(number(line[metric]), line["step"]) for line in lines
              if line.get("split") == "validation" and line["step"] > 0
              and number(line.get(metric)) is not None]
    values = [(value, step) for value, step in values if value == value]  # without NaN
    if not metric or not values:
        return {}
    value, step = min(values) if less else min(values, key=lambda pair: (-pair[0], pair[1]))
    saved = [line["path"] for line in lines
             if line.get("event") == "checkpoint" and line["step"] == step and "path" in line]
    return {"best_metric": value, "best_global_step": step,
            "best_model_checkpoint": saved[-1] if saved else None}


def steps_of(config, steps):
    """The steps of the whole run: a Trainer notes them also where epochs decide."""
    if config["run"]["max_steps"] > 0:
        return config["run"]["max_steps"]
    in_an_epoch = round(steps[-1]["step"] / steps[-1]["epoch"])
    return max(1, math.ceil(config["run"]["max_epochs"] * in_an_epoch))


def write_trainer_state(run):
    config, lines = run.config(), run.lines()
    steps = [line for line in lines if line.get("split") == "train"]
    if not steps:
        fail(f"{run.folder} has no training step yet", "Export it later.")
    state = {
        "epoch": steps[-1]["epoch"],
        "global_step": steps[-1]["step"],
        "max_steps": steps_of(config, steps),
        "logging_steps": config["report"]["logging_steps"],
        "train_batch_size": config["training"]["per_device_train_batch_size"],
        "log_history": list(log_history(lines)),
        **best_of(config, lines),
    }
    path = run.folder / "trainer_state.json"
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(json.dumps(state, indent=2) + "\n")
    beside.replace(path)
    print(f"{path} has {len(state['log_history'])} entries")


def load(package):
    try:
        return __import__(package)
    except ImportError as error:
        fail(f"the package {package} cannot be loaded: {error}", f"pip install {package}")


def export_new_lines(run, tracker, notes):
    """Returns the line of the run's end, or None while it has none."""
    lines = run.lines()
    for line in notes.new_lines(lines):
        values = {f"{line['split']}/{key}": number(value) for key, value in line.items()
                  if key not in NO_METRICS} if "split" in line else {}
        values = {name: value for name, value in values.items() if value is not None}
        if values:
            tracker.log(line["step"], line["ts"], values)
    if lines:
        notes.own.update(lines=len(lines), ts=lines[-1]["ts"])
        notes.write()
    # A run that goes on cuts off the line of its end.
    return lines[-1] if lines and lines[-1].get("event") == "end" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="the folder of a run")
    parser.add_argument("--to", required=True, choices=[*TRACKERS, "trainer_state"],
                        help="the tracker, or a file as of a Trainer")
    parser.add_argument("--project", default="ddprun",
                        help="project or experiment there; default: ddprun")
    parser.add_argument("--id", help="go on with this run of the tracker")
    parser.add_argument("--follow", action="store_true", help="export until the run ends")
    options = parser.parse_args()
    run = Run(options.run)
    if options.to == "trainer_state":
        write_trainer_state(run)
        return 0
    notes = Notes(run, options.to)
    known = notes.own.get("id")
    if known and options.id and options.id != known:
        fail(f"{options.run} is already exported as {known}",
             f"Leave --id out, or move {notes.path} away.")
    tracker = TRACKERS[options.to](load(options.to), run, options.project, options.id or known)
    notes.own["id"] = tracker.id
    notes.write()
    end, interrupted = None, False
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        end = export_new_lines(run, tracker, notes)
        while options.follow and end is None:
            time.sleep(WAIT_S)
            end = export_new_lines(run, tracker, notes)
    except KeyboardInterrupt:  # Ctrl-C ends --follow: the tracker must not call the run crashed
        interrupted = True
    reason = end.get("reason", "finished") if end else None
    tracker.end(reason, end["ts"]) if end else tracker.close()
    print(f"{options.run} is exported to {options.to} as {tracker.id}"
          + (f": {reason}" if reason else ", and has not ended"))
    return 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
