"""Random configs: every way of sharing a run out agrees with one process, also after it has gone on
in another way or lost processes; and what ddprun refuses, ddp-trainer check refuses, too.

    differential_test.py [--seeds FIRST:END]
    differential_test.py --seed N          one plan again

Needs DDPRUN_PROGRAM with ddp-trainer beside it, DDPRUN_SOURCE_DIR, DDPRUN_FAULTY_PLUGIN.
"""

import argparse
import array
import collections
import json
import os
import random
import re
import struct
import subprocess
import sys
import unittest

import data_formats_test
import differential_plan
import harness
import interruption_test

TRAINER = os.path.join(os.path.dirname(harness.DDPRUN), "ddp-trainer")
TITLE = re.compile("^-- ([A-Z][A-Z ,'0-9]*[A-Z0-9]) -", re.MULTILINE)
WORDS = "the old boat passes surely perhaps never a mill on hill".split()
COLOURS = ("blue", "green", "red")
EXACT = ("split", "step", "epoch", "samples", "tokens", "learning_rate")
MOST_COMPARED = 20000  # elements of a tensor

done = collections.Counter()


def files_of(data, samples, seed):
    """{path: bytes} of as many samples in the format of a section "data"."""
    draw = random.Random(seed)
    kind, length = data["format"], data.get("max_seq_length", 0)
    if kind == "text":
        return {".txt": bytes(draw.choice(b"abcdefgh \n") for _ in range(samples * length + 1))}
    if kind == "tokens":
        tokens = [draw.randrange(60) for _ in range(samples * length + 1)]
        return {".bin": struct.pack(f"<{len(tokens)}H", *tokens)}
    if kind == "csv":
        rows = ["a,b,c,colour,kind,y"]
        for i in range(samples):
            numbers = ",".join(f"{draw.gauss(0, 1):.4f}" for _ in range(3))
            rows.append(f"{numbers},{COLOURS[i % 3]},{'xyz'[draw.randrange(3) if i > 2 else i]},"
                        f"{draw.gauss(0, 1):.4f}")
        return {".csv": "\n".join(rows).encode()}
    if kind == "text_classification":
        rows = [json.dumps({"sentence1": " ".join(draw.choices(WORDS, k=draw.randint(1, 4))),
                            "sentence2": " ".join(draw.choices(WORDS, k=draw.randint(1, 9))),
                            "label": i % 3 if i < 3 else draw.randrange(3)})
                for i in range(samples)]
        return {".jsonl": "\n".join(rows).encode()}
    if kind == "idx":
        return {"-images-idx3-ubyte": struct.pack(">4I", 0x803, samples, 8, 8)
                + draw.randbytes(samples * 64),
                "-labels-idx1-ubyte": struct.pack(">2I", 0x801, samples)
                + bytes(i % 3 if i < 3 else draw.randrange(3) for i in range(samples))}
    if kind == "image_folder":
        found = {}
        for i in range(samples):
            width, height = draw.randint(8, 20), draw.randint(8, 20)
            found[f"/{COLOURS[i % 3]}/{i}.png"] = data_formats_test.png(
                draw.randbytes(3 * width * height), width)
        return found
    return {}


def read_weights(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        body = file.read()
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], body[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def are_close(found, expected, tolerance):
    return abs(float(found) - expected) <= tolerance * max(abs(expected), 1e-3)


class Differential(interruption_test.Interruption):
    def follow(self, seed):
        plan = differential_plan.make_plan(seed)
        print(plan.title(), flush=True)
        self.write_files(plan)
        try:
            getattr(self, "try_" + plan.kind.replace(" ", "_"))(plan)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise AssertionError(
                f"{error}\n{plan}\nonce more: differential_test.py --seed {seed}") from None
        done[f"{plan.kind} {plan.how}".rstrip()] += 1

    # Configs

    def write_files(self, plan):
        data, model = plan.sections["data"], plan.sections["model"]
        if data["format"] == "random":
            data["num_samples"] = plan.samples
        if data["format"] == "plugin":
            data["options"]["size"] = plan.samples
        if model["type"] == "plugin":
            model["path"] = os.environ["DDPRUN_FAULTY_PLUGIN"]
        for name, samples in (("train", plan.samples), ("validation", plan.held_out)):
            if samples:
                data.update(self.write_samples(data, name, samples, plan.seed))
        if data["format"] == "text_classification":
            os.mkdir(self.path("tokenizer"))
            special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
            self.script("tokenizer/vocab.txt", "\n".join([*special, *WORDS]) + "\n")

    def write_samples(self, data, name, samples, seed):
        """Writes samples, and returns the section "data" for them."""
        found = {}
        for ending, content in files_of(data, samples, seed).items():
            path = self.path(name + ending)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            if "labels" not in ending:
                found[name + "_files"] = [name + ending.partition("/")[0]]
        return found

    def config_of(self, plan, way, name, **sections):
        return differential_plan.merge(
            plan.sections, way.sections, {"run": {"name": name, "output_dir": "runs/{name}"}},
            sections)

    def launch(self, config, way):
        """A job for each node."""
        path = self.write_config(config, config["run"]["name"] + ".json")
        if way.nodes == 1:
            return [self.begin({"ranks": way.ranks}, [path])]
        meet = [f"--nnodes={way.nodes}", "--master_addr=127.0.0.1",
                f"--master_port={harness.unused_port()}"]
        return [self.begin({"ranks": way.ranks // way.nodes}, [*meet, f"--node_rank={node}", path])
                for node in range(way.nodes)]

    def finish_all(self, jobs):
        """The first node's."""
        for job in jobs:
            self.finish(job)
        self.assertEqual(len({job.returncode for job in jobs}), 1, [job.err for job in jobs])
        return jobs[0]

    def run_way(self, plan, way, name, **sections):
        """Runs the job, and expects what the check command says of it."""
        config = self.config_of(plan, way, name, **sections)
        if way is not plan.ways[0]:
            self.assertEqual(self.check(config, way), (0, set()))
        job = self.finish_all(self.launch(config, way))
        self.assertEqual(job.returncode, 0, f"{way}: {job.err}")

    def check(self, config, way):
        """Exit code and titles of the problems."""
        job = subprocess.run(
            [TRAINER, "check", self.write_config(config, config["run"]["name"] + ".json"),
             f"--nproc_per_node={way.ranks // way.nodes}", f"--nnodes={way.nodes}"],
            cwd=self.folder, env=self.env(), capture_output=True, text=True,
            timeout=harness.DEADLINE_S)
        return job.returncode, set(TITLE.findall(job.stderr))

    # Kinds of plans

    def try_ways(self, plan):
        hashes = {"report": {"state_hashes": True}} if plan.same_bits else {}
        for i, way in enumerate(plan.ways):
            self.run_way(plan, way, f"way{i}", **hashes)
        for i in range(1, len(plan.ways)):
            self.assert_same_run(plan, "way0", f"way{i}")
            if hashes:
                job = subprocess.run([TRAINER, "diff", "runs/way0", f"runs/way{i}"],
                                     cwd=self.folder, env=self.env(), capture_output=True,
                                     text=True, timeout=harness.DEADLINE_S)
                # Ranks may have buffers of their own, which is told, too.
                self.assertRegex(job.stdout, "state hashes: the same in [0-9]+ steps")

    def try_resume(self, plan):
        reference, first, second = plan.ways
        step = plan.hits[0]["step"]
        self.run_way(plan, reference, "whole")
        if plan.how == "stop":
            (job,) = self.launch(self.config_of(plan, first, "parts"), first)
            harness.wait_until(lambda: job.poll() is not None or self.steps_of("parts") >= step,
                               f"step {step}")
            job.terminate()
            self.finish(job)
            self.assertIn(job.returncode, (0, 75), job.err)
        else:
            less = {"run": {"max_steps": step}} if plan.how == "fewer steps" else {}
            self.run_way(plan, first, "parts", **less)
            if not less:
                self.assert_same_run(plan, "whole", "parts")
        print(f"  goes on after {self.steps_of('parts')} steps", flush=True)
        place = self.path("runs/parts")
        if plan.how == "checkpoint":
            place = self.checkpoints(place)[draw_index(plan, self.checkpoints(place))]
        name = "on" if plan.how == "checkpoint" else "parts"
        self.run_way(plan, second, name, run={
            "resume": place, "max_steps": plan.sections["run"]["max_steps"]})
        self.assert_same_run(plan, "whole", name)

    def try_nodes(self, plan):
        one, two = plan.ways
        self.run_way(plan, one, "one")
        saved = self.checkpoints("runs/one")
        on = {"run": {"resume": saved[draw_index(plan, saved)]}} if plan.how == "goes on" else {}
        self.run_way(plan, two, "two", **on)
        self.assert_same_run(plan, "one", "two")
        self.assert_nothing_left()

    def try_refused(self, plan):
        (way,), (hit,) = plan.ways, plan.hits
        only = {"checkpoint": {"save_only_model": True}} if plan.how == "model only" else {}
        self.run_way(plan, way, "run", **only)
        saved = self.checkpoints("runs/run")
        place = {"auto": "auto", "run": "runs/run", "checkpoint": saved[hit["step"] % len(saved)]}
        start = place["checkpoint" if plan.how == "damaged" else hit["from"]]
        change = differential_plan.refusals(plan)[plan.how]
        if change.get("data", {}).get("train_files"):
            found = self.write_samples(plan.sections["data"], "other", plan.samples + 12, plan.seed)
            change = {"data": {"train_files": found["other_files"]}}
        if plan.how == "damaged":
            turn_a_byte(start, hit["byte"])
        # A run that has ended would have nothing to do.
        more = {"run": {"resume": start, "max_steps": plan.sections["run"]["max_steps"] + 2}}
        config = self.config_of(plan, way, "run", **differential_plan.merge(more, change))
        config = {section: {key: value for key, value in keys.items() if value is not None}
                  for section, keys in config.items()}
        fresh = differential_plan.merge(config, {"run": {"resume": "never"}})
        self.assertEqual(self.check(fresh, way), (0, set()))
        before = self.tree()
        code, titles = self.check(config, way)
        job = self.finish_all(self.launch(config, way))
        print(f"  from {hit['from']}: {TITLE.findall(job.err)}", flush=True)
        self.assertNotEqual(job.returncode, 0, f"{config} is not refused")
        # Some it cannot know without a step, or without reading all of the checkpoint.
        if plan.how in ("model only", "step") or titles:
            self.assertEqual(code, job.returncode)
            self.assertTrue(titles & set(TITLE.findall(job.err)), titles)
        self.assertRegex(job.err, "(?m)^-- (?!WORKER FAILED)[A-Z]")
        self.assertEqual(self.tree(), before)
        self.assert_nothing_left()
        if plan.how == "model only":
            return
        if plan.how == "damaged":
            turn_a_byte(start, hit["byte"])
        self.run_way(plan, way, "run", **more)

    def tree(self):
        """{path: bytes} of all that runs have written."""
        found = {}
        for folder, folders, files in os.walk(self.path("runs")):
            found.update({os.path.join(folder, name): None for name in folders})
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.join(folder, name)] = file.read()
        return found

    def try_kills(self, plan):
        (way,) = plan.ways
        config = differential_plan.merge(plan.sections, way.sections)
        self.interrupt_and_compare({"ranks": way.ranks, "config": config, "hits": plan.hits})

    def try_any_keys(self, plan):
        (way,) = plan.ways
        config = self.config_of(plan, way, "any")
        before = sorted(os.listdir(self.folder))
        code, titles = self.check(config, way)
        job = self.finish_all(self.launch(config, way))
        print(f"  {titles or 'fits'}", flush=True)
        self.assertEqual(job.returncode, code, job.err)
        if code == 0:
            self.assertEqual(titles, set(), job.err)
            return
        self.assertEqual(code, 2, titles)
        found = set(TITLE.findall(job.err)) - {"WORKER FAILED"}  # the launcher's word for it
        self.assertTrue(found and found <= titles, f"{found} instead of {titles}")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted({*before, "any.json", "out"}))
        self.assert_nothing_left()

    # Comparisons

    def steps_of(self, name):
        path = self.path(f"runs/{name}/metrics.jsonl")
        if not os.path.exists(path):
            return 0
        with open(path) as file:
            return max([int(n) for n in re.findall(r'"step":(\d+)', file.read())], default=0)

    def assert_same_run(self, plan, expected, found):
        lines = [self.lasting_metrics(f"runs/{name}") for name in (expected, found)]
        if plan.how == "fewer steps":
            # The first part has ended with an evaluation.
            told = {(line["split"], line["step"]) for line in lines[0]}
            lines[1] = [line for line in lines[1] if (line["split"], line["step"]) in told]
        for theirs, mine in zip(*lines):
            for key in theirs:
                self.assertTrue(self.is_same(plan, key, mine.get(key), theirs[key], theirs),
                                f"{found} differs first in step {theirs['step']}, in {key}:\n"
                                f"{mine}\n{theirs}")
        self.assertEqual(*[[(line["split"], line["step"]) for line in part] for part in lines])
        self.assertGreater(len(lines[0]), 0)
        weights = [read_weights(self.path(f"runs/{name}/model/model.safetensors"))
                   for name in (expected, found)]
        self.assertEqual(*[{name: tensor[:2] for name, tensor in part.items()} for part in weights])
        for name, (_, _, theirs) in weights[0].items():
            mine = weights[1][name][2]
            if mine == theirs:
                continue
            self.assertFalse(plan.same_bits, f"{found}: {name} has other bits")
            self.assert_close_tensors(plan, f"{found}: {name}", mine, theirs)

    def is_same(self, plan, key, mine, theirs, line):
        if mine == theirs or mine is None:
            return mine == theirs
        if plan.same_bits or key in EXACT or isinstance(theirs, str):
            return False
        if key == "accuracy":  # rounding may turn one
            return abs(mine - theirs) * line["samples"] < 1.5
        return are_close(mine, theirs, plan.tolerances.get(key, plan.tolerances["loss"]))

    def assert_close_tensors(self, plan, name, mine, theirs):
        mine, theirs = array.array("f", mine), array.array("f", theirs)
        step = 1 + len(theirs) // MOST_COMPARED
        scale = max(map(abs, theirs[::step])) + 1e-2
        far = max(abs(a - b) for a, b in zip(mine[::step], theirs[::step]))
        self.assertLessEqual(far, plan.tolerances["weights"] * scale, name)


def draw_index(plan, checkpoints):
    """Which of them a run goes on from: not the last one."""
    return plan.hits[0]["step"] % max(1, len(checkpoints) - 1)


def turn_a_byte(checkpoint, where):
    """Changes a byte of its weights; a second call restores it."""
    path = os.path.join(checkpoint, min(name for name in os.listdir(checkpoint)
                                        if name.endswith(".safetensors")))
    with open(path, "r+b") as file:
        begin = 8 + int.from_bytes(file.read(8), "little")
        file.seek(begin + int(where * (os.path.getsize(path) - begin)))
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def add_test(seed):
    setattr(Differential, f"test_seed_{seed}", lambda self: self.follow(seed))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default="0:10")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    for seed in range(first, end) if options.seed is None else [options.seed]:
        add_test(seed)
    program = unittest.main(module=__name__, argv=[sys.argv[0]], exit=False)
    for name, count in sorted((done + interruption_test.done).items()):
        print(f"  {count:4} x {name}")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
