"""The text pairs and the WordPiece vocabulary on which benchmarks/training.py trains BERT.

Both are drawn, since nothing is downloaded: words of one to three syllables with Zipf's
frequencies, in pairs whose lengths follow MNLI's (median of both together about 30 words, a long
tail). Which word a pair starts with decides its label, so that there is something to learn.
"""

import json
import random

LABELS = ["entailment", "neutral", "contradiction"]
VOCABULARY = 28996  # bert-base-cased's
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAIRS = 4096


def words():
    """All that a pair is made of, the most frequent first; each is one token."""
    syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er")]
    result = list(dict.fromkeys(syllables + [a + b for a in syllables for b in syllables]))
    drawn = random.Random(1)
    while len(result) < VOCABULARY - len(SPECIAL):
        result.append("".join(drawn.choices(syllables, k=3)))
        if len(result) == VOCABULARY - len(SPECIAL):
            result = list(dict.fromkeys(result))
    return result


def write_vocabulary(folder):
    (folder / "vocab.txt").write_text("\n".join(SPECIAL + words()) + "\n")


def write_pairs(path):
    """PAIRS JSON lines as MNLI has them: sentence1, sentence2, gold_label."""
    drawn = random.Random(2)
    known = words()
    frequency = [1 / (rank + 3) for rank in range(len(known))]

    def sentence(mean):
        return drawn.choices(known, frequency, k=max(3, round(drawn.lognormvariate(mean, 0.6))))

    with path.open("w") as file:
        for _ in range(PAIRS):
            label = drawn.randrange(len(LABELS))
            pair = [[known[label], *sentence(2.9)], sentence(2.2)]
            first, second = (" ".join(text) for text in pair)
            file.write(json.dumps({"sentence1": first, "sentence2": second,
                                   "gold_label": LABELS[label]}) + "\n")
