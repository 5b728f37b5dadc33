"""`ddp-trainer tokenize` as a user runs it: tokenize_test.py DDP_TRAINER"""

import gzip
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class Tokenize(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        vocabulary = {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "<|endoftext|>": 4}
        (self.folder / "vocab.json").write_text(json.dumps(vocabulary))
        (self.folder / "merges.txt").write_text("a b\n")
        (self.folder / "a.txt").write_text("ab a")
        (self.folder / "b.jsonl").write_text('{"text": "b"}\n{"text": "ab"}\n')
        self.out = self.folder / "train.bin"

    def run_it(self, *arguments, tokenizer="."):
        return subprocess.run(
            [PROGRAM, "tokenize", f"--tokenizer={tokenizer}", f"--out={self.out}", *arguments],
            capture_output=True, text=True, cwd=self.folder, timeout=50)

    def test_text_and_rows_become_one_file(self):
        run = self.run_it("--threads=2", "a.txt", "b.jsonl")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("8 tokens of 2 bytes from 3 documents", run.stdout)
        data = self.out.read_bytes()
        self.assertEqual(struct.unpack("<3i", data[:12]), (20240520, 1, 8))
        self.assertEqual(struct.unpack("<8H", data[1024:]), (2, 3, 0, 4, 1, 4, 2, 4))

    def test_files_that_gzip_compressed_are_what_they_would_be_without(self):
        (self.folder / "c.jsonl.gz").write_bytes(gzip.compress(b'{"text": "b"}\n{"text": "ab"}\n'))
        (self.folder / "d.txt.gz").write_bytes(gzip.compress(b"ab a"))
        run = self.run_it("--format=nanogpt", "c.jsonl.gz", "d.txt.gz")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(struct.unpack("<8H", self.out.read_bytes()), (1, 4, 2, 4, 2, 3, 0, 4))

    def test_flags_choose_format_and_separator(self):
        run = self.run_it("--format=nanogpt", "--separator=b", "a.txt")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(struct.unpack("<4H", self.out.read_bytes()), (2, 3, 0, 1))
        run = self.run_it("--format=nanogpt", "--no-separator", "--input=text", "b.jsonl")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.out.read_bytes()[:4], b"\x03\x00\x01\x00")

    def test_mistakes_are_said_and_leave_nothing(self):
        for tokenizer, arguments, said in [
                (".", ["none.txt"], "DATA FILE CANNOT BE READ"),
                (".", ["--separator=zz", "a.txt"], 'no token "zz"'),
                (".", ["--input=jsonl", "a.txt"], "a.txt:1"),
                ("none", ["a.txt"], "NO TOKENIZER")]:
            run = self.run_it(*arguments, tokenizer=tokenizer)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(said, run.stderr)
            self.assertFalse(self.out.exists())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                         ["a.txt", "b.jsonl", "merges.txt", "vocab.json"])


unittest.main()
