"""`ddp-trainer generate` as a user runs it: generate_test.py DDP_TRAINER GOLDEN_FOLDER"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

GOLDEN = pathlib.Path(sys.argv.pop(2)).resolve()
PROGRAM = sys.argv.pop(1)


class Generate(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_it(self, *arguments):
        return subprocess.run([PROGRAM, "generate", *map(str, arguments)], capture_output=True,
                              cwd=self.folder, timeout=50)

    def text(self, *arguments):
        run = self.run_it(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.decode()

    def words(self, eos):
        """The byte-level model of 256 tokens with words for bytes: 0 is w0, and so on."""
        model = self.folder / "words"
        shutil.copytree(GOLDEN / "gpt_init", model)
        names = {f"w{i}": i for i in range(256) if i != eos} | {"<|endoftext|>": eos}
        (model / "vocab.json").write_text(json.dumps(names))
        (model / "merges.txt").write_text("#version: 0.2\n")
        return model

    def test_bytes_continue_the_prompt_beyond_the_context(self):
        model = GOLDEN / "gpt_init"
        text = self.text(model, "--prompt=A cat", "--max-new-tokens=90")
        self.assertTrue(text.startswith("A cat"))
        self.assertGreater(len(text), 30)
        run = self.run_it(model, "--max-new-tokens=7")
        self.assertIn(b"7 tokens in", run.stderr)

    def test_says_that_tokens_are_taken_for_bytes(self):
        model = self.folder / "wide"
        shutil.copytree(GOLDEN / "gpt_init", model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"vocab_size": 300}))
        # The golden's weights with zeros for 44 tokens more.
        data = (model / "model.safetensors").read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header, parts, end = json.loads(data[8:begin]), [], 0
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            part = data[begin + first : begin + last]
            if name == "transformer.wte.weight":
                entry["shape"][0] = 300
                part += bytes(44 * 4 * entry["shape"][1])
            entry["data_offsets"] = [end, end + len(part)]
            parts.append(part)
            end += len(part)
        text = json.dumps(header).encode()
        (model / "model.safetensors").write_bytes(
            len(text).to_bytes(8, "little") + text + b"".join(parts))
        run = self.run_it(model, "--max-new-tokens=3")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(b"has no tokenizer: the first 256 of its 300 tokens", run.stderr)
        self.assertEqual(run.stderr.count(b"warning"), 1, run.stderr)
        run = self.run_it(GOLDEN / "gpt_init", "--max-new-tokens=3")
        self.assertNotIn(b"warning", run.stderr)

    def test_the_seed_decides_what_is_drawn(self):
        draw = [self.text(GOLDEN / "gpt_init", f"--seed={seed}", "--temperature=2", "--top-k=0")
                for seed in (1, 1, 2)]
        self.assertEqual(draw[0], draw[1])
        self.assertNotEqual(draw[0], draw[2])

    def test_the_folder_says_how_tokens_are_drawn_where_the_flags_do_not(self):
        model = self.folder / "model"
        shutil.copytree(GOLDEN / "gpt_init", model)
        greedy = self.text(model, "--temperature=0")
        drawn = ["--temperature=2", "--top-k=0", "--top-p=0.9"]
        wild = self.text(model, *drawn)
        for config, flags, expected in (
            ({"do_sample": False}, [], greedy),
            ({"do_sample": True, "top_k": 1}, [], greedy),
            ({"do_sample": True, "temperature": 2, "top_k": 0, "top_p": 0.9}, [], wild),
            ({"do_sample": False}, drawn, wild),
        ):
            (model / "generation_config.json").write_text(json.dumps(config))
            self.assertEqual(self.text(model, *flags), expected, config)
        self.assertNotEqual(greedy, wild)
        (model / "generation_config.json").write_text('{"do_sample": true, "temperature": "hot"}')
        run = self.run_it(model)
        self.assertEqual(run.returncode, 2)
        self.assertIn(b'temperature is "hot"', run.stderr)

    def test_the_tokenizer_beside_the_model_is_taken_and_its_end_of_text_ends_it(self):
        greedy = ["--temperature=0", "--max-new-tokens=5"]
        first = self.text(self.words(eos=0), *greedy)
        self.assertRegex(first, r"^(w\d+){5}\n$")
        likeliest = int(first.split("w")[1])
        shutil.rmtree(self.folder / "words")
        # The text starts after the end of text too, so the likeliest token may be another.
        model = self.words(eos=likeliest)
        names = json.loads((model / "vocab.json").read_text())
        names["<s>"] = names.pop("w0")
        (model / "vocab.json").write_text(json.dumps(names))
        (model / "tokenizer_config.json").write_text(json.dumps({
            "bos_token": "<s>", "eos_token": "<|endoftext|>"}))
        self.assertEqual(self.text(model, *greedy), "\n")
        self.assertRegex(self.text(model, *greedy, "--ignore-eos"), r"^(w\d+|<s>)*\n$")

    def test_mistakes_are_said(self):
        for arguments, said in [
                ([GOLDEN / "bert_init"], b"does not predict the next token"),
                ([GOLDEN / "llama_init"], b"the model has embeddings for"),
                (["nowhere"], b"config.json"),
                ([GOLDEN / "gpt_init", "--tokenizer=nowhere"], b"NO TOKENIZER"),
                ([GOLDEN / "gpt_init", "--top-p=0"], b"--top-p"),
                ([], b"model is required")]:
            run = self.run_it(*arguments)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(said, run.stderr)
            self.assertEqual(run.stdout, b"")


unittest.main()
