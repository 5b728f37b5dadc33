"""Ranks that share out the state of a model: ddp's losses, its model, and checkpoints for each."""

import harness
import training

TYPES = ("ddp", "zero1", "zero2", "zero3")


class Zero(training.TrainingTest):
    def gpt(self, name, kind, **sections):
        """Validation has other numbers of batches on the two ranks."""
        config = training.gpt_config(
            run={"name": name, "max_steps": 8, **sections.get("run", {})},
            training={"gradient_accumulation_steps": 2, **sections.get("training", {})},
            strategy={"type": kind, **sections.get("strategy", {})},
            evaluation={"eval_steps": 4, "sample_length": 9},
            checkpoint=sections.get("checkpoint", {}),
        )
        config["data"]["validation_fraction"] = 0.1
        config["training"]["per_device_eval_batch_size"] = 1
        return config

    def model(self, name):
        with open(self.path(f"runs/{name}/model/model.safetensors"), "rb") as file:
            return file.read()

    def both(self, name):
        return self.losses(name), self.losses(name, "validation")

    def assert_near(self, found, expected):
        for kind, (a, b) in enumerate(zip(found, expected)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                self.assertLess(abs(x - y), 1e-5 * y, kind)

    def test_has_the_losses_and_the_model_of_ddp(self):
        for strategy in TYPES:
            self.train(self.gpt(strategy, strategy), 2)
        expected = self.both("ddp")
        self.assertEqual(len(expected[1]), 2)
        self.assertEqual(self.both("zero1"), expected)
        self.assertEqual(self.model("zero1"), self.model("ddp"))
        for strategy in ("zero2", "zero3"):
            self.assert_near(self.both(strategy), expected)
            self.assertEqual(len(self.model(strategy)), len(self.model("ddp")))

    def test_recomputes_blocks_and_has_replicas_of_shards(self):
        recompute = {"gradient_checkpointing": True, "precision": "bf16"}
        self.train(self.gpt("ddp", "ddp", training=recompute), 4)
        config = self.gpt("zero3", "zero3", training=recompute, strategy={"shard_size": 2})
        self.train(config, 4)
        for a, b in zip(self.losses("zero3"), self.losses("ddp")):
            self.assertLess(abs(a - b), 1e-2)

    def test_checkpoints_open_with_any_strategy_and_number_of_ranks(self):
        self.train(self.gpt("whole", "ddp"), 2)
        for first, then in (("zero3", "ddp"), ("ddp", "zero3"), ("zero1", "zero2")):
            name = f"{first}-{then}"
            half = self.gpt(name, first, run={"output_dir": "runs/{name}"},
                            checkpoint={"save_steps": 4})
            self.train(half, 2)
            again = self.gpt(f"{name}-2", then)
            self.train(again, 2, "--set", f"run.resume=runs/{name}/checkpoints/step-4")
            self.assert_near([self.losses(f"{name}-2")[-4:]], [self.losses("whole")[-4:]])


if __name__ == "__main__":
    harness.main()
