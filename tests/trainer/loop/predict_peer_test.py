"""ddp-trainer predict beside PyTorch and transformers, for runs of all strategies on 2 ranks."""

import json
import os
import random
import sys

import harness
import training

try:
    import safetensors.torch
    import torch
    import transformers
    from sklearn import metrics
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

STRATEGIES = ("ddp", "zero1", "zero3", "tensor_parallel", "pipeline")
WORDS = ("the", "old", "boat", "quiet", "mill")


class PredictPeer(training.TrainingTest):
    def write_lines(self, name, lines):
        with open(self.path(name), "w") as file:
            file.writelines(f"{line}\n" for line in lines)

    def config(self, name, strategy, model, data, **training_section):
        return {"run": {"name": name, "max_steps": 12}, "model": model, "data": data,
                "strategy": {"type": strategy}, "training": training_section,
                "optimizer": {"learning_rate": 0.01}, "checkpoint": {"save_steps": 12}}

    def test_tables_equal_pytorch(self):
        rows = [(i % 7, "" if i % 9 == 0 else i * i % 11, ("red", "blue", "green")[i % 3])
                for i in range(64)]
        self.write_lines("train.csv", ["a,b,color,y"] + [
            f"{a},{b},{color},{(a > 3) + (color == 'red')}" for a, b, color in rows])
        self.write_lines("new.csv", ["a,b,color"] + [f"{a + 0.5},{b},{color}"
                                                     for a, b, color in rows])
        # No multiple of the ranks: each row counts once.
        targets = [(i * 5) % 3 for i in range(len(rows) - 1)]
        self.write_lines("test.csv", ["a,b,color,y"] + [
            f"{a + 0.5},{b},{color},{y}" for (a, b, color), y in zip(rows, targets)])
        columns = []
        for column in (0, 1):
            known = torch.tensor([row[column] for row in rows if row[column] != ""],
                                 dtype=torch.double)
            mean = known.mean()
            filled = torch.tensor([mean if row[column] == "" else row[column] for row in rows],
                                  dtype=torch.double)
            # The deviation is that of the values that are there.
            columns.append((filled + (0.5 if column == 0 else 0) - mean) / known.std(correction=0))
        for color in ("blue", "green", "red"):
            columns.append(torch.tensor([float(row[2] == color) for row in rows]))
        inputs = torch.stack(columns, 1).float()
        for kind, outputs in (("class", 3), ("number", 1)):
            for strategy in STRATEGIES:
                name = f"{kind}-{strategy}"
                self.train(self.config(
                    name, strategy, {"type": "mlp", "layer_sizes": [5, 8, 6, outputs]},
                    {"format": "csv", "train_files": ["train.csv"], "label_column": "y",
                     "target_type": kind, "standardize": True, "on_missing": "mean",
                     "test_files": ["test.csv"]}) | {"evaluation": {"metrics": [
                         "accuracy", "confusion_matrix"] if kind == "class" else []}}, 2)
                state = safetensors.torch.load_file(
                    self.path(f"runs/{name}/model/model.safetensors"))
                x = inputs
                for i in range(3):
                    x = torch.nn.functional.linear(torch.relu(x) if i > 0 else x,
                                                   state[f"layers.{i}.weight"],
                                                   state[f"layers.{i}.bias"])
                (test,) = [line for line in self.metrics(name) if line.get("split") == "test"]
                self.assertEqual((len(targets), 12), (test["samples"], test["step"]))
                expected = torch.tensor(targets)
                outputs_of_test = x[:len(targets)]
                if kind == "class":
                    loss = torch.nn.functional.cross_entropy(outputs_of_test, expected)
                    self.assertAlmostEqual(
                        (outputs_of_test.argmax(1) == expected).double().mean().item(),
                        test["accuracy"], places=9)
                    self.assert_classes(name, test, targets, outputs_of_test.argmax(1).tolist())
                else:
                    loss = torch.nn.functional.mse_loss(outputs_of_test[:, 0], expected.float())
                self.assertLess(abs(loss.item() - test["loss"]), 1e-5 * max(1, loss.item()), name)
                rows_found = self.predict(name, "new.csv")
                if kind == "class":
                    x = torch.softmax(x, 1)
                    found = torch.tensor([list(row["probabilities"].values())
                                          for row in rows_found])
                    self.assertEqual([str(int(i)) for i in x.argmax(1)],
                                     [row["class"] for row in rows_found])
                else:
                    found = torch.tensor([[row["value"]] for row in rows_found])
                self.assertGreater(x.std(0).max(), 0.01)  # the rows differ
                difference = (found - x).abs().max().item()
                self.assertLess(difference, 1e-5, name)
                print(f"{name}: largest difference to PyTorch {difference:.1e}")

    def assert_classes(self, name, test, targets, predicted):
        pairs = metrics.confusion_matrix(targets, predicted, labels=[0, 1, 2]).tolist()
        expected = {"labels": ["0", "1", "2"], "counts": pairs}
        self.assertEqual(expected, test["confusion_matrix"])
        said = self.evaluate(name, "test.csv", "--by_class")
        self.assertEqual(expected, said["confusion_matrix"])
        scores = metrics.precision_recall_fscore_support(targets, predicted, labels=[0, 1, 2],
                                                         zero_division=0)
        for i, label in enumerate(expected["labels"]):
            found = [said["classes"][label][key]
                     for key in ("precision", "recall", "f1", "samples")]
            for one, other in zip(found, scores):
                self.assertAlmostEqual(one, other[i], places=12)

    def test_pairs_equal_the_pipeline_of_transformers(self):
        torch.manual_seed(3)
        folder = self.path("bert")
        transformers.BertForSequenceClassification(transformers.BertConfig(
            hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
            vocab_size=5 + len(WORDS), max_position_embeddings=32, num_labels=3,
        )).save_pretrained(folder)
        self.write_lines("bert/vocab.txt", ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS))
        transformers.BertTokenizer(os.path.join(folder, "vocab.txt")).save_pretrained(folder)
        numbers = random.Random(2)
        texts = [[" ".join(numbers.choice(WORDS) for _ in range(numbers.randint(2, 10)))
                  for _ in range(2)] for _ in range(40)]
        self.write_lines("train.jsonl", [json.dumps(
            {"sentence1": a, "sentence2": b, "label": ("no", "maybe", "yes")[i % 3]})
            for i, (a, b) in enumerate(texts)])
        self.write_lines("new.jsonl", [json.dumps({"sentence1": a, "sentence2": b})
                                       for a, b in texts])
        for strategy in STRATEGIES:
            self.train(self.config(
                f"bert-{strategy}", strategy, {"type": "bert", "name_or_path": folder},
                {"format": "text_classification", "train_files": ["train.jsonl"],
                 "tokenizer": folder, "labels": ["no", "maybe", "yes"], "max_seq_length": 32}), 2)
            peer = transformers.pipeline("text-classification", top_k=None, device="cpu",
                                         model=self.path(f"runs/bert-{strategy}/model"))
            found = self.predict(f"bert-{strategy}", "new.jsonl")
            self.assertEqual(found, self.predict(f"bert-{strategy}/model", "new.jsonl"))
            self.assertEqual(len(texts), len(found))
            largest = 0
            for (a, b), row in zip(texts, found):
                scores = {one["label"]: one["score"] for one in peer({"text": a, "text_pair": b})}
                self.assertEqual(scores.keys(), row["probabilities"].keys())
                self.assertEqual(max(scores, key=scores.get), row["class"])
                largest = max(largest, *(abs(scores[label] - probability) for label, probability
                                         in row["probabilities"].items()))
            self.assertLess(largest, 1e-5, strategy)
            print(f"bert-{strategy}: largest difference to transformers {largest:.1e}")


if __name__ == "__main__":
    harness.main()
