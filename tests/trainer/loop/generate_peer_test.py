"""`ddp-trainer generate` against transformers' generate on folders with random weights: what stands
before the prompt, and what ends the text. generate_peer_test.py DDP_TRAINER"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

PROGRAM = sys.argv.pop(1)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
BOS, EOS, TURN = len(LETTERS), len(LETTERS) + 1, len(LETTERS) + 2
SPECIAL = ["<|bos|>", "<|eos|>", "<|turn|>"]
VOCABULARY = {token: i for i, token in enumerate([*LETTERS, *SPECIAL])}
LENGTH = 40


def llama(**more):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(VOCABULARY), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        **{"bos_token_id": BOS, "eos_token_id": EOS, **more}))


def gpt(**more):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=len(VOCABULARY), n_positions=64, n_embd=32, n_layer=2, n_head=4,
        **{"bos_token_id": BOS, "eos_token_id": EOS, **more}))


def template(before, after=()):
    single = [*(f"{token}:0" for token in before), "$A:0", *(f"{token}:0" for token in after)]
    return processors.TemplateProcessing(
        single=" ".join(single), pair="$A:0 $B:1",
        special_tokens=[(token, VOCABULARY[token]) for token in SPECIAL])


def write_tokenizer(folder, post_processor, **config):
    tokenizer = Tokenizer(models.BPE(vocab=VOCABULARY, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = post_processor
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_tokenizer_config(folder, **config)


def write_tokenizer_config(folder, **config):
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>",
         "eos_token": "<|eos|>", **config}))


class Generate(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def save(self, model, seed):
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        model.save_pretrained(self.folder)
        (self.folder / "generation_config.json").unlink()

    def set_json(self, name, **keys):
        path = self.folder / name
        old = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**old, **keys}))

    def peer(self, prompt, **more):
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder).eval()
        inputs = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            tokens = model.generate(inputs, attention_mask=torch.ones_like(inputs),
                                    do_sample=False, max_new_tokens=LENGTH, **more)
        ends = more.get("eos_token_id", model.generation_config.eos_token_id)
        self.ends = ends if isinstance(ends, list) else [ends]
        return inputs[0].tolist(), tokens[0, inputs.shape[1]:].tolist(), tokenizer

    def check(self, before=(), after=(), ends=True, **more):
        """The text is the peer's and so is its length, for a few prompts; some text ends early."""
        ended = 0
        for prompt in ("Hello", "w0rld"):
            inputs, tokens, tokenizer = self.peer(prompt, **more)
            self.assertEqual(inputs, [*before, *(VOCABULARY[c] for c in prompt), *after])
            if tokens[-1] in self.ends:  # perhaps the last one that was asked for
                ended += 1
                del tokens[-1]
            run = subprocess.run(
                [PROGRAM, "generate", self.folder, "--prompt", prompt, "--temperature=0",
                 f"--max-new-tokens={LENGTH}"], capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(
                run.stdout, prompt + tokenizer.decode(tokens, skip_special_tokens=True) + "\n")
            self.assertIn(f"{len(tokens)} tokens in", run.stderr)
        self.assertEqual(ended > 0, ends)

    def test_a_stop_word_ends_the_text_where_the_peer_ends_it(self):
        torch.manual_seed(6)  # the model draws weights, too
        self.save(llama(), seed=6)
        write_tokenizer(self.folder, template(["<|bos|>"]))
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        for prompt in ("Hello", "w0rld"):
            _, tokens, _ = self.peer(prompt, eos_token_id=-1)  # no token ends the text
            whole = tokenizer.decode(tokens, skip_special_tokens=True)
            word = whole[7:9]  # over two tokens
            _, tokens, _ = self.peer(prompt, eos_token_id=-1, stop_strings=[word, "zzz"],
                                     tokenizer=tokenizer)
            text = tokenizer.decode(tokens, skip_special_tokens=True)
            self.assertLess(len(text), len(whole))
            run = subprocess.run(
                [PROGRAM, "generate", self.folder, "--prompt", prompt, "--temperature=0",
                 f"--max-new-tokens={LENGTH}", "--ignore-eos", "--stop", "zzz", "--stop", word],
                capture_output=True, text=True, timeout=60)
            self.assertEqual(run.returncode, 0, run.stderr)
            # The peer's text has the word.
            self.assertEqual(run.stdout, prompt + text[:text.index(word)] + "\n")
            self.assertIn(f"{len(tokens)} tokens in", run.stderr)

    def ending(self, prompt, at):
        """The token that the model as saved, with nothing to stop it, writes at a place."""
        _, tokens, _ = self.peer(prompt, eos_token_id=-1)
        return tokens[at]

    def test_llama_3_has_its_bos_from_the_post_processor_and_a_list_of_ends(self):
        self.save(llama(eos_token_id=None), seed=1)
        write_tokenizer(self.folder, processors.Sequence(
            [processors.ByteLevel(trim_offsets=False), template(["<|bos|>"])]))
        ends = [self.ending("Hello", 9), self.ending("w0rld", 14)]
        self.set_json("generation_config.json", eos_token_id=ends, bos_token_id=BOS)
        self.check(before=[BOS])

    def test_the_config_names_the_end_where_there_is_no_generation_config(self):
        self.save(llama(), seed=2)
        write_tokenizer(self.folder, template(["<|turn|>", "<|bos|>"], ["<|turn|>"]))
        self.set_json("config.json", eos_token_id=self.ending("w0rld", 11))
        self.check(before=[TURN, BOS], after=[TURN])

    def test_llamas_own_tokenizer_class_overrides_the_post_processor(self):
        self.save(llama(), seed=3)
        for add in ({}, {"add_bos_token": False}, {"add_eos_token": True}):
            write_tokenizer(self.folder, template(["<|turn|>"]), unk_token="<|eos|>",
                            tokenizer_class="LlamaTokenizerFast", **add)
            self.set_json("config.json", eos_token_id=self.ending("Hello", 8))
            self.check(before=[BOS] * add.get("add_bos_token", True),
                       after=[EOS] * add.get("add_eos_token", False))

    def test_gpt_has_a_bos_only_where_it_is_asked_for(self):
        self.save(gpt(), seed=4)
        (self.folder / "vocab.json").write_text(json.dumps(VOCABULARY))
        (self.folder / "merges.txt").write_text("#version: 0.2\n")
        for add in ({}, {"add_bos_token": True}):
            write_tokenizer_config(self.folder, tokenizer_class="GPT2Tokenizer",
                                   unk_token="<|eos|>", **add)
            self.set_json("config.json", eos_token_id=self.ending("w0rld", 10))
            self.check(before=[BOS] * len(add))

    def test_the_tokenizer_names_the_end_where_the_folder_does_not(self):
        self.save(gpt(eos_token_id=None), seed=5)
        write_tokenizer(self.folder, processors.ByteLevel(), eos_token="<|eos|>")
        end = self.ending("Hello", 10)
        names = {i: token for token, i in VOCABULARY.items()}
        write_tokenizer_config(self.folder, eos_token=names[end])
        self.check(eos_token_id=end)

    def test_a_folder_without_the_key_has_its_familys_default(self):
        self.save(llama(), seed=6)
        write_tokenizer(self.folder, template(["<|bos|>"]))
        config = json.loads((self.folder / "config.json").read_text())
        del config["eos_token_id"]  # 2, "c"
        (self.folder / "config.json").write_text(json.dumps(config))
        self.check(before=[BOS], ends=any(2 in self.peer(p)[1] for p in ("Hello", "w0rld")))


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    unittest.main()
