"""report.on_event: a command gets each event of a run as JSON, and cannot disturb the run."""

import json
import os
import signal
import unittest

import harness
import training

# Notes its input, and whether it would obey SIGTERM and SIGPIPE.
NOTE = """#!/bin/sh
text=$(cat)
echo "$text" >> events.jsonl
grep SigBlk /proc/self/status >> masks
grep SigIgn /proc/self/status >> ignored
echo "a word of the command"
"""


class Events(training.TrainingTest):
    def run_with(self, command, **sections):
        config = training.gpt_config(
            report={"logging_steps": 1, "on_event": command},
            data={"validation_fraction": 0.2}, evaluation={"eval_steps": 2},
            checkpoint={"save_steps": 3})
        config["run"]["max_steps"] = 4
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return self.run_ddprun("--nproc_per_node=2", self.write_config(config))

    def events(self):
        with open(self.path("events.jsonl")) as file:
            return [json.loads(line) for line in file]

    def test_get_what_metrics_jsonl_has(self):
        os.chmod(self.script("note.sh", NOTE), 0o755)
        job = self.run_with("./note.sh")
        self.assertEqual(job.returncode, 0, job.err)
        # Commands of one moment may overtake each other.
        events = sorted(self.events(), key=lambda event: event["time"])
        self.assertEqual({event["run"] for event in events}, {"gpt"})
        self.assertEqual({event["folder"] for event in events}, {"runs/gpt"})
        self.assertEqual(events[0]["event"], "start")
        self.assertEqual(events[0]["ranks"], 2)
        self.assertEqual(events[-1]["event"], "end")
        self.assertEqual((events[-1]["step"], events[-1]["reason"]), (4, "finished"))
        lines = self.metrics("gpt")
        self.assertEqual(
            [(e["step"], e["loss"], e["perplexity"]) for e in events if e["event"] == "evaluation"],
            [(line["step"], line["loss"], line["perplexity"]) for line in lines
             if line.get("split") == "validation"])
        self.assertEqual(
            sorted((e["step"], e["path"]) for e in events if e["event"] == "checkpoint"),
            sorted((line["step"], line["path"]) for line in lines
                   if line.get("event") == "checkpoint"))
        with open(self.path("masks")) as file:
            self.assertEqual({line.split()[1] for line in file}, {"0" * 16})
        with open(self.path("ignored")) as file:
            ignored = [int(line.split()[1], 16) for line in file]
        for signal_number in (signal.SIGPIPE, signal.SIGXFSZ):
            self.assertEqual({mask >> (signal_number - 1) & 1 for mask in ignored}, {0})
        self.assertIn("a word of the command", job.err)
        self.assert_nothing_left()

    def test_say_how_a_run_failed(self):
        os.chmod(self.script("note.sh", NOTE), 0o755)
        job = self.run_with("./note.sh", optimizer={"type": "sgd", "learning_rate": 1e30},
                            training={"max_grad_norm": 0})
        self.assertEqual(job.returncode, 1, job.err)
        end = [event for event in self.events() if event["event"] == "end"]
        self.assertEqual([event["reason"] for event in end], ["failed"])
        self.assertTrue(end[0]["message"])

    def test_a_command_that_fails_is_said_once_and_the_run_goes_on(self):
        job = self.run_with("exit 3")
        self.assertEqual(job.returncode, 0, job.err)
        warning = "warning: the command of report.on_event ended with exit code 3"
        self.assertEqual((job.out + job.err).count(warning), 1, job.out + job.err)

    def test_a_command_that_does_not_end_is_left_behind(self):
        job = self.run_with(f"sleep 1000.{self.sleep_mark}")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("of its processes have not ended yet", job.out + job.err)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()
