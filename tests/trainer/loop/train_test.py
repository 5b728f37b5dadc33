"""Whole runs: the same losses as PyTorch, and everything that a run leaves behind."""

import json
import os
import random
import re
import resource
import shutil

import harness
import training


class FewDescriptors(training.TrainingTest):
    def test_are_enough_for_many_ranks_where_more_may_be_asked_for(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        job = self.run_ddprun(
            "--nproc_per_node=6", self.write_config(training.toy_config(run={"max_steps": 1})),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard)),
        )
        self.assertEqual((job.returncode, job.err), (0, ""))


class Losses(training.TrainingTest):
    def assert_close(self, found, expected, tolerance):
        self.assertEqual(len(found), len(expected))
        for step, (a, b) in enumerate(zip(found, expected)):
            self.assertLess(abs(a - b), tolerance, f"step {step + 1}: {a} instead of {b}")

    def test_of_a_gpt_equal_pytorch_ddp(self):
        golden = training.read_golden("gpt_losses.json")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.train(training.gpt_config(run={"name": f"gpt{ranks}"}), ranks)
                self.assert_close(self.losses(f"gpt{ranks}"), golden["losses"][str(ranks)], 1e-5)

    def test_of_the_toy_model_equal_pytorch_ddp(self):
        golden = training.read_golden("toy_losses.json")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.train(training.toy_config(run={"name": f"toy{ranks}"}), ranks)
                self.assert_close(self.losses(f"toy{ranks}"), golden["losses"][str(ranks)], 1e-6)

    def test_do_not_depend_on_buckets_or_overlap(self):
        variants = {
            "one": {"bucket_cap_mb": 25},
            "many": {"bucket_cap_mb": 0.001, "first_bucket_mb": 0.001},
        }
        for overlap in ("none", "step", "both"):
            variants[overlap] = {**variants["many"], "overlap": overlap}
        losses = {}
        for name, strategy in variants.items():
            # The norm of clipping is summed bucket by bucket: its last bits follow the layout.
            config = training.gpt_config(
                run={"name": name}, strategy=strategy, training={"max_grad_norm": 0}
            )
            self.train(config, 2)
            losses[name] = self.losses(name)
            self.assertEqual(losses["one"], losses[name], name)

    def test_of_accumulated_micro_batches_equal_one_large_batch(self):
        small = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
        large = {"per_device_train_batch_size": 8}
        # 77 is divided neither by 8 nor by 2: the last step of an epoch is smaller.
        data = {"num_samples": 77}
        for name, batches in (("small", small), ("large", large)):
            self.train(training.toy_config(run={"name": name}, training=batches, data=data))
        self.assert_close(self.losses("small"), self.losses("large"), 1e-6)

    def test_of_validation_count_every_sample_once(self):
        # 5 samples on 3 ranks: the sampler would pad with one.
        for ranks in (1, 3):
            config = training.gpt_config(
                run={"name": f"val{ranks}", "max_steps": 1},
                optimizer={"learning_rate": 0},
                data={"validation_fraction": 5.5 / 630},
            )
            self.train(config, ranks)
        one, three = self.losses("val1", "validation"), self.losses("val3", "validation")
        self.assertEqual(len(one), 1)
        self.assertAlmostEqual(one[0], three[0], delta=1e-6)
        samples = [m["samples"] for m in self.metrics("val3") if m.get("split") == "validation"]
        self.assertEqual(samples, [5])


    def test_on_some_samples_equal_those_on_a_file_of_them(self):
        golden = training.gpt_config()["data"]
        with open(golden["train_files"][0], "rb") as file:
            text = file.read()
        with open(self.path("short.txt"), "wb") as file:
            file.write(text[:40 * golden["max_seq_length"] + 1])
        for name, data in (("some", {"max_train_samples": 40}),
                           ("all", {"train_files": ["short.txt"]})):
            self.train(training.gpt_config(run={"name": name}, data=data), 2)
        self.assertEqual(self.losses("some"), self.losses("all"))

    def test_on_some_rows_take_them_at_equal_distances(self):
        draw = random.Random(5)
        rows = [f"{draw.random()},{draw.random()},{'abc'[i // 10]}" for i in range(30)]
        for name, chosen in (("rows.csv", rows), ("third.csv", rows[::3])):
            self.script(name, "\n".join(["x,y,label", *chosen]))
        # Scaled by all rows of the file, so that both need the same numbers.
        config = {
            "model": {"type": "mlp", "layer_sizes": [2, 8, 3]},
            "data": {"format": "csv", "train_files": ["rows.csv"], "label_column": "label",
                     "validation_files": ["rows.csv"], "data_seed": 1},
            "training": {"per_device_train_batch_size": 2},
            "report": {"logging_steps": 1}}
        for name, data in (("some", {"max_train_samples": 10, "max_eval_samples": 10}),
                           ("all", {"train_files": ["third.csv"],
                                    "validation_files": ["third.csv"]})):
            self.train({**config, "run": {"name": name, "max_epochs": 3},
                        "data": {**config["data"], **data}}, 2)
        for split in ("train", "validation"):
            self.assertEqual(self.losses("some", split), self.losses("all", split))

    def test_begin_with_an_evaluation_that_decides_nothing(self):
        # It becomes worse with each step.
        config = training.gpt_config(
            run={"max_steps": 4}, data={"validation_fraction": 0.05, "max_eval_samples": 7},
            optimizer={"type": "sgd", "learning_rate": 100},
            evaluation={"eval_steps": 2, "eval_on_start": True, "early_stopping_patience": 2},
            checkpoint={"save_best": "loss", "save_steps": 0})
        for key in ("betas", "eps"):
            del config["optimizer"][key]
        self.train(config, 2)
        lines = [m for m in self.metrics("gpt") if m.get("split") == "validation"]
        self.assertEqual([line["step"] for line in lines], [0, 2, 4])
        self.assertEqual({line["samples"] for line in lines}, {7})
        losses = [line["loss"] for line in lines]
        self.assertLess(losses[0], losses[1], "the case needs a loss that rises")
        saved = [m["step"] for m in self.metrics("gpt") if m.get("event") == "checkpoint"]
        self.assertEqual(saved, [step for step in (2, 4) if step == 2 or losses[2] < losses[1]])
        # The start is the model as it was made.
        self.train(training.gpt_config(
            run={"name": "frozen", "max_steps": 1}, optimizer={"learning_rate": 0},
            data={"validation_fraction": 0.05, "max_eval_samples": 7}), 2)
        self.assertAlmostEqual(losses[0], self.losses("frozen", "validation")[0], delta=1e-6)


class Run(training.TrainingTest):
    def test_leaves_config_metrics_and_weights(self):
        job = self.train(training.gpt_config(evaluation={"sample_length": 50}), 2)
        self.assertEqual(
            sorted(os.listdir(self.path("runs/gpt"))),
            ["checkpoints", "config.resolved.json", "metrics.jsonl", "model", "run.lock"],
        )
        self.assertEqual(
            sorted(os.listdir(self.path("runs/gpt/model"))),
            [".ddprun-files.json", "config.json", "model.safetensors"],
        )
        first, *_, last = self.metrics("gpt")
        self.assertEqual(first["world"]["size"], 2)
        self.assertEqual(last["reason"], "finished")
        self.assertIn("sample:\n", job.out)
        self.assert_nothing_left()

    def test_starts_where_the_weights_of_another_end(self):
        self.train(training.gpt_config(data={"validation_fraction": 0.05}), 2)
        config = training.gpt_config(
            run={"name": "again", "max_steps": 1},
            model={"name_or_path": "runs/gpt/model"},
            optimizer={"learning_rate": 0},
            data={"validation_fraction": 0.05},
        )
        self.train(config, 2)
        self.assertAlmostEqual(
            self.losses("again", "validation")[0],
            self.losses("gpt", "validation")[-1],
            delta=1e-6,
        )

    def test_of_the_resolved_config_repeats_the_losses_to_the_bit(self):
        self.train(training.gpt_config(), 2)
        with open(self.path("runs/gpt/config.resolved.json")) as file:
            resolved = json.load(file)
        resolved["run"]["name"] = "repeated"
        self.train(resolved, 2)
        self.assertEqual(self.losses("repeated"), self.losses("gpt"))

    def test_prints_lines_of_rank_zero_only(self):
        job = self.train(training.toy_config(), 4)
        steps = re.findall(r"^step +(\d+)/20", job.out, re.MULTILINE)
        self.assertEqual([int(step) for step in steps], list(range(1, 21)))

    def test_ends_at_a_loss_that_is_no_number(self):
        config = training.toy_config(optimizer={"learning_rate": 1e30}, report={"logging_steps": 5})
        job = self.run_ddprun("--nproc_per_node=3", self.write_config(config))
        self.assertEqual(job.returncode, 1)
        # By rank 0, and in the launcher's words about the worker that ended first.
        self.assertEqual(len(re.findall("^-- LOSS IS NO NUMBER -+ step 2$", job.err, re.M)), 1)
        # Which of the two depends on the machine's sums.
        told = re.findall("is (?:NaN|infinite); a finite number was expected.", job.err)
        self.assertEqual(len(told), 2)
        self.assertIn("Lower optimizer.learning_rate", job.err)
        end = self.metrics("toy")[-1]
        self.assertEqual((end["event"], end["reason"]), ("end", "failed"))
        self.assertIn(told[0], end["message"])
        self.assertFalse(os.path.exists(self.path("runs/toy/model")))

    def test_goes_on_after_a_loss_that_is_no_number_where_wanted(self):
        config = training.toy_config(
            optimizer={"learning_rate": 1e30}, training={"stop_on_bad_loss": False}
        )
        self.train(config)
        self.assertEqual(self.losses("toy")[-1], "nan")

    def test_is_not_lost_where_the_sample_cannot_be_written(self):
        folder = self.path("init")
        shutil.copytree(os.path.join(training.GOLDEN, "gpt_init"), folder)
        self.script("init/generation_config.json", '{"eos_token_id": "the end"}')
        config = training.gpt_config(
            model={"name_or_path": folder}, run={"max_steps": 1}, evaluation={"sample_length": 9}
        )
        job = self.train(config)
        self.assertIn("sample:\nnone: ", job.out)
        self.assertIn('eos_token_id is "the end"', job.out)
        self.assertTrue(os.path.exists(self.path("runs/gpt/model/model.safetensors")))

    def test_takes_overrides_from_the_command_line(self):
        self.train(training.toy_config(), 1, "--set", "run.max_steps=3", "--set", "run.name=x")
        self.assertEqual(len(self.losses("x")), 3)


if __name__ == "__main__":
    harness.main()
