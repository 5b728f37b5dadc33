"""torch.utils.data.DataLoader over what ddp-loader-speed reads: loader.py CASE WORKERS FOLDER.

Each line "EPOCH" on stdin is answered by "SECONDS BATCHES CHECKSUM", as ddp-loader-speed does.
Files are read, rows parsed and, for pairs_ready, texts tokenized before the first line.
"""

import csv
import json
import os
import sys
import time

WORKERS = int(sys.argv[2])
# A worker process is one core's work; without workers the tokenizer has all of them.
os.environ["TOKENIZERS_PARALLELISM"] = "false" if WORKERS else "true"

import torch  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

CASE, FOLDER = sys.argv[1], sys.argv[3]
BATCH = {"pairs": 32, "pairs_ready": 32, "images": 32, "table": 256}[CASE]
LABELS = ["entailment", "neutral", "contradiction"]


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def pairs(ready):
    """Rows and how they become a batch, as transformers' example of GLUE has it."""
    from transformers import BertTokenizerFast, DataCollatorWithPadding
    tokenizer = BertTokenizerFast.from_pretrained(f"{FOLDER}/vocab")
    with open(f"{FOLDER}/pairs.jsonl", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    labels = [LABELS.index(row["gold_label"]) for row in rows]
    texts = [(row["sentence1"], row["sentence2"]) for row in rows]

    def encode(some, **options):
        return tokenizer([first for first, _ in some], [second for _, second in some],
                         truncation=True, max_length=512, **options)

    if ready:
        encoded = encode(texts)
        return Rows([{**{key: encoded[key][i] for key in encoded}, "labels": labels[i]}
                     for i in range(len(rows))]), DataCollatorWithPadding(tokenizer)

    def collate(batch):
        result = encode([row[0] for row in batch], padding="longest", return_tensors="pt")
        result["labels"] = torch.tensor([row[1] for row in batch])
        return result

    return Rows(list(zip(texts, labels))), collate


def images():
    from torchvision import datasets, transforms
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
             transforms.ToTensor(),
             transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return datasets.ImageFolder(f"{FOLDER}/images", transforms.Compose(steps)), None


def table():
    with open(f"{FOLDER}/table.csv", newline="") as file:
        rows = list(csv.reader(file))[1:]
    values = torch.tensor([[float(x) for x in row[:-1]] for row in rows])
    classes = torch.tensor([int(row[-1]) for row in rows])
    scaled = (values - values.mean(0)) / values.std(0, correction=0)
    return TensorDataset(scaled, classes), None


def checksum(batch):
    if isinstance(batch, (list, tuple)):
        return int(batch[1].sum())
    return int(batch["input_ids"].sum()) + int(batch["labels"].sum())


def main():
    dataset, collate = {"pairs": lambda: pairs(False), "pairs_ready": lambda: pairs(True),
                        "images": images, "table": table}[CASE]()
    loader = DataLoader(dataset, batch_size=BATCH, shuffle=True, collate_fn=collate,
                        num_workers=WORKERS, persistent_workers=WORKERS > 0)
    # As in worker processes: threads for tensors as small as these only wait for one another.
    torch.set_num_threads(1)
    for line in sys.stdin:
        torch.manual_seed(int(line))
        start = time.perf_counter()
        count = total = 0
        for batch in loader:
            count += 1
            total += checksum(batch)
        print(time.perf_counter() - start, count, total, flush=True)


main()
