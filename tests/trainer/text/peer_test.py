"""Our tokenizers against Hugging Face's, id for id: all of Unicode, and texts made at random.

    peer_test.py DRIVER SOURCE_DIR [--long N] [--seed S]

DRIVER is tokenizer_driver. --long N: N random texts for each tokenizer, and more characters.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

os.environ["USE_TORCH"] = "0"  # transformers without torch: a second instead of four
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa
from transformers import BertTokenizerFast, GPT2TokenizerFast  # noqa

import texts  # noqa


class Ours:
    """tokenizer_driver with a folder."""

    def __init__(self, driver, folder):
        self.process = subprocess.Popen([driver, folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def number(self):
        return struct.unpack("<i", self.process.stdout.read(4))[0]

    def ids(self):
        count = self.number()
        return list(struct.unpack(f"<{count}i", self.process.stdout.read(4 * count)))

    def ask(self, request):
        self.process.stdin.write(request)
        self.process.stdin.flush()

    def encode(self, data):
        self.ask(b"E" + struct.pack("<i", len(data)) + data)
        return self.ids()

    def decode(self, ids):
        self.ask(b"D" + struct.pack(f"<{len(ids) + 1}i", len(ids), *ids))
        return self.process.stdout.read(self.number()).decode()

    def pair(self, first, second, max_length):
        first, second = first.encode(), second.encode()
        self.ask(b"P" + struct.pack("<ii", max_length, len(first)) + first +
                 struct.pack("<i", len(second)) + second)
        second_begin = self.number()
        ids = self.ids()
        return ids, [int(i >= second_begin) for i in range(len(ids))]

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("tokenizer_driver failed")


def expect(name, what, ours, peer):
    if ours == peer:
        return
    at = next((i for i, (a, b) in enumerate(zip(ours, peer)) if a != b), min(len(ours), len(peer)))
    sys.exit(f"{name}: {what[:2000]!r}\nours {ours[at:at + 20]!r}\npeer {peer[at:at + 20]!r}\n"
             f"first difference at {at} of {len(ours)} and {len(peer)}")


def compare_texts(name, ours, peer, data):
    """data: bytes. The peer sees what Python makes of broken UTF-8."""
    encodings = peer.encode_batch([d.decode("utf-8", "replace") for d in data],
                                  add_special_tokens=False)
    for d, encoding in zip(data, encodings):
        expect(name, d, ours.encode(d), encoding.ids)
    for d, encoding in zip(data[::3], encodings[::3]):
        expect(name + " decode", d, ours.decode(encoding.ids), peer.decode(encoding.ids))


# Tokenizers that treat characters differently: they get all of Unicode each time.
BY_CHARACTER = ["BERT cased", "BERT uncased", "GPT-2 vocab.json", "Llama 3"]


def compare(driver, name, folder, peer, options, words):
    start = time.monotonic()
    ours = Ours(driver, folder)
    corpus = []
    if options.long or name in BY_CHARACTER:
        corpus += [text.encode() for text in texts.blocks(
            128 if options.long else 512, options.long or name.startswith("BERT"))]
    maker = texts.Maker(options.seed, words)
    corpus += [maker.data() if i % 4 == 0 else maker.text().encode()
               for i in range(options.long or 500)]
    for begin in range(0, len(corpus), 2000):
        compare_texts(name, ours, peer, corpus[begin:begin + 2000])
    ours.close()
    print(f"{name}: {len(corpus)} texts, {sum(map(len, corpus)) / 1e6:.1f} MB equal, "
          f"{time.monotonic() - start:.1f} s", flush=True)


def compare_pairs(driver, folder, peer, options, words):
    ours = Ours(driver, folder)
    maker = texts.Maker(options.seed + 1, words)
    for i in range(300):
        first, second = maker.text(), maker.text()
        max_length = maker.random.randint(3, 60)
        # As lists: a second text given alone and empty would count as none.
        row = peer([first], [second], truncation="longest_first", max_length=max_length)
        expect(f"pair, max_length {max_length}", [first, second],
               ours.pair(first, second, max_length),
               (row["input_ids"][0], row["token_type_ids"][0]))
    ours.close()
    print("pairs: 300 equal")


def bert_cases(folder, docs, options):
    for name, lowercase, config in [
            ("cased", False, {"do_lower_case": False}),
            ("uncased", True, {}),
            ("cased, no accents", False, {"do_lower_case": False, "strip_accents": True}),
            ("uncased, accents", True, {"strip_accents": False, "tokenize_chinese_chars": False})]:
        vocabulary = texts.with_characters(texts.word_piece_vocabulary(docs, lowercase),
                                           bool(options.long))
        path = texts.write_bert(folder / name, vocabulary, config)
        peer = BertTokenizerFast.from_pretrained(path)
        yield "BERT " + name, path, peer


def other_bert_cases(folder, docs):
    """tokenizer.json, and tokens that were added to it."""
    tokenizer = Tokenizer(models.WordPiece(
        {t: i for i, t in enumerate(texts.word_piece_vocabulary(docs, True))}, unk_token="[UNK]",
        max_input_chars_per_word=20))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(texts.BERT_SPECIAL)
    tokenizer.add_tokens(["Zebra", AddedToken("<x>", lstrip=True),
                          AddedToken("<|a b|>", rstrip=True, normalized=False)])
    path = texts.write_tokenizer_json(folder / "bert.json", tokenizer)
    return "BERT tokenizer.json", path, tokenizer


def byte_pair_cases(folder, docs):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2 = texts.byte_pair(docs, byte_level)
    path = texts.write_gpt2(folder / "gpt2", gpt2)
    yield "GPT-2 vocab.json", path, GPT2TokenizerFast.from_pretrained(path)._tokenizer
    gpt2.add_tokens(["Zebra", AddedToken("<x>", lstrip=True, rstrip=True, special=True)])
    yield "GPT-2 tokenizer.json", texts.write_tokenizer_json(folder / "gpt2.json", gpt2), gpt2
    prefix = texts.byte_pair(docs, pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "GPT-2 prefix", texts.write_tokenizer_json(folder / "prefix", prefix), prefix
    for name, rule, more in [("Llama 3", texts.LLAMA3_RULE, {"ignore_merges": True}),
                             ("Qwen 2", texts.QWEN2_RULE, {}),
                             ("GPT-2 split", texts.GPT2_RULE, {})]:
        tokenizer = texts.byte_pair(docs, texts.split_first(rule), **more)
        tokenizer.add_special_tokens(["<|end", "<|a b|>"])
        yield name, texts.write_tokenizer_json(folder / name, tokenizer), tokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("source_dir", type=pathlib.Path)
    parser.add_argument("--long", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    docs = texts.training_text(options.source_dir)
    words = sorted({word for text in docs for word in text.split()})
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, path, peer in bert_cases(folder, docs, options):
            if options.only not in name:
                continue
            compare(options.driver, name, path, peer._tokenizer, options, words)
            if name == "BERT cased":
                compare_pairs(options.driver, path, peer, options, words)
        for name, path, peer in [other_bert_cases(folder, docs), *byte_pair_cases(folder, docs)]:
            if options.only in name:
                compare(options.driver, name, path, peer, options, words)


if __name__ == "__main__":
    main()
