"""Files of torch.save, written by PyTorch and read here, and the other way round: the same bits."""

import collections
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import torch
    import transformers
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool]
SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 0, 4), (2, 3, 4, 5)]


def drive(*arguments):
    return subprocess.run([DRIVER, *map(str, arguments)], capture_output=True, text=True)


def flat(value, name=""):
    """Name -> tensor, number or text, as the reader names them."""
    pairs = (value.items() if isinstance(value, dict)
             else enumerate(value) if isinstance(value, (list, tuple)) else None)
    if pairs is None:
        return {} if value is None else {name: value}
    return {inner: leaf for key, one in pairs
            for inner, leaf in flat(one, f"{name}.{key}" if name else str(key)).items()}


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor


def models():
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 48, "vocab_size": 60}
    yield transformers.BertForSequenceClassification(transformers.BertConfig(**small))
    yield transformers.LlamaForCausalLM(transformers.LlamaConfig(**small))
    yield transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=60))
    yield torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    yield torch.nn.LSTM(8, 8, 2)


def optimizers(model):
    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop,
                 torch.optim.Adagrad):
        optimizer = make(model.parameters(), lr=0.01)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
        yield optimizer


class TorchFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)

    def check_read(self, state, **options):
        saved, read = self.folder / "saved.pt", self.folder / "read.safetensors"
        torch.save(state, saved, **options)
        done = drive("from", saved, read)
        self.assertEqual(0, done.returncode, done.stderr)
        wanted = flat(state)
        tensors = load_file(read)
        self.assertEqual({name for name, one in wanted.items() if torch.is_tensor(one)},
                         set(tensors))
        for name, tensor in tensors.items():
            self.assertEqual(wanted[name].dtype, tensor.dtype, name)
            self.assertEqual(wanted[name].shape, tensor.shape, name)
            self.assertTrue(torch.equal(bits(wanted[name].detach()), bits(tensor)), name)
        with safe_open(read, "pt") as file:
            metadata = file.metadata() or {}
        for name, one in wanted.items():
            if isinstance(one, (int, float)):
                self.assertAlmostEqual(float(one), float(metadata[name]), 5, name)
            elif isinstance(one, str):
                self.assertEqual(one, metadata[name])

    def refused(self, path):
        done = drive("from", path, self.folder / "none.safetensors")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertFalse((self.folder / "none.safetensors").exists())
        return " ".join(done.stderr.split())

    def test_every_type_and_shape_both_ways(self):
        state = {f"{dtype}.{shape}".replace("torch.", ""): torch.randn(shape).mul(9).to(dtype)
                 for dtype in DTYPES for shape in SHAPES}
        self.check_read(state)
        self.check_read(state, pickle_protocol=4)
        save_file(state, self.folder / "in.safetensors", {"note": "über", "same_as.tied": ""})
        done = drive("to", self.folder / "in.safetensors", self.folder / "out.pt")
        self.assertEqual(0, done.returncode, done.stderr)
        loaded = torch.load(self.folder / "out.pt", weights_only=True)
        self.assertEqual("über", loaded.pop("note"))
        tied = loaded.pop("tied")
        self.assertEqual(state.keys(), loaded.keys())
        self.assertEqual(1, sum(tied.data_ptr() == one.data_ptr() and tied.shape == one.shape
                                for one in loaded.values() if one.numel()))
        for name, tensor in state.items():
            self.assertEqual(tensor.dtype, loaded[name].dtype)
            self.assertTrue(torch.equal(bits(tensor), bits(loaded[name])), name)
        mapped = torch.load(self.folder / "out.pt", weights_only=True, mmap=True)
        self.assertTrue(torch.equal(state["int64.(3, 5)"], mapped["int64.(3, 5)"]))
        self.assertIsNone(zipfile.ZipFile(self.folder / "out.pt").testzip())

    def test_views_strides_and_shared_memory(self):
        base = torch.arange(60.0).view(3, 4, 5)
        self.check_read({"base": base, "transposed": base.permute(2, 0, 1), "row": base[1],
                         "every second": base[:, ::2], "expanded": torch.ones(1).expand(4, 3),
                         "scalar": base[1, 2, 3], "none": base[1:1]})

    def test_models_and_optimizers(self):
        for model in models():
            self.check_read(model.state_dict())
            for optimizer in optimizers(model):
                self.check_read({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                 "epoch": 3, "loss": 0.25, "name": "run", "best": None,
                                 "done": False, "shape": torch.Size([2, 3])})
        self.check_read({"parameter": torch.nn.Parameter(torch.ones(2))})
        self.check_read(collections.OrderedDict(big=2**40, negative=-2**40, small=-5))

    def test_checksums_may_be_switched_off(self):
        torch.serialization.set_crc32_options(False)
        self.addCleanup(torch.serialization.set_crc32_options, True)
        self.check_read({"weight": torch.randn(50)})

    def test_more_than_a_state_dict_is_refused_by_name(self):
        torch.save(torch.nn.Linear(2, 2), self.folder / "module.pt")
        self.assertIn('"torch.nn.modules.linear.Linear"', self.refused(self.folder / "module.pt"))
        torch.save({"a": collections.Counter("ab")}, self.folder / "counter.pt")
        self.assertIn('"collections.Counter"', self.refused(self.folder / "counter.pt"))
        torch.jit.script(torch.nn.ReLU()).save(self.folder / "script.pt")
        self.assertIn("more than a state dict", self.refused(self.folder / "script.pt"))
        torch.save(torch.ones(2), self.folder / "tensor.pt")
        self.assertIn("it is no dict", self.refused(self.folder / "tensor.pt"))

    def test_other_containers_are_refused_with_a_hint(self):
        old = self.folder / "old.pt"
        torch.save({"a": torch.ones(2)}, old, _use_new_zipfile_serialization=False)
        self.assertIn("before 1.6", self.refused(old))
        torch.save({"a": torch.ones(50_000)}, self.folder / "plain.pt")
        packed = self.folder / "packed.pt"
        with zipfile.ZipFile(self.folder / "plain.pt") as plain, \
                zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
            for name in plain.namelist():
                bomb.writestr(name, plain.read(name))
        self.assertIn("compressed", self.refused(packed))
        with zipfile.ZipFile(self.folder / "plain.pt") as plain, \
                zipfile.ZipFile(self.folder / "big.pt", "w") as big:
            for name in plain.namelist():
                text = b"big" if name.endswith("byteorder") else plain.read(name)
                big.writestr(name, text)
        self.assertIn("big endian", self.refused(self.folder / "big.pt"))

    def test_a_pickle_that_would_run_code_runs_none(self):
        class Evil:
            def __reduce__(self):
                return (print, ("this runs",))
        torch.save({"a": torch.ones(2), "b": Evil()}, self.folder / "evil.pt")
        said = self.refused(self.folder / "evil.pt")
        self.assertNotIn("this runs", said)
        self.assertIn("print", said)


if __name__ == "__main__":
    DRIVER = sys.argv.pop(1)
    unittest.main()
