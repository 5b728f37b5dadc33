"""Folders that transformers wrote, read and written again by save_model, read by transformers:
the same weights to the bit, the same outputs, the same tokenizer files. And models that a config
describes, written by save_model: transformers has the same outputs."""

import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

INPUTS = torch.arange(2 * 12).view(2, 12) * 3 + 1
SHARD_BYTES = 60_000


def bert(**more):
    config = transformers.BertConfig(**{
        "vocab_size": 101, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6,
        "intermediate_size": 80, "max_position_embeddings": 40, "type_vocab_size": 3,
        "layer_norm_eps": 1e-7, "id2label": {0: "no", 1: "maybe", 2: "yes", 3: "never"},
        "classifier_dropout": 0.3, **more})
    return transformers.BertForSequenceClassification(config)


def bert_encoder():
    return bert().bert


def gpt(tied, **more):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{
        "vocab_size": 120, "n_positions": 40, "n_embd": 48, "n_layer": 3, "n_head": 6,
        "n_inner": 100, "layer_norm_epsilon": 1e-4, "bos_token_id": 1, "eos_token_id": 119,
        "tie_word_embeddings": tied, "embd_pdrop": 0.2, **more}))


def llama(**more):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=110, hidden_size=48, intermediate_size=90, num_hidden_layers=3,
        num_attention_heads=6, max_position_embeddings=64, rms_norm_eps=1e-5,
        bos_token_id=1, eos_token_id=109, **more))


CASES = {
    "bert": bert,
    "bert without names of classes": lambda: bert(
        id2label=None, initializer_range=0.05, classifier_dropout=None),
    "bert with a number of classes": lambda: bert(
        id2label=None, num_labels=5, problem_type="single_label_classification"),
    "bert encoder": bert_encoder,
    "tied gpt": lambda: gpt(True, n_inner=None, initializer_range=0.05, use_cache=False),
    "untied gpt": lambda: gpt(False, activation_function="gelu", reorder_and_upcast_attn=True),
    "llama": lambda: llama(num_key_value_heads=6, rope_theta=500.0),
    "tied llama with groups, own head size and long context": lambda: llama(
        num_key_value_heads=2, head_dim=12, tie_word_embeddings=True, attention_bias=True,
        rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                      "high_freq_factor": 4.0, "original_max_position_embeddings": 16}),
    "llama with linear scaling": lambda: llama(
        mlp_bias=True, rope_scaling={"rope_type": "linear", "factor": 4.0}, pad_token_id=3),
    "llama with dynamic scaling": lambda: llama(
        pretraining_tp=2, rope_scaling={"rope_type": "dynamic", "factor": 4.0}),
}


def randomized(model):
    # Biases of 0 and gains of 1 would hide a tensor that went astray.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model.eval()


def greedy(model):
    model.generation_config.eos_token_id = None
    tokens = model.generate(torch.tensor([[5, 6, 7]]), do_sample=False, use_cache=True,
                            max_new_tokens=32)
    return tokens[0, 3:].tolist()


def check(program, name, model, folder):
    source, target = folder / "source", folder / "target"
    model.save_pretrained(source, max_shard_size=SHARD_BYTES)
    (source / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    run = subprocess.run([program, source, target, str(SHARD_BYTES)], capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    assert (target / "model.safetensors.index.json").exists(), "not in shards"
    assert (target / "vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    back, info = (type(model) if printed["fresh"] == [] else
                  transformers.BertForSequenceClassification).from_pretrained(
                      target, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{kind}: {info[kind]}"
    state = back.state_dict()
    for key, value in model.state_dict().items():
        key = "bert." + key if printed["fresh"] else key
        assert torch.equal(value, state[key]), key
    with torch.no_grad():
        logits = back.eval()(INPUTS).logits
    expected = torch.tensor(printed["outputs"]).view_as(logits)
    difference = (logits - expected).abs().max().item()
    assert difference < 1e-5, f"outputs differ by {difference}"
    if not printed["fresh"]:
        with torch.no_grad():
            assert torch.equal(model(INPUTS).logits, logits), "transformers' own outputs changed"
        before, after = (json.loads((path / "config.json").read_text())
                         for path in (source, target))
        assert before == after, f"config.json was {before}, is {after}"
    if "greedy" in printed:
        assert printed["greedy"] == greedy(back), "greedy text differs"
    print(f"{name}: largest difference of the outputs {difference:.1e}")
    return printed["fresh"]


LLAMA = {"type": "llama", "vocab_size": 110, "hidden_size": 50, "num_hidden_layers": 2,
         "num_attention_heads": 6, "intermediate_size": 90, "max_position_embeddings": 64,
         "head_dim": 12}
CONFIGS = {
    "a config's llama with linear scaling and biases": {
        "num_key_value_heads": 3, "rms_norm_eps": 1e-3, "attention_bias": True, "mlp_bias": True,
        "rope_theta": 300.0, "rope_scaling": {"rope_type": "linear", "factor": 3.0},
        "tie_word_embeddings": False},
    "a config's llama with llama3 scaling": {
        "rms_norm_eps": 0.1, "rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16}},
}


def check_config(program, name, keys, folder):
    model = {**LLAMA, **keys}
    config = folder / "train.json"
    config.write_text(json.dumps({"model": model, "data": {
        "format": "tokens", "train_files": "none.bin", "max_seq_length": 12}}))
    run = subprocess.run([program, config, folder / "model", str(SHARD_BYTES)],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    back = transformers.LlamaForCausalLM.from_pretrained(folder / "model").eval()
    for key in model.keys() - {"type"}:
        assert getattr(back.config, key) == model[key], key
    with torch.no_grad():
        logits = back(INPUTS).logits
    difference = (logits - torch.tensor(printed["outputs"]).view_as(logits)).abs().max().item()
    assert difference < 1e-4, f"outputs differ by {difference}"
    assert printed["greedy"] == greedy(back), "greedy text differs"
    print(f"{name}: largest difference of the outputs {difference:.1e}, "
          f"largest output {logits.abs().max().item():.1f}")


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    for name, make in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            fresh = check(sys.argv[1], name, randomized(make()), pathlib.Path(folder))
        heads = ["classifier.bias", "classifier.weight"] if name == "bert encoder" else []
        assert sorted(fresh) == heads, fresh
    for name, keys in CONFIGS.items():
        with tempfile.TemporaryDirectory() as folder:
            check_config(sys.argv[1], name, keys, pathlib.Path(folder))


if __name__ == "__main__":
    main()
