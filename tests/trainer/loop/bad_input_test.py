"""Bad input: one clear message, the right exit code, quickly, and nothing left running."""

import json
import os
import resource
import shutil
import signal
import time

import harness
import training


class BadInput(training.TrainingTest):
    def expect_refusal(self, config_path, *texts, ranks=2, code=2):
        begin = time.monotonic()
        job = self.run_ddprun(f"--nproc_per_node={ranks}", config_path)
        seconds = time.monotonic() - begin
        self.assertEqual(job.returncode, code, job.err)
        for text in texts:
            self.assertIn(text, job.err)
        # Once, not once per rank, and no failure report of the launcher on top of it.
        self.assertEqual(job.err.count("\n-- ") + job.err.startswith("-- "), 1, job.err)
        self.assertEqual(job.out, "")
        self.assertLess(seconds, harness.DEADLINE_S / 2)
        self.assertFalse(os.path.exists(self.path("runs")))
        self.assert_nothing_left()

    def test_missing_config(self):
        self.write_config({}, "train.json")
        self.expect_refusal("trian.json", "trian.json", "train.json")

    def test_broken_json(self):
        path = self.write_config('{\n  "run": { "name" "x" }\n}\n')
        self.expect_refusal(path, "train.json:2:19", '  "run": { "name" "x" }', "^")

    def test_unknown_key(self):
        config = training.toy_config(strategy={"bucket_size_mb": 25})
        self.expect_refusal(self.write_config(config), "bucket_size_mb", "bucket_cap_mb")

    def test_wrong_type(self):
        config = training.toy_config(run={"max_steps": "many"})
        self.expect_refusal(self.write_config(config), "run.max_steps", "an integer")

    def test_value_out_of_range(self):
        config = training.toy_config(training={"per_device_train_batch_size": 0})
        self.expect_refusal(self.write_config(config), "per_device_train_batch_size", "from 1 to")

    def test_freeze_of_nothing_and_of_all(self):
        for words, text in ((["encod"], 'the word "encod"'),
                            (["weight", "bias"], "all parameters")):
            config = training.toy_config(training={"freeze": words})
            self.expect_refusal(self.write_config(config), text, "layers.*.weight")

    def test_learning_rate_factor_of_nothing(self):
        config = training.toy_config(optimizer={"learning_rate_factors": {"encod": 2}})
        self.expect_refusal(self.write_config(config), 'the word "encod"', "layers.*.weight",
                            "learning_rate_factors")

    def test_missing_data_file(self):
        config = training.gpt_config(data={"train_files": ["nowhere/*.txt"]})
        self.expect_refusal(self.write_config(config), "nowhere/*.txt")

    def test_text_without_a_byte(self):
        self.script("empty.txt", "")
        config = training.gpt_config(data={"train_files": ["empty.txt"]})
        self.expect_refusal(self.write_config(config), "empty.txt")

    def test_more_ranks_than_samples(self):
        # Without the key the last ranks get the first samples again.
        config = training.toy_config(data={"num_samples": 3, "sampler_drop_last": True})
        self.expect_refusal(self.write_config(config), "3 samples", "4 ranks", ranks=4)

    def test_single_strategy_with_several_ranks(self):
        config = training.toy_config(strategy={"type": "single"})
        self.expect_refusal(self.write_config(config), 'strategy.type is "single"', "2 ranks")

    def test_config_and_model_folder_disagree(self):
        config = training.gpt_config(model={"hidden_size": 64})
        self.expect_refusal(
            self.write_config(config), "model.hidden_size is 64 in the config and 32 in the folder"
        )

    def test_name_of_the_hub_for_a_model_folder(self):
        config = training.gpt_config(model={"name_or_path": "openai-community/gpt2"})
        self.expect_refusal(
            self.write_config(config),
            "model.name_or_path is a folder",
            "Nothing is downloaded",
            "hf download NAME --local-dir " + self.path("openai-community/gpt2"),
        )

    def test_weights_that_do_not_fit(self):
        config = training.gpt_config()
        folder = self.path("wider")
        shutil.copytree(config["model"].pop("name_or_path"), folder)
        with open(os.path.join(folder, "config.json")) as file:
            sizes = json.load(file)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(sizes | {"n_inner": 100}, file)
        config["model"]["name_or_path"] = folder
        self.expect_refusal(
            self.write_config(config),
            "WEIGHTS DO NOT FIT THE MODEL",
            "transformer.h.0.mlp.c_fc.weight",
        )


class WeightsThatCannotBeSaved(training.TrainingTest):
    def test_end_the_job_and_leave_its_metrics(self):
        # Writing past this limit fails as on a full disk, where its signal is ignored.
        def limit_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        config = training.toy_config(model={"layer_sizes": [10, 2000, 5]}, run={"max_steps": 2})
        job = self.run_ddprun(
            self.write_config(config), preexec_fn=limit_files, restore_signals=False
        )
        self.assertEqual(job.returncode, 1, job.err)
        self.assertIn("-- WEIGHTS NOT SAVED", job.err)
        self.assertIn("its weights, 125 KiB, could not be saved", job.err)
        self.assertIn("File too large", job.err)
        self.assertIn("They are lost", job.err)
        self.assertIn("warning: no checkpoint of step 2: ", job.out)
        self.assertIn("warning: 1 of 1 checkpoints could not be saved", job.out)
        self.assertNotIn("weights: ", job.err)
        steps = [line["step"] for line in self.metrics("toy") if line.get("split") == "train"]
        self.assertEqual(steps, [1, 2])
        self.assertEqual(self.metrics("toy")[-1]["reason"], "failed")
        # Neither half of the weights nor what looks like a model.
        self.assertEqual(
            sorted(os.listdir(self.path("runs/toy"))),
            ["checkpoints", "config.resolved.json", "metrics.jsonl", "run.lock"],
        )
        self.assert_nothing_left()

    def test_are_in_the_last_checkpoint(self):
        config = training.toy_config(
            run={"max_steps": 2, "resume": "auto"}, checkpoint={"save_at_end": False}
        )
        self.train(config)
        self.script("runs/toy/model", "in the way")
        config["run"]["max_steps"] = 4
        config["checkpoint"]["save_at_end"] = True
        job = self.run_ddprun(self.write_config(config))
        self.assertIn("They are not lost: runs/toy/checkpoints/step-4 has them.", job.err)
        self.assertIn("ddp-trainer checkpoint export", job.err)
        os.remove(self.path("runs/toy/model"))
        job = self.train(config, 1, "--set", "run.resume=runs/toy")
        self.assertIn("nothing to do", job.out)
        self.assertTrue(os.path.exists(self.path("runs/toy/model/model.safetensors")))


if __name__ == "__main__":
    harness.main()
