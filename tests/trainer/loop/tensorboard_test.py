"""TensorBoard's own reader finds the numbers of metrics.jsonl in the event files of a run, also
after a resume, whose steps it shows once."""

import os
import shutil
import struct
import sys
import unittest

import harness
import training

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as error:
    print(f"left out: {error}; pip install tensorboard")
    sys.exit(77)


class Tensorboard(training.TrainingTest):
    def read(self, run):
        folder = self.path(f"runs/{run}/tensorboard")
        events = event_accumulator.EventAccumulator(
            folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
        events.Reload()
        return events, sorted(os.listdir(folder))

    def check(self, run, events):
        lines = self.metrics(run)
        for split, fields in (("train", ("loss", "mean_loss", "learning_rate", "grad_norm")),
                              ("validation", ("loss",))):
            for field in fields:
                found = [(e.step, e.value) for e in events.Scalars(f"{split}/{field}")]
                expected = [(line["step"], struct.unpack("f", struct.pack("f", line[field]))[0])
                            for line in lines if line.get("split") == split]
                self.assertEqual(found, expected)
                self.assertGreater(len(found), 1)

    def config(self, steps):
        config = training.gpt_config(
            data={"validation_fraction": 0.2}, evaluation={"eval_steps": 5},
            checkpoint={"save_steps": 4, "save_total_limit": 0},
            report={"logging_steps": 1, "tensorboard": True})
        config["run"]["max_steps"] = steps
        return config

    def test_a_resumed_run_shows_each_step_once(self):
        self.train(self.config(11), 2)
        events, files = self.read("gpt")
        self.check("gpt", events)
        self.assertEqual(len(files), 1)
        text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
        self.assertIn('"learning_rate"', text)
        # As if the run had been killed before its later saves: steps 5 to 11 are done again.
        checkpoints = self.path("runs/gpt/checkpoints")
        for name in os.listdir(checkpoints):
            if name.startswith("step-") and name != "step-4":
                shutil.rmtree(os.path.join(checkpoints, name))
        self.train(self.config(20), 2, "--set", "run.resume=" + self.path("runs/gpt"))
        events, files = self.read("gpt")
        self.check("gpt", events)
        self.assertEqual(len(files), 2)


if __name__ == "__main__":
    unittest.main()
