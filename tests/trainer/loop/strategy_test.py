"""How ranks share the work: what each key of "strategy" changes, and what it must not change."""

import json
import struct

import harness
import training

SMALL = {"bucket_cap_mb": 0.001, "first_bucket_mb": 0.001}


class Strategy(training.TrainingTest):
    def gpt_losses(self, name, **strategy):
        config = training.gpt_config(
            run={"name": name, "max_steps": 8},
            training={"max_grad_norm": 0, "gradient_accumulation_steps": 2},
            strategy=strategy,
        )
        job = self.train(config, 2)
        return self.losses(name), job.out

    def test_steps_within_backward_change_no_bit_of_the_losses(self):
        plain, _ = self.gpt_losses("plain", **SMALL)
        in_backward, _ = self.gpt_losses("in_backward", optimizer_in_backward=True, **SMALL)
        self.assertEqual(in_backward, plain)

    def test_recomputed_blocks_change_no_bit_of_two_ranks(self):
        ways = ({}, {"static_graph": True}, {"find_unused_parameters": True},
                {"optimizer_in_backward": True}, {"overlap": "none"})
        for i, strategy in enumerate(ways):
            losses = []
            for recomputes in (False, True):
                config = training.gpt_config(
                    run={"name": f"run{i}{recomputes}", "max_steps": 8},
                    model={"dropout": 0.1},
                    training={
                        "max_grad_norm": 0,
                        "gradient_accumulation_steps": 2,
                        "gradient_checkpointing": recomputes,
                    },
                    strategy={**SMALL, **strategy},
                )
                self.train(config, 2)
                losses.append(self.losses(f"run{i}{recomputes}"))
            self.assertEqual(losses[0], losses[1], strategy)

    def test_an_emulated_link_takes_its_time_and_changes_no_bit(self):
        gigabit = 0.02
        for kind in ("ddp", "zero3"):
            losses = []
            for link in (0, gigabit):
                config = training.gpt_config(
                    run={"name": f"{kind}{link}", "max_steps": 4},
                    strategy={"type": kind}, comm={"emulated_link": link})
                job = self.train(config, 2)
                losses.append(self.losses(f"{kind}{link}"))
                self.assertEqual("comm.emulated_link is" in job.out + job.err, link > 0)
            self.assertEqual(losses[0], losses[1])
            header, *lines = self.metrics(f"{kind}{gigabit}")
            # With two ranks each sends as many bytes as the gradients have.
            least = header["parameters"] * 4 * 8 / (gigabit * 1e9)
            seconds = sum(line["step_seconds"] for line in lines if "step_seconds" in line)
            self.assertGreater(seconds, 3 * least)

    def test_hooks_change_little(self):
        plain, _ = self.gpt_losses("plain")
        hooks = {
            "fp16": ({"comm_hook": "fp16"}, 1e-3),
            "bf16": ({"comm_hook": "bf16"}, 1e-2),
            "power_sgd": ({"comm_hook": "power_sgd", "power_sgd_start_step": 2}, 0.1),
        }
        for name, (strategy, tolerance) in hooks.items():
            with self.subTest(hook=name):
                losses, _ = self.gpt_losses(name, **strategy)
                # The losses are too coarse to show what fp16 rounds away.
                if name != "fp16":
                    self.assertNotEqual(losses, plain)
                for found, expected in zip(losses, plain):
                    self.assertLess(abs(found - expected), tolerance)

    def test_power_sgd_goes_on_with_another_number_of_ranks(self):
        def train(name, ranks, *flags):
            return self.train(training.gpt_config(
                run={"name": name, "max_steps": 8},
                training={"per_device_train_batch_size": 8 // ranks, "max_grad_norm": 0},
                strategy={"type": "ddp", "comm_hook": "power_sgd", "power_sgd_start_step": 2},
                data={"sample_order": "world_size_independent"},
                checkpoint={"save_steps": 4},
            ), ranks, *flags)

        train("two", 2)
        expected = self.losses("two")[-4:]
        # Compression is linear, so the gradients are those of the mean of the ranks' errors.
        for ranks in (1, 4):
            job = train(f"on{ranks}", ranks, "--set", "run.resume=runs/two/checkpoints/step-4")
            for found, wanted in zip(self.losses(f"on{ranks}")[-4:], expected, strict=True):
                self.assertLess(abs(found - wanted), 1e-4)
            self.assertIn("Each rank begins with the mean", job.out)

    def test_local_steps_have_the_losses_of_pytorch(self):
        golden = training.read_golden("local_sgd.json")
        config = training.toy_config(
            run={"name": "local"},
            optimizer={"learning_rate": golden["learning_rate"]},
            strategy={
                "comm_hook": "post_local_sgd",
                "post_local_sgd_start_step": golden["start_step"],
                "post_local_sgd_period": golden["period"],
            },
        )
        self.train(config, golden["ranks"])
        losses = self.losses("local")
        self.assertEqual(len(losses), len(golden["losses"]))
        for found, expected in zip(losses, golden["losses"]):
            self.assertLess(abs(found - expected), 1e-5)

    def test_bucket_sizes_that_differ_change_no_bit_of_clipped_losses(self):
        # 1.6 million parameters in several tensors: every trial lays them out anew.
        runs = {}
        for name, size in (("plain", 25), ("small", 0.01), ("tuned", "auto")):
            config = training.toy_config(
                run={"name": name, "max_steps": 60},
                model={"layer_sizes": [10, 800, 800, 800, 5]},
                training={"max_grad_norm": 0.5},
                optimizer={"type": "adam", "learning_rate": 1e-3},
                strategy={"bucket_cap_mb": size},
            )
            self.train(config, 2)
            lines = [line for line in self.metrics(name) if line.get("split") == "train"]
            runs[name] = [(line["loss"], line["grad_norm"]) for line in lines]
            trials = [line["trials"] for line in self.metrics(name) if "trials" in line]
            if name == "tuned":
                self.assertGreater(len(trials[0]), 2)
        self.assertGreater(max(norm for _, norm in runs["plain"]), 0.5)
        self.assertEqual(runs["small"], runs["plain"])
        self.assertEqual(runs["tuned"], runs["plain"])

    def test_one_rank_may_take_the_strategy_of_several(self):
        config = training.toy_config(run={"name": "one"}, strategy={"type": "ddp"})
        self.train(config, 1)
        self.assertEqual(self.metrics("one")[0]["strategy"], "ddp")

    def test_local_steps_are_reported_alike_however_seldom(self):
        reports = {}
        for every in (1, 6):
            name = f"every{every}"
            config = training.toy_config(
                run={"name": name, "max_steps": 20},
                strategy={
                    "comm_hook": "post_local_sgd",
                    "post_local_sgd_start_step": 2,
                    "post_local_sgd_period": 5,
                },
                report={"logging_steps": every},
            )
            self.train(config, 2)
            lines = [line for line in self.metrics(name) if line.get("split") == "train"]
            reports[every] = {line["step"]: line for line in lines}
        self.assertEqual(sorted(reports[6]), [1, 6, 12, 18, 20])
        for step, line in reports[6].items():
            for key in ("loss", "samples", "learning_rate", "grad_norm", "epoch"):
                self.assertEqual(line[key], reports[1][step][key], f"{key} of step {step}")

    def test_tuned_bucket_sizes_are_said_once_and_change_no_loss(self):
        plain, _ = self.gpt_losses("plain")
        tuned, out = self.gpt_losses("tuned", bucket_cap_mb="auto")
        self.assertEqual(tuned, plain)
        self.assertEqual(out.count("bucket sizes: "), 1)
        events = [line for line in self.metrics("tuned") if line.get("event") == "bucket_sizes"]
        self.assertEqual(len(events), 1)
        # All sizes that are tried lay out so small a model alike, so the default stays.
        self.assertEqual(events[0]["strategy"], {"bucket_cap_mb": 25.0, "first_bucket_mb": 1.0})
        self.assertEqual(len(events[0]["trials"]), 1)
        self.assertGreater(events[0]["trials"][0]["seconds"], 0)

    def weight_names(self, name):
        with open(self.path(f"runs/{name}/model/model.safetensors"), "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        return {key: value["shape"] for key, value in header.items() if key != "__metadata__"}

    def test_layers_shared_out_change_nothing_but_rounding(self):
        def config(name, replicas, **strategy):
            return training.gpt_config(
                run={"name": name, "max_steps": 8},
                training={"per_device_train_batch_size": 8 // replicas},
                strategy=strategy,
                checkpoint={"save_steps": 4},
            )

        self.train(config("single", 1), 1)
        expected = self.losses("single")
        ways = {
            "stages2": (2, config("stages2", 1, type="pipeline")),
            "mesh2x2": (4, config("mesh2x2", 2, type="pipeline", pipeline_parallel_size=2,
                                  pipeline_schedule="gpipe")),
            "devices2": (1, config("devices2", 1, type="model_parallel",
                                   devices=["cpu", "cpu"])),
        }
        for name, (ranks, job) in ways.items():
            with self.subTest(way=name):
                self.train(job, ranks)
                found = self.losses(name)
                self.assertEqual(len(found), len(expected))
                for mine, theirs in zip(found, expected):
                    self.assertLess(abs(mine - theirs), 1e-4)
                self.assertEqual(self.weight_names(name), self.weight_names("single"))
                bubbles = [line.get("pipeline_bubble") is not None for line in self.metrics(name)
                           if "loss" in line and "step_seconds" in line]
                self.assertEqual(bubbles, [ranks > 1] * len(expected))
        # A single process continues from the checkpoint of two stages.
        self.train(config("on", 1), 1, "--set", "run.resume=runs/stages2/checkpoints/step-4")
        for mine, theirs in zip(self.losses("on")[-4:], expected[-4:]):
            self.assertLess(abs(mine - theirs), 1e-4)


if __name__ == "__main__":
    harness.main()
