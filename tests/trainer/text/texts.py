"""Texts that find out where two tokenizers differ, and small tokenizers to find it with.

Everything follows from a seed. Needs `tokenizers`.
"""

import json
import random
import unicodedata

from tokenizers import (Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        trainers)

GPT2_RULE = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
LLAMA3_RULE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
               r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2_RULE = LLAMA3_RULE.replace("{1,3}", "")

BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

# Characters with rules of their own: spaces of all kinds, breaks, quotes, controls, joiners, marks,
# tricky cases.
SPICE = [" ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\v", "\f", "\x1c", "\x85", "\u00a0",
         "\u1680", "\u180e", "\u2003", "\u2028", "\u2029", "\u200b", "\u200d", "\u202f", "\u3000",
         "\ufeff", "\u00ad", "\x00", "\x01", "\x7f", "\ufffd", "'", "'s", "'S", "'ll", "'Re", "'vE",
         "'\u017f", "\u2019s", ".", "...", "?!", "#", "##", "##a", "-", "_", "1", "12", "12345",
         "\u0661", "\u00bd", "\u2167", "a\u0301", "e\u0323\u0301", "\u0130", "I\u0307", "\u03a3",
         "\u00df", "\u1e9e", "\u212b", "\u00c5", "\ufb01", "\uac00", "\uac01", "\u1100\u1161\u11a8",
         "\u4e2d\u6587", "\uf900", "\U0002f800", "\U00020000", "\u3042", "\uff21", "\U0001f600",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea",
         "\u0e33", "\u0915\u094d\u0937\u093f", "\u302e", "\U0001d165", "\U0001d16d\u0323",
         "\u1734\u0323", "\u09be\u0323", "\u037e", "\u2260", "\u1fef", "\u0344", "\U00011938",
         "\u0590", "\ue000", "\U000e0001", "\U0010ffff", "\U000ffffd", "[CLS]", "[SEP]", "[MASK]",
         "[UNK]", "[PAD]", "[CL", "[[SEP]]", "<|endoftext|>", "<|end", "<|a b|>", "<x>", "Zebra",
         "n't", " do not", " 'm"]


def characters():
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def blocks(step, all_forms):
    """All of Unicode: each character between letters, and in a row, and between blanks."""
    every = characters()
    for begin in range(0, len(every), step):
        part = every[begin:begin + step]
        yield "".join(f"a{c}b" for c in part)
        if all_forms:
            yield "".join(part)
            yield " ".join(part) + " x"


class Maker:
    """Texts from a seed."""

    def __init__(self, seed, words):
        self.random = random.Random(seed)
        self.words = words

    def character(self):
        planes = [(0x20, 0x7F), (0x80, 0x250), (0x250, 0x600), (0x600, 0xE00), (0xE00, 0x2000),
                  (0x2000, 0x3400), (0x3400, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF),
                  (0x20000, 0x30000), (0, 0x10FFFF)]
        low, high = self.random.choice(planes)
        c = self.random.randint(low, high)
        return " " if 0xD800 <= c < 0xE000 else chr(c)

    def piece(self):
        kind = self.random.random()
        if kind < 0.45:
            word = self.random.choice(self.words)
            change = self.random.random()
            if change < 0.1:
                return word.upper()
            return word.title() if change < 0.2 else word
        if kind < 0.75:
            return self.random.choice(SPICE)
        if kind < 0.97:
            return "".join(self.character() for _ in range(self.random.randint(1, 6)))
        if kind < 0.99:
            return self.random.choice("abz.1 \u00e9\u0301") * self.random.randint(1, 120)
        return "".join(self.random.choice(self.words) for _ in range(self.random.randint(5, 40)))

    def text(self):
        glue = self.random.choice(["", " ", "", "\n"])
        return glue.join(self.piece() for _ in range(self.random.randint(0, 24)))

    def data(self):
        """Bytes, some of them no UTF-8."""
        data = bytearray(self.text().encode())
        for _ in range(self.random.choice([0, 1, 1, 3, 8])):
            at = self.random.randint(0, len(data))
            data[at:at + self.random.randint(0, 2)] = self.random.randbytes(1)
        return bytes(data)


def training_text(root):
    return [path.read_text() for path in sorted((root / "docs").glob("*.md"))]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False))


def word_piece_vocabulary(texts, lowercase, size=3000):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=BERT_SPECIAL,
                                         show_progress=False))
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def with_characters(vocabulary, every):
    """And characters, alone and as continuations, so that what becomes of them shows in the ids:
    each that a rule may change, and of letters and symbols without case all or one in 16."""
    known = set(vocabulary)
    plain = ("Lo", "So", "Co", "Cn")
    more = [c for c in characters()
            if not c.isspace() and (unicodedata.category(c) not in plain
                                    or unicodedata.category(c) != "Cn" and every
                                    or ord(c) % 16 == 0 and unicodedata.category(c) != "Cn")]
    return vocabulary + [t for c in more for t in (c, "##" + c) if t not in known]


def byte_pair(texts, pre_tokenizer, size=3000, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                   special_tokens=["<|endoftext|>"],
                                   initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split_first(rule):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(rule), "isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def write_bert(folder, vocabulary, config):
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", newline="")
    write_json(folder / "tokenizer_config.json", config)
    return folder


def write_tokenizer_json(folder, tokenizer):
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_gpt2(folder, tokenizer):
    """vocab.json and merges.txt, without the first line that says the version in one of two."""
    folder.mkdir(parents=True)
    state = json.loads(tokenizer.to_str())["model"]
    write_json(folder / "vocab.json", state["vocab"])
    merges = [" ".join(merge) for merge in state["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return folder
