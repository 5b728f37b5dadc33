"""configs/examples: each trains where it was copied to, and its model can be used."""

import csv
import json
import os
import shutil
import subprocess

import harness
import training

TRAINER = os.path.join(os.path.dirname(harness.DDPRUN), "ddp-trainer")
EXAMPLES = os.path.join(os.environ["DDPRUN_SOURCE_DIR"], "configs/examples")


class Examples(training.TrainingTest):
    def run_example(self, name):
        shutil.copytree(EXAMPLES, self.folder, dirs_exist_ok=True)
        job = self.run_ddprun("--nproc_per_node=2", f"{name}.json")
        self.assertEqual(job.returncode, 0, job.err)
        return job.out

    def trainer(self, *words):
        done = subprocess.run([TRAINER, *words], cwd=self.folder, capture_output=True, text=True,
                              check=False, timeout=harness.DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def accuracy(self, run, data):
        return json.loads(self.trainer("evaluate", run, "--json", "--data", data))["accuracy"]

    def test_a_table_with_a_class(self):
        self.run_example("classify_table")
        self.assertGreater(self.accuracy("runs/flowers", "data/flowers.csv"), 0.9)

    def test_a_number(self):
        self.run_example("predict_number")
        lines = self.trainer("predict", "runs/petals", "--data", "data/flowers.csv").splitlines()
        with open(self.path("data/flowers.csv"), newline="") as file:
            truth = [float(row["petal_width"]) for row in csv.DictReader(file)]
        errors = [abs(json.loads(line)["value"] - width) for line, width in zip(lines, truth)]
        self.assertEqual(len(lines), len(truth))
        self.assertLess(sum(errors) / len(errors), 0.2)

    def test_texts(self):
        self.run_example("classify_texts")
        self.assertGreater(self.accuracy("runs/rides", "data/rides.csv"), 0.85)

    def test_images(self):
        self.run_example("classify_images")
        self.assertGreater(self.accuracy("runs/shapes", "data/shapes"), 0.85)

    def test_text(self):
        self.assertRegex(self.run_example("write_text"), r"7 times 8 is \d+")

    def test_conversations(self):
        self.run_example("answer_questions")
        for country, capital in (("Peru", "Lima"), ("Iceland", "Reykjavík")):
            prompt = (f"<|im_start|>user\nWhat is the capital of {country}?<|im_end|>\n"
                      "<|im_start|>assistant\n")
            text = self.trainer("generate", "runs/capitals/model", "--temperature", "0",
                                "--prompt", prompt)
            self.assertEqual(text, f"{prompt}{capital}.\n")


if __name__ == "__main__":
    harness.main()
