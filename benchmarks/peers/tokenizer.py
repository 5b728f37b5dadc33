"""Hugging Face's tokenizers (Rust) as ddp-tokenizer-speed does it: tokenizer.py FOLDER FILE."""

import os
import sys
import time

os.environ["USE_TORCH"] = "0"

from transformers import BertTokenizerFast  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


def main():
    folder, file = sys.argv[1:]
    if os.path.exists(f"{folder}/tokenizer.json"):
        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    else:
        tokenizer = BertTokenizerFast.from_pretrained(folder).backend_tokenizer
    with open(file, encoding="utf-8", newline="") as stream:
        documents = stream.read().split("\0")[:-1]
    for line in sys.stdin:
        if int(line) != int(os.environ["RAYON_NUM_THREADS"]):
            sys.exit("RAYON_NUM_THREADS is another number of threads")
        start = time.perf_counter()
        encodings = tokenizer.encode_batch_fast(documents, add_special_tokens=False)
        taken = time.perf_counter() - start
        tokens = sum(len(encoding) for encoding in encodings)
        print(taken, tokens, sum(sum(encoding.ids) for encoding in encodings), flush=True)
        del encodings


main()
