"""The small GPT that the benchmarks train: as a config for ddprun, as arguments for its peer."""

import json
import pathlib

import harness

SIZES = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}
# One sequence per rank and step: start-up is measured, not the matrix products of a large step.
SEQUENCE, BATCH, LEARNING_RATE = 128, 1, 3e-4
TEXT = ["scripts/*.py", "benchmarks/*.py", "base/*.h", "base/*.cc"]
STEP = r"step +(\d+)/"  # a line of either side after a step


def ddprun_command(options, ranks, folder, steps):
    """Writes the config into the folder, which also takes the run folder."""
    config = {
        "run": {"output_dir": str(pathlib.Path(folder) / "run"), "max_steps": steps},
        "model": {"type": "gpt", "vocab_size": 256, **SIZES},
        "data": {"train_files": [str(harness.ROOT / glob) for glob in TEXT],
                 "max_seq_length": SEQUENCE},
        "training": {"per_device_train_batch_size": BATCH},
        "optimizer": {"learning_rate": LEARNING_RATE},
        "checkpoint": {"save_at_end": False},
        "report": {"logging_steps": 1, "progress_bar": "off"},
    }
    path = pathlib.Path(folder) / "gpt.json"
    path.write_text(json.dumps(config))
    return [*harness.ddprun(options, ranks), path]


def torchrun_command(ranks, steps):
    files = sorted(path for glob in TEXT for path in harness.ROOT.glob(glob))
    script = harness.ROOT / "benchmarks/peers/gpt_ddp.py"
    return [*harness.torchrun(ranks), script, f"--steps={steps}", f"--sequence={SEQUENCE}",
            f"--batch={BATCH}", f"--width={SIZES['hidden_size']}",
            f"--layers={SIZES['num_hidden_layers']}", f"--heads={SIZES['num_attention_heads']}",
            f"--learning-rate={LEARNING_RATE}", *files]
