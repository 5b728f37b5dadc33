"""Runs in bfloat16, and with the matrix engines to choose from."""

import json
import os
import struct

import harness
import training


class Precision(training.TrainingTest):
    def test_bf16_follows_the_losses_of_pytorch_in_float32(self):
        golden = training.read_golden("gpt_losses.json")
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                config = training.gpt_config(run={"name": f"half{ranks}"},
                                             training={"precision": "bf16"})
                job = self.train(config, ranks)
                self.assertIn("matrix products: bfloat16", job.out)
                found = self.losses(f"half{ranks}")
                expected = golden["losses"][str(ranks)]
                self.assertNotEqual(found, expected)
                for step, (a, b) in enumerate(zip(found, expected), 1):
                    self.assertLess(abs(a - b), 0.02, f"step {step}: {a} instead of {b}")

    def test_bf16_saves_the_float32_weights(self):
        self.train(training.gpt_config(training={"precision": "bf16"}))
        with open(self.path("runs/gpt/model/model.safetensors"), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        types = {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"}
        self.assertEqual(types, {"F32"})

    def test_fp16_follows_them_too_after_the_steps_that_find_the_scale(self):
        golden = training.read_golden("gpt_losses.json")
        for ranks in (1, 2):
            config = training.gpt_config(
                run={"name": f"fp16_{ranks}"}, training={"precision": "fp16"})
            self.assertIn("float16", self.train(config, ranks).out)
            lines = [line for line in self.metrics(f"fp16_{ranks}") if "loss" in line]
            expected = golden["losses"][str(ranks)]
            self.assertEqual([line["skipped_steps"] for line in lines], [0] * len(expected))
            self.assertEqual({line["loss_scale"] for line in lines}, {65536})
            for line, loss in zip(lines, expected):
                self.assertLess(abs(line["loss"] - loss), 0.02, line)

    def test_fp16_sees_an_overflow_beside_clipped_values(self):
        """A limit that no finite gradient reaches changes nothing."""
        runs = {}
        for limit in (0, 1e30):
            name = f"limit{limit}"
            self.train(training.gpt_config(
                run={"name": name},
                training={"precision": "fp16", "init_loss_scale": 2.0**30, "max_grad_norm": 0,
                          "max_grad_value": limit}))
            runs[limit] = [(line["loss"], line["loss_scale"], line["skipped_steps"])
                           for line in self.metrics(name) if "loss_scale" in line]
        self.assertGreater(sum(skipped for _, _, skipped in runs[0]), 1, "no overflow")
        self.assertEqual(runs[0], runs[1e30])

    def test_either_engine_gives_the_losses_of_pytorch(self):
        golden = training.read_golden("gpt_losses.json")["losses"]["1"]
        for engine in ("default", "onednn"):
            config = training.gpt_config(run={"name": engine}, training={"matmul_engine": engine})
            if engine == "onednn" and not training.has_onednn():
                job = self.run_ddprun("--nproc_per_node=1", self.write_config(config))
                self.assertIn("-- NO ONEDNN", job.err)
                continue
            job = self.train(config)
            self.assertIn(f"matrix products: {engine}\n", job.out)
            for a, b in zip(self.losses(engine), golden):
                self.assertLess(abs(a - b), 1e-5)

    def test_the_engine_is_measured_once(self):
        os.environ["XDG_CACHE_HOME"] = self.path("cache")
        self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")
        config = training.gpt_config(run={"max_steps": 1})
        config["model"] = {"type": "gpt", "hidden_size": 64}
        self.assertRegex(self.train(config, 2).out, r"matrix products: (default|onednn), \d+ GFLOP")
        folder = self.path("cache/ddprun")
        files = [name for name in os.listdir(folder) if name.endswith(".json")]
        self.assertEqual(len(files), 1)
        path = os.path.join(folder, files[0])
        with open(path, "w") as file:
            file.write('{"engines": [{"name": "default", "gflops": 123, "error": 4e-7}]}')
        self.assertIn("matrix products: default, 123 GFLOP/s, error 4e-07\n",
                      self.train(config, 2).out)

    def test_a_small_model_measures_nothing(self):
        self.assertNotIn("matrix products", self.train(training.toy_config()).out)


if __name__ == "__main__":
    harness.main()
