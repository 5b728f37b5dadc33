"""data.format "chat" against transformers: the tokens of apply_chat_template, and the loss of the
tokens that its assistant mask has, also with several conversations in a sample."""

import copy
import json
import os
import sys
import unittest

import harness
import training

try:
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError as error:
    print(f"left out: {error}; scripts/setup.sh --peers installs it")
    sys.exit(77)

EOS = "<|endoftext|>"
SPECIAL = [EOS, "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
           "<|end_header_id|>", "<|eot_id|>"]
STEPS, BATCH, LENGTH, RATE = 6, 3, 48, 0.05
PACK = 150
SPACES = ["", "\x1c", "\x85", "\u00a0", "\u3000\u2028", "\u200b"]  # the last one is no space


def jinja(begin, before, after, content, end, last):
    """The template of a form; {% generation %} marks answers."""
    text = f"{{{{ {content} + {end} }}}}"
    return (f"{{{{ {begin} }}}}{{% for message in messages %}}"
            f"{{{{ {before} + message['role'] + {after} }}}}"
            f"{{% if message['role'] == 'assistant' %}}"
            f"{{% generation %}}{text}{{% endgeneration %}}"
            f"{{% else %}}{text}{{% endif %}}{{{{ {last} }}}}{{% endfor %}}")


TEMPLATES = {
    "chatml": jinja("''", r"'<|im_start|>'", r"'\n'", "message['content']", "'<|im_end|>'",
                    r"'\n'"),
    "llama3": jinja("'<|begin_of_text|>'", "'<|start_header_id|>'", r"'<|end_header_id|>\n\n'",
                    "message['content'] | trim", "'<|eot_id|>'", "''"),
    "zephyr": jinja("''", "'<|'", r"'|>\n'", "message['content']", "eos_token", r"'\n'"),
}


def conversations():
    chats = []
    for i in range(STEPS * BATCH * 2):
        chat = [{"role": "system", "content": "You are brief.\nAnswer in one line."}] * (i % 2)
        for turn in range(1 + i % 3):
            chat += [{"role": "user", "content": f"What is {i} plus {turn}?\n\nSay it. "},
                     {"role": "assistant", "content": f" It is {i + turn}.\n" * (1 + i % 2)}]
            chat[-1]["content"] += SPACES[i % len(SPACES)]
        chats.append(chat)
    return chats


class Chat(training.TrainingTest):
    def setUp(self):
        super().setUp()
        self.chats = conversations()
        with open(self.path("chats.jsonl"), "w") as file:
            file.writelines(json.dumps({"id": 1, "messages": chat}) + "\n" for chat in self.chats)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(
            [message["content"] for chat in self.chats for message in chat],
            trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL,
                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        self.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, eos_token=EOS, bos_token=EOS)
        self.tokenizer.save_pretrained(self.path("gpt"))
        torch.manual_seed(5)
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=len(self.tokenizer), n_positions=PACK, n_embd=32, n_layer=2, n_head=4,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        self.model.save_pretrained(self.path("gpt"))

    def save_llama(self):
        torch.manual_seed(6)
        self.model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=len(self.tokenizer), max_position_embeddings=PACK, hidden_size=32,
            intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2))
        self.model.save_pretrained(self.path("llama"))
        self.tokenizer.save_pretrained(self.path("llama"))

    def run_chat(self, form, ranks, model="gpt", **data):
        config = {
            "run": {"name": f"{model}{form}{ranks}", "max_steps": STEPS},
            "model": {"type": model, "name_or_path": self.path(model)},
            "data": {"format": "chat", "train_files": self.path("chats.jsonl"), "shuffle": False,
                     "max_seq_length": LENGTH, "chat_template": form, **data},
            "training": {"per_device_train_batch_size": BATCH, "max_grad_norm": 0},
            "optimizer": {"type": "sgd", "learning_rate": RATE},
            "scheduler": {"lr_scheduler_type": "constant"},
            "evaluation": {"sample_length": 0},
            "report": {"logging_steps": 1},
        }
        return self.run_ddprun(f"--nproc_per_node={ranks}", self.write_config(config))

    def samples(self, form, length=LENGTH):
        """Ids and labels, cut as ddprun cuts them."""
        for chat in self.chats:
            made = self.tokenizer.apply_chat_template(
                chat, chat_template=TEMPLATES[form], return_dict=True,
                return_assistant_tokens_mask=True)
            labels = [token if learned else -100 for token, learned in
                      zip(made["input_ids"], made["assistant_masks"])]
            yield made["input_ids"][:length + 1], labels[:length + 1]

    def packs(self, form):
        """The samples of each pack, by best fit decreasing."""
        packs = []  # [room, when it got this room, samples]
        for turn, sample in enumerate(sorted(self.samples(form, PACK), reverse=True,
                                             key=lambda sample: len(sample[0]))):
            inputs = len(sample[0]) - 1
            fitting = [pack for pack in packs if pack[0] >= inputs]
            if not fitting:
                packs.append([PACK, -1, []])
                fitting = packs[-1:]
            pack = min(fitting, key=lambda pack: pack[:2])
            pack[:] = [pack[0] - inputs, turn, pack[2] + [sample]]
        return [pack[2] for pack in packs]

    def peer_losses(self, ranks, samples):
        """samples: of each row, those that ddprun may have put together. Here each is a row."""
        model = copy.deepcopy(self.model)
        optimizer = torch.optim.SGD(model.parameters(), RATE)
        losses = []
        for step in range(min(STEPS, len(samples) // (BATCH * ranks))):
            rows = samples[step * BATCH * ranks:(step + 1) * BATCH * ranks]
            batch = [sample for row in rows for sample in row]
            longest = max(len(ids) for ids, _ in batch)
            ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in batch])
            labels = torch.tensor([row + [-100] * (longest - len(row)) for _, row in batch])
            scores = model(ids[:, :-1]).logits
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def test_losses_are_those_of_transformers(self):
        for form, ranks in (("chatml", 1), ("chatml", 2), ("llama3", 1), ("zephyr", 2)):
            with self.subTest(form=form, ranks=ranks):
                job = self.run_chat(form, ranks)
                self.assertEqual(job.returncode, 0, job.err)
                found = [line["loss"] for line in self.metrics(f"gpt{form}{ranks}")
                         if line.get("split") == "train"]
                expected = self.peer_losses(ranks, [[sample] for sample in self.samples(form)])
                for one, other in zip(found, expected, strict=True):
                    self.assertLess(abs(one - other), 2e-6)

    def test_several_conversations_in_a_sample_are_strangers(self):
        self.save_llama()
        packs = self.packs("chatml")
        for model, ranks in (("llama", 1), ("llama", 2), ("gpt", 1)):
            with self.subTest(model=model, ranks=ranks):
                if model == "gpt":
                    self.model = transformers.GPT2LMHeadModel.from_pretrained(self.path("gpt"))
                job = self.run_chat("chatml", ranks, model, packing=True, max_seq_length=PACK)
                self.assertEqual(job.returncode, 0, job.err)
                self.assertIn(f"{len(self.chats)} conversations packed into {len(packs)} samples",
                              job.out + job.err)
                found = [line["loss"] for line in self.metrics(f"{model}chatml{ranks}")
                         if line.get("split") == "train"]
                expected = self.peer_losses(ranks, packs)
                self.assertGreater(len(expected), 1)
                for one, other in zip(found, expected):
                    self.assertLess(abs(one - other), 4e-6)

    def test_some_conversations_are_longer_than_a_sample(self):
        lengths = [len(ids) for ids, _ in self.samples("chatml")]
        self.assertIn(LENGTH + 1, lengths)
        self.assertLess(min(lengths), LENGTH)

    def test_says_which_token_or_row_is_missing(self):
        with open(self.path("chats.jsonl"), "a") as file:
            file.write('{"messages": [{"role": "user"}]}\n')
        job = self.run_chat("zephyr", 1)
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn(f"chats.jsonl:{len(self.chats) + 1}", job.err)
        job = self.run_chat("zephyr", 1, on_bad_row="skip")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("1 row", job.out + job.err)
        self.script("chats.jsonl", '{"messages": [{"role": "user", "content": "one"}]}\n' * 8)
        job = self.run_chat("zephyr", 1)
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn("No conversation has an answer", job.err)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            with open(self.path(f"gpt/{name}")) as file:
                text = file.read()
            with open(self.path(f"gpt/{name}"), "w") as file:
                file.write(text.replace("<|im_end|>", "<|other|>"))
        job = self.run_chat("chatml", 1, on_bad_row="skip")
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn('The tokenizer has no token "<|im_end|>"', job.err)


if __name__ == "__main__":
    unittest.main()
