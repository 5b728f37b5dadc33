"""The first step of Hugging Face's Trainer or of accelerate, fresh or at a late batch; prints the
seconds from the call that trains to the end of that step, and the median of the steps after it."""

import json
import pathlib
import statistics
import sys
import time

import torch

STEPS_AFTER = 20


class Samples(torch.utils.data.Dataset):
    def __init__(self, size):
        self.inputs = torch.randn(size, 10)
        self.targets = torch.randn(size, 5)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return {"x": self.inputs[index], "labels": self.targets[index]}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))

    def forward(self, x, labels):
        out = self.layers(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


def with_trainer(batch, batches, at, folder):
    import transformers

    ends = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_args, **_more):
            ends.append(time.monotonic())

    def make(steps):
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=batch, max_steps=steps, save_steps=1,
            report_to=[], disable_tqdm=True, use_cpu=True, logging_steps=10**9)
        return transformers.Trainer(Net(), arguments, train_dataset=Samples(batch * batches),
                                    callbacks=[Clock()])

    checkpoint = None
    if at:
        # As if it had been saved there: skipping the batches is what counts.
        make(1).train()
        checkpoint = pathlib.Path(folder) / "checkpoint-1"
        state = json.loads((checkpoint / "trainer_state.json").read_text())
        state["global_step"] = at
        (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    trainer = make(at + STEPS_AFTER)
    trainer.args.save_strategy = transformers.trainer_utils.SaveStrategy.NO
    ends.clear()
    begin = time.monotonic()
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    return begin, ends


def with_accelerate(batch, batches, at, _folder):
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(Samples(batch * batches), batch, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    ends = []
    begin = time.monotonic()
    rest = accelerator.skip_first_batches(loader, at) if at else loader
    for data in rest:
        optimizer.zero_grad()
        accelerator.backward(model(**data)["loss"])
        optimizer.step()
        ends.append(time.monotonic())
        if len(ends) == STEPS_AFTER:
            break
    return begin, ends


def main():
    side, batch, batches, at, folder = sys.argv[1:6]
    torch.set_num_threads(1)
    run = {"transformers": with_trainer, "accelerate": with_accelerate}[side]
    begin, ends = run(int(batch), int(batches), int(at), folder)
    steps = [after - before for before, after in zip(ends, ends[1:])]
    print(json.dumps({"first": ends[0] - begin, "step": statistics.median(steps)}))


if __name__ == "__main__":
    main()
