"""Models and losses against torchvision, PyTorch and transformers, with the same weights and batch:
outputs in evaluation and in training, loss, gradients, and running statistics after one pass.
check_against_torch.py PEER_DRIVER"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import safetensors.torch
    import torch
    import torch.nn.functional as F
    import torchvision
    import transformers
    from torch import nn
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

DRIVER = sys.argv.pop(1)


def small_cnn(side):
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(3, 8), *stage(8, 12), nn.Flatten(),
                         nn.Linear(12 * (side // 4) ** 2, 24), nn.ReLU(), nn.Linear(24, 10))


# Names of the layers of small_cnn as ddprun has them.
CNN_NAMES = {"0": "conv1", "3": "conv2", "7": "fc1", "9": "fc2"}


class AgainstTorch(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        torch.manual_seed(11)

    def run_driver(self, kind, model, inputs, targets, smoothing=0.0):
        given, found = self.folder / "in.safetensors", self.folder / "out.safetensors"
        safetensors.torch.save_file({"inputs": inputs, "targets": targets}, given)
        run = subprocess.run([DRIVER, kind, model, given, found, str(smoothing)],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return safetensors.torch.load_file(found)

    def assert_close(self, found, expected, name, tolerance=1e-4):
        self.assertEqual(found.shape, expected.shape, name)
        scale = expected.abs().max().item()
        difference = (found.double() - expected.double()).abs().max().item()
        self.assertLessEqual(difference, tolerance * scale + 1e-7, name)

    def check_images(self, kind, net, side, smoothing, rename=lambda name: name):
        for parameter in net.parameters():  # gains of 1 and biases of 0 would hide a mistake
            parameter.data.add_(torch.randn_like(parameter), alpha=0.02)
        for name, buffer in net.named_buffers():
            if buffer.is_floating_point():
                buffer.add_(torch.rand_like(buffer))
        state = {rename(name): tensor for name, tensor in net.state_dict().items()}
        weights = self.folder / "weights.safetensors"
        safetensors.torch.save_file(state, weights)
        if kind == "cnn":  # as a script saves it that trains with DistributedDataParallel
            weights = self.folder / "weights.pt"
            wrapped = {f"module.{name}": tensor for name, tensor in state.items()}
            torch.save({"model": wrapped, "optimizer": {"state": {0: torch.ones(2)}}, "epoch": 3},
                       weights)
        # In float32 a few ReLUs flip, and PyTorch's own gradients of a ResNet are up to 3 % off.
        net.double()
        inputs, targets = torch.randn(6, 3, side, side).double(), torch.randint(10, (6,))
        found = self.run_driver(kind, weights, inputs, targets, smoothing)
        with torch.no_grad():
            self.assert_close(found["evaluation"], net.eval()(inputs), "evaluation")
        outputs = net.train()(inputs)
        self.assert_close(found["training"], outputs, "training")
        for name, tensor in net.state_dict().items():
            self.assert_close(found["state." + rename(name)], tensor, name)
        loss = F.cross_entropy(outputs, targets, label_smoothing=smoothing)
        loss.backward()
        self.assert_close(found["loss"], loss, "loss")
        for name, parameter in net.named_parameters():
            difference = (found["grad." + rename(name)] - parameter.grad).norm()
            self.assertLess(difference, 1e-4 * parameter.grad.norm(), name)

    def test_resnets_are_torchvisions(self):
        for kind in ("resnet18", "resnet50"):
            net = getattr(torchvision.models, kind)(num_classes=10)
            self.check_images(kind, net, 64, 0.0)

    def test_the_cnn_is_a_sequence_of_layers(self):
        def rename(name):
            layer, kind = name.split(".")
            return f"{CNN_NAMES[layer]}.{kind}"

        for smoothing in (0.0, 0.1):
            self.check_images("cnn", small_cnn(16), 16, smoothing, rename)

    def test_bert_smooths_the_labels_of_classes(self):
        model = transformers.BertForSequenceClassification(transformers.BertConfig(
            vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=24, max_position_embeddings=16, num_labels=3, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0))
        model.save_pretrained(self.folder / "bert")
        inputs, targets = torch.randint(1, 40, (5, 9)), torch.randint(3, (5,))
        found = self.run_driver("bert", self.folder / "bert", inputs, targets, 0.2)
        loss = F.cross_entropy(model(inputs).logits, targets, label_smoothing=0.2)
        loss.backward()
        self.assert_close(found["loss"], loss, "loss", 1e-6)
        for name, parameter in model.named_parameters():
            self.assert_close(found["grad." + name], parameter.grad, name)

    def test_language_models_smooth_labels_and_leave_out_what_is_ignored(self):
        sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2,
                 "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 16,
                 "bos_token_id": 0, "eos_token_id": 1}
        models = {"llama": transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)),
                  "gpt": transformers.GPT2LMHeadModel(transformers.GPT2Config(
                      **sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))}
        inputs, targets = torch.randint(40, (3, 9)), torch.randint(40, (3, 9))
        targets[0, 2:] = -100
        targets[2, 0] = -100
        for kind, model in models.items():
            model.save_pretrained(self.folder / kind)
            for smoothing in (0.0, 0.2):
                found = self.run_driver(kind, self.folder / kind, inputs, targets, smoothing)
                model.zero_grad()
                logits = model(inputs).logits
                loss = F.cross_entropy(logits.view(-1, 40), targets.view(-1), ignore_index=-100,
                                       label_smoothing=smoothing)
                loss.backward()
                for name in ("loss", "loss_from"):
                    self.assert_close(found[name], loss, f"{kind} {name}", 1e-6)
                for name, parameter in model.named_parameters():
                    self.assert_close(found["grad." + name], parameter.grad, f"{kind} {name}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    unittest.main()
