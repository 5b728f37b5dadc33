#!/usr/bin/env python3
"""Shows that a change of code changes no bit of what is trained.

    same_bits.py OLD_BUILD NEW_BUILD [--only REGEX] [--new-set KEY=VALUE]

Both builds (folders with bin/) train small models for six steps with every strategy: alone, with
accumulation, virtual ranks, half precision, comm hooks, a resume and a lost rank. Compared are the
hashes of all gradients and weights after each step (report.state_hashes, `ddp-trainer diff`), or,
where hashes are refused, none; and always the lines of metrics.jsonl but for times, and
the bytes of model.safetensors. Prints a line for each case; exit code 1 if any differs.

With --new-set the new build trains with another key, to see that the comparison finds it:
--new-set run.seed=7.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 6
LONG = 400  # steps in which a rank can be killed
DEADLINE_S = 300
# Of metrics.jsonl: how long things took.
RATES = re.compile("^(ts|seconds|.*_seconds|.*per_second.*|eta.*|goodput|pipeline_bubble)$")
DEVICES = ["cpu", "cpu"]


@dataclasses.dataclass
class Case:
    name: str
    ranks: int
    sections: dict  # of the config
    how: str = ""   # "resume": in two runs; "kill": a rank is killed and replaced


def merged(*parts):
    """Sections of a config; later ones rule."""
    found = {}
    for part in parts:
        for section, keys in part.items():
            found[section] = {**found.get(section, {}), **keys}
    return found


def strategy(kind, **keys):
    return {"strategy": {"type": kind, **keys}}


def stages(kind="pipeline", schedule="1f1b", **keys):
    return strategy(kind, pipeline_parallel_size=2, pipeline_schedule=schedule,
                    pipeline_micro_batches=2, **keys)


# The strategies, as tests/trainer/loop/strategies_test.cc has them.
STRATEGIES = {
    "single": (1, strategy("single")),
    "ddp1": (1, strategy("ddp")),
    "ddp2": (2, strategy("ddp")),
    "ddp4": (4, strategy("ddp")),
    "tensor2": (2, strategy("tensor_parallel")),
    "tensor4": (4, strategy("tensor_parallel")),
    "tensor2-data2": (4, strategy("tensor_parallel", tensor_parallel_size=2)),
    **{f"zero{stage}-of{ranks}": (ranks, strategy(f"zero{stage}"))
       for stage in (1, 2, 3) for ranks in (2, 4)},
    "zero2-of2-data2": (4, strategy("zero2", shard_size=2)),
    "zero3-of2-data2": (4, strategy("zero3", shard_size=2)),
    "pipeline2": (2, stages()),
    "pipeline2-gpipe": (2, stages(schedule="gpipe")),
    "pipeline2-data2": (4, stages()),
    "pipeline2-tensor2": (4, stages(tensor_parallel_size=2)),
    "pipeline2-tensor2-gpipe": (4, stages(schedule="gpipe", tensor_parallel_size=2)),
    "pipeline2-tensor2-data2": (8, stages(tensor_parallel_size=2)),
    **{f"zero{stage}-tensor2": (4, strategy(f"zero{stage}", tensor_parallel_size=2))
       for stage in (1, 2, 3)},
    "zero3-tensor2-alone": (2, strategy("zero3", tensor_parallel_size=2)),
    "zero1-of2-tensor2-data2": (8, strategy("zero1", tensor_parallel_size=2, shard_size=2)),
    "zero2-tensor2-of4": (8, strategy("zero2", tensor_parallel_size=2)),
    "zero3-of2-tensor2-data2": (8, strategy("zero3", tensor_parallel_size=2, shard_size=2)),
    "zero1-pipeline2": (4, stages("zero1")),
    "zero1-pipeline2-tensor2": (8, stages("zero1", tensor_parallel_size=2)),
    "pipeline-on-devices": (1, strategy("pipeline", devices=DEVICES)),
    "layers": (1, strategy("model_parallel", devices=DEVICES)),
    "dp2": (1, strategy("dp", devices=DEVICES)),
    "dp4": (1, strategy("dp", devices=DEVICES * 2)),
}
PLAIN = ("single", "ddp2", "zero1-of2", "zero2-of2", "zero3-of2", "pipeline2", "tensor2", "layers",
         "dp2")
# On top of which strategies, and what.
VARIANTS = {
    "accumulation": (PLAIN, {"training": {"gradient_accumulation_steps": 3}}),
    "fp16": (PLAIN, {"training": {"precision": "fp16"}}),
    "bf16": (("ddp2", "zero3-of2", "pipeline2"), {"training": {"precision": "bf16"}}),
    "virtual": (("ddp1", "ddp2", "ddp4"), {"training": {"virtual_ranks": 4}}),
    "recomputation": (("ddp2", "zero3-of2"), {"training": {"gradient_checkpointing": True}}),
    "no-clipping": (("ddp2", "zero1-of2", "zero2-of2"), {"training": {"max_grad_norm": 0}}),
    "overlap-step": (("ddp2",), {"strategy": {"overlap": "step"},
                                 "training": {"max_grad_norm": 0}}),
    "overlap-both": (("ddp2",), {"strategy": {"overlap": "both"},
                                 "training": {"max_grad_norm": 0}}),
    "overlap-none": (("ddp2", "zero1-of2"), {"strategy": {"overlap": "none"}}),
    "in-backward": (("ddp2",), {"strategy": {"optimizer_in_backward": True},
                                "training": {"max_grad_norm": 0}}),
    "unused": (("ddp2",), {"strategy": {"find_unused_parameters": True}}),
    "static": (("ddp2",), {"strategy": {"static_graph": True}}),
    "ring": (("ddp4",), {"comm": {"algorithm": "ring"}}),
    "hook-fp16": (("ddp2", "tensor2-data2"), {"strategy": {"comm_hook": "fp16"}}),
    "power-sgd": (("ddp2",), {"strategy": {"comm_hook": "power_sgd", "power_sgd_start_step": 2}}),
    "local-sgd": (("ddp2",), {"strategy": {"comm_hook": "post_local_sgd",
                                           "post_local_sgd_start_step": 2,
                                           "post_local_sgd_period": 2}}),
}
RESUMED = ("single", "ddp2", "zero1-of2", "zero3-of2", "pipeline2", "tensor2")


def cases():
    for name, (ranks, sections) in STRATEGIES.items():
        yield Case(name, ranks, sections)
    for variant, (names, sections) in VARIANTS.items():
        for name in names:
            ranks, own = STRATEGIES[name]
            yield Case(f"{name} {variant}", ranks, merged(own, sections))
    for name in RESUMED:
        yield Case(f"{name} resumed", *STRATEGIES[name], "resume")
    yield Case("ddp2 lost-rank", 2, strategy("ddp"), "kill")
    yield Case("ddp4 lost-rank accumulation", 4,
               merged(strategy("ddp"), {"training": {"gradient_accumulation_steps": 3}}), "kill")


def config_of(case):
    steps = LONG if case.how == "kill" else STEPS
    save_steps = STEPS // 2 if case.how == "resume" else 0
    return merged({
        "run": {"name": "a", "seed": 3, "max_steps": steps, "resume": "auto"},
        "model": {"type": "gpt", "vocab_size": 256, "hidden_size": 32, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "dropout": 0.1},
        "data": {"train_files": [str(ROOT / "tests/golden/text.txt")], "max_seq_length": 16,
                 "validation_fraction": 0.1},
        "training": {"per_device_train_batch_size": 4, "matmul_engine": "default"},
        "scheduler": {"warmup_steps": 2},
        "checkpoint": {"save_steps": save_steps},
        "report": {"logging_steps": 1},
    }, case.sections)


class Run:
    """What one build makes of a case, in a folder of its own."""

    def __init__(self, build, case, folder, overrides):
        self.bin, self.case, self.folder = build / "bin", case, folder
        self.folder.mkdir()
        (self.folder / "train.json").write_text(json.dumps(config_of(case)))
        self.sets = [f"--set={override}" for override in overrides]

    def call(self, program, *arguments):
        return subprocess.run([self.bin / program, *arguments], cwd=self.folder, timeout=DEADLINE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def takes_hashes(self):
        set_hashes = "--set=report.state_hashes=true"
        return self.call("ddp-trainer", "check", "train.json", set_hashes).returncode == 0

    def train(self, hashes):
        sets = self.sets + (["--set=report.state_hashes=true"] if hashes else [])
        argv = [self.bin / "ddprun", f"--nproc_per_node={self.case.ranks}", "train.json", *sets]
        if self.case.how == "kill":
            return self.train_and_kill(argv)
        if self.case.how == "resume":
            self.finish(self.call(*argv, f"--set=run.max_steps={STEPS // 2}"))
        self.finish(self.call(*argv))

    def finish(self, done):
        if done.returncode != 0:
            sys.exit(f"{self.case.name}: {self.bin} failed:\n{done.stdout}")

    def train_and_kill(self, argv):
        argv[1:1] = ["--max_restarts=2", "--log_level=debug"]
        with open(self.folder / "log", "w") as log:
            job = subprocess.Popen(argv, cwd=self.folder, stdout=log, stderr=log)
        victim = self.case.ranks - 1
        deadline = time.monotonic() + DEADLINE_S
        while len(self.lines("metrics.jsonl")) < STEPS and job.poll() is None:
            time.sleep(0.01)
        started = re.findall(rf"worker started rank={victim} .*pid=(\d+)", self.log())
        if job.poll() is None:
            os.kill(int(started[-1]), signal.SIGKILL)
        status = job.wait(timeout=max(1, deadline - time.monotonic()))
        if status != 0 or f"rank {victim} was lost: recovered" not in self.log():
            sys.exit(f"{self.case.name}: {self.bin} did not replace a rank:\n{self.log()}")

    def log(self):
        return (self.folder / "log").read_text()

    def lines(self, name):
        """The whole lines of a file of the run."""
        path = self.folder / "runs/a" / name
        return path.read_text().split("\n")[:-1] if path.is_file() else []

    def told(self):
        """What metrics.jsonl says of steps and evaluations, but for times."""
        lines = [json.loads(line) for line in self.lines("metrics.jsonl")]
        return [{key: value for key, value in line.items() if not RATES.match(key)}
                for line in lines if line.get("split")]

    def weights(self):
        return (self.folder / "runs/a/model/model.safetensors").read_bytes()


def first_difference(old, new, hashes):
    """What differs between two runs; "" if nothing does."""
    if hashes:
        if not old.lines("state_hashes.jsonl"):
            return "the old run has no hashes"
        diff = new.call("ddp-trainer", "diff", old.folder / "runs/a", new.folder / "runs/a")
        # Ranks of one run may differ from each other where they take steps of their own.
        lines = [line for line in diff.stdout.split("\n")
                 if line and not line.startswith("ranks of ") and ": the same" not in line]
        if diff.returncode != 0 and lines:
            return "\n".join(lines)
    told, told_new = old.told(), new.told()
    if len(told) < STEPS or len(told) != len(told_new):
        return f"{len(told)} lines of metrics, now {len(told_new)}"
    for was, is_now in zip(told, told_new):
        if was != is_now:
            return f"metrics {was}\nnow     {is_now}"
    return "" if old.weights() == new.weights() else "model.safetensors has other bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name has it")
    parser.add_argument("--new-set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1")
    chosen = [case for case in cases() if re.search(arguments.only, case.name)]
    differ = 0
    for case in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            old = Run(arguments.old.resolve(), case, scratch / "old", [])
            new = Run(arguments.new.resolve(), case, scratch / "new", arguments.new_set)
            hashes = case.how != "kill" and old.takes_hashes()
            for run in (old, new):
                run.train(hashes)
            found = first_difference(old, new, hashes)
        how = "hashes, metrics, weights" if hashes else "metrics, weights"
        print(f"{case.name}: {'DIFFERS: ' + found if found else 'same ' + how}", flush=True)
        differ += bool(found)
    print(f"{len(chosen)} cases, {differ} differ")
    sys.exit(1 if differ or not chosen else 0)


if __name__ == "__main__":
    main()
