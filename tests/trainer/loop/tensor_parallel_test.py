"""Whole runs in which ranks share out the layers of a model."""

import json
import struct

import harness
import training


def read_weights(path):
    """{name: values} of a float32 safetensors file."""
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {name: struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
            for name, entry in header.items() if name != "__metadata__"
            for begin, end in [entry["data_offsets"]]}


class TensorParallel(training.TrainingTest):
    def run_gpt(self, name, ranks, batch=8, dropout=0.0, **strategy):
        config = training.gpt_config(
            run={"name": name, "output_dir": "runs/{name}", "max_steps": 8},
            training={"per_device_train_batch_size": batch, "max_grad_norm": 0.5},
            evaluation={"sample_length": 16},
            strategy=strategy,
        )
        config["model"].update({"dropout": dropout, "attention_dropout": dropout})
        config["data"].update({"sample_order": "world_size_independent",
                               "validation_fraction": 0.2})
        self.train(config, ranks)

    def test_losses_metrics_and_weights_are_those_of_one_process(self):
        self.run_gpt("one", 1)
        expected = read_weights(self.path("runs/one/model/model.safetensors"))
        runs = {"two": (2, 8, {}), "four": (4, 8, {}), "mesh": (4, 4, {"tensor_parallel_size": 2}),
                "stages": (4, 8, {"type": "pipeline", "tensor_parallel_size": 2}),
                "shards": (4, 4, {"type": "zero3", "tensor_parallel_size": 2}),
                "cube": (8, 4, {"type": "zero1", "tensor_parallel_size": 2,
                                "pipeline_parallel_size": 2})}
        for name, (ranks, batch, keys) in runs.items():
            with self.subTest(run=name):
                self.run_gpt(name, ranks, batch, **{"type": "tensor_parallel", **keys})
                for found, wanted in zip(self.metrics(name), self.metrics("one")):
                    for key in ("loss", "accuracy", "perplexity", "grad_norm"):
                        if wanted.get(key) is None:
                            continue
                        self.assertLess(abs(found[key] - wanted[key]), 1e-4 * wanted[key] + 1e-6)
                    for key in ("step", "samples", "split"):
                        self.assertEqual(found.get(key), wanted.get(key))
                found = read_weights(self.path(f"runs/{name}/model/model.safetensors"))
                self.assertEqual(found.keys(), expected.keys())
                for tensor, values in expected.items():
                    self.assertEqual(len(found[tensor]), len(values), tensor)
                    difference = max(abs(a - b) for a, b in zip(found[tensor], values))
                    self.assertLess(difference, 1e-3, tensor)

    def test_dropout_repeats_itself(self):
        for name in ("first", "second"):
            self.run_gpt(name, 2, dropout=0.2, type="tensor_parallel")
        self.assertEqual(self.losses("first"), self.losses("second"))

    def test_a_model_that_cannot_be_shared_out_is_refused(self):
        config = training.gpt_config(strategy={"type": "tensor_parallel"})
        job = self.run_ddprun("--nproc_per_node=3", self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn("fits strategy.tensor_parallel_size 1, 2, 4", job.err)
        config = training.toy_config(model={"type": "cnn"}, strategy={"type": "tensor_parallel"},
                                     report={"state_hashes": True})
        del config["model"]["layer_sizes"]
        job = self.run_ddprun("--nproc_per_node=2", self.write_config(config))
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn("model.type \"cnn\" has layers that ranks cannot divide", job.err)
        self.assertIn("hashes whole gradients and weights", job.err)


if __name__ == "__main__":
    harness.main()
