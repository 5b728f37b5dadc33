"""A command that refuses changes nothing: every subcommand with the refusals that apply to it, and
the folder around it before and after, byte by byte. The subcommands are those of the programs' own
help."""

import fcntl
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

import harness
import training

TRAINER = os.environ["DDPRUN_TRAINER_PROGRAM"]
NOBODY = 65534
LIMIT = 512  # bytes of a file on a "full disk"

TOY = training.toy_config(checkpoint={"save_steps": 5, "save_total_limit": 0})
TOY["run"].update(name="toy", max_steps=10)
TABLE = {"run": {"name": "table", "max_steps": 5}, "checkpoint": {"save_steps": 5},
         "model": {"type": "mlp", "layer_sizes": [1, 2]},
         "data": {"format": "csv", "train_files": "rows.csv", "label_column": "kind"}}


def contents(folder):
    """Returns kind and mode of everything below, and of files bytes and time of change."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(parent, name)
            info = os.lstat(path)
            facts = [stat.filemode(info.st_mode)]
            if stat.S_ISLNK(info.st_mode):
                facts.append(os.readlink(path))
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    facts.append(hashlib.sha256(file.read()).hexdigest())
                facts.append(info.st_mtime_ns)
            found[os.path.relpath(path, folder)] = facts
    return found


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def fill_disk():
    """Writing past the limit fails as on a full disk, where its signal is ignored."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def subcommands(program, *path):
    """All of them by name, "checkpoint export" among them, as --help lists them."""
    said = subprocess.run([program, *path, "--help"], capture_output=True, text=True,
                          check=True).stdout
    names = re.findall(rf"^ {{7}}{os.path.basename(program)} ([a-z]+)\b", said, re.M)
    names += re.findall(r"^  ([a-z-]+)  ", said.partition("\nSubcommands:\n")[2], re.M)
    found = []
    for name in names:
        below = subcommands(program, *path, name) if program == TRAINER else []
        found += [f"{name} {one}" for one in below] or [name]
    return found


# Arguments that make these commands complete, but for a flag that does not exist.
WHOLE = {
    "": ["toy.json"],
    "check": ["toy.json"],
    "plan": ["toy.json"],
    "checkpoint list": ["runs/toy"],
    "checkpoint verify": ["runs/toy"],
    "checkpoint export": ["runs/toy", "--to=new"],
    "diff": ["runs/toy", "runs/toy"],
    "tokenize": ["mine/a.txt", "--tokenizer=words", "--no-separator", "--out=new.bin"],
    "generate": ["runs/toy/model"],
    "report": ["runs/toy", "--out=new.html"],
    "picture": ["runs/table", "--out=new.html"],
    "evaluate": ["runs/table", "--data=rows.csv"],
    "predict": ["runs/table", "--data=rows.csv", "--out=new.out"],
}
# For each subcommand: arguments, and a part of the answer. "" is the program without subcommand.
TRAINER_ROWS = {
    "": [
        ([], "name a config file"),
        (["gone.json"], "gone.json"),
        (["broken.json"], "broken.json:1"),
        (["toy.json", "--set", "model.layers=3"], "model.layers"),
        (["toy.json", "--set", "model.layer_sizes=[10, 10, 6]"], "layer_sizes"),
        (["toy.json", "--set", "model.name_or_path=mine"], "mine"),
        (["toy.json", "--set", "run.resume=mine"], "mine"),
        (["toy.json", "--set", "run.resume=gone"], "NO CHECKPOINT"),
        (["--template", "toy.json"], "NOT STARTED BY DDPRUN"),
    ],
    "schema": [(["more"], "more")],
    "config-doc": [(["more"], "more")],
    "check": [
        (["gone.json"], "gone.json"),
        (["broken.json"], "broken.json:1"),
        (["toy.json", "--set", "model.layer_sizes=[10, 10, 6]"], "layer_sizes"),
        (["toy.json", "--runs=gone.json"], "gone.json"),
    ],
    "plan": [(["gone.json"], "gone.json"), (["broken.json"], "broken.json:1")],
    "checkpoint list": [(["gone"], "NO CHECKPOINTS"), (["mine"], "NO CHECKPOINTS")],
    "checkpoint verify": [(["mine"], "NO CHECKPOINTS"), (["damaged"], "damaged ")],
    "checkpoint export": [
        (["gone", "--to=new"], "NO CHECKPOINTS"),
        (["damaged", "--to=new"], "damaged"),
        (["runs/toy", "--to=mine"], "NOT REPLACED"),
        (["runs/toy", "--to=."], "NOT REPLACED"),
        (["runs/toy", "--to=runs"], "NOT REPLACED"),
        (["runs/toy", "--to=runs/toy"], "NOT REPLACED"),
        (["runs/toy", "--to=runs/toy/checkpoints/step-5/"], "NOT REPLACED"),
        (["runs/toy", "--to=runs/toy/checkpoints/step-5/COMMIT"], "NOT REPLACED"),
        (["runs/toy", "--to=copy"], "NOT REPLACED"),
        (["runs/toy", "--to=changed"], "NOT REPLACED"),
        (["runs/toy", "--to=extended"], "NOT REPLACED"),
        (["runs/toy", "--to=toy.json"], "Not a directory"),
        (["runs/toy", "--to=toy.json/new"], "Not a directory"),
        (["runs/toy", "--to=mine/gone/new.pt"], "No such file"),
    ],
    "diff": [(["gone", "runs/toy"], "NO RUN FOLDER"), (["runs/toy", "mine"], "NO RUN FOLDER")],
    "tokenize": [
        (["gone.txt", "--tokenizer=words", "--no-separator", "--out=new.bin"], "gone.txt"),
        (["mine/a.txt", "--tokenizer=mine", "--out=new.bin"], "mine"),
        (["mine/a.txt", "--tokenizer=words", "--out=new.bin"], "NO SEPARATOR"),
        (["mine/a.txt", "--tokenizer=words", "--no-separator", "--out=mine/a.txt"],
         "NOT REPLACED"),
        (["mine/a.txt", "--tokenizer=words", "--no-separator", "--out=mine"], "Is a directory"),
        (["mine/a.txt", "--tokenizer=words", "--no-separator", "--out=gone/new.bin"],
         "No such file"),
        (["mine/a.txt", "--tokenizer=words", "--no-separator", "--input=jsonl", "--out=old.bin"],
         "BAD ROW"),
    ],
    "generate": [
        (["gone"], "gone"),
        (["runs/toy/model"], "NOT A LANGUAGE MODEL"),
        ([os.path.join(training.GOLDEN, "gpt_init"), "--tokenizer=mine"], "mine"),
    ],
    "evaluate": [
        (["gone", "--data=rows.csv"], "NO CHECKPOINTS"),
        (["damaged", "--data=rows.csv"], "damaged"),
        (["runs/toy", "--data=rows.csv"], "random numbers"),
        (["runs/toy", "--data=rows.csv", "--by_class"], "NO CLASSES"),
        (["runs/table", "--data=gone.csv"], "gone.csv"),
        (["runs/table", "--data=mine/deep/b.txt"], "has no column"),
        (["runs/table", "--data=rows.csv", "--config=table.json"], "CONFIG BESIDE A RUN"),
        (["runs/table/model", "--data=gone.csv"], "gone.csv"),
        (["runs/toy/model", "--data=rows.csv"], "random numbers"),
        (["out", "--data=rows.csv"], "THE FOLDER DOES NOT SAY ENOUGH"),
        (["out", "--data=rows.csv", "--config=table.json"], "no data.json"),
        (["wrong", "--data=rows.csv", "--config=table.json"], "not as ddprun wrote it"),
    ],
    "report": [
        (["gone"], "NO RUN FOLDER"),
        (["mine"], "NO RUN FOLDER"),
        (["runs/toy", "mine", "--out=new.html"], "NO RUN FOLDER"),
        (["runs/toy", "--out=mine/a.txt"], "NOT REPLACED"),
        (["runs/toy", "--out=gone/new.html"], "No such file"),
    ],
    "picture": [
        (["gone"], "NO RUN FOLDER"),
        (["runs/toy", "--out=new.html"], "NO MEASURED STEP"),
        (["runs/table", "--out=mine/a.txt"], "NOT REPLACED"),
        (["runs/table", "--out=gone/new.html"], "No such file"),
    ],
    "predict": [
        (["gone", "--data=rows.csv", "--out=new.out"], "NO CHECKPOINTS"),
        (["runs/table", "--data=rows.csv", "--out=mine/a.txt"], "OUTPUT FILE EXISTS"),
        (["runs/table", "--data=mine/deep/b.txt", "--out=mine/a.txt", "--overwrite"],
         "has no column"),
        (["runs/table", "--data=rows.csv", "--out=mine", "--overwrite"], "directory"),
        (["runs/table", "--data=rows.csv", "--out=gone/new.out"], "No such file"),
        (["runs/table", "--data=rows.csv", "--format=xml", "--out=new.out"], "xml"),
    ],
}
DDPRUN_ROWS = {
    "": [
        ([], "TARGET"),
        (["gone.json"], "gone.json"),
        (["broken.json"], "broken.json:1"),
        (["-n", "2", "--set", "model.layers=3", "toy.json"], "model.layers"),
        (["--set", "model.layer_sizes=[10, 10, 6]", "toy.json"], "layer_sizes"),
        (["--report_file=gone/report.json", "toy.json"], "REPORT FILE"),
        (["--dry_run", "broken.json"], "broken.json:1"),
        (["--resume=gone"], "gone"),
        (["--resume=mine"], "mine"),
        (["--resume=mine", "toy.json"], "mine"),
        (["--resume=damaged", "toy.json"], "damaged"),
        (["--sweep", "run.name=a,b", "toy.json"], "BAD SWEEP"),
        (["--sweep", "optimizer.learning_rate=1,x", "toy.json"], "learning_rate"),
        (["--sweep", "optimizer.learning_rate=1,2", "--nnodes=2", "toy.json"], "BAD SWEEP"),
    ],
    "doctor": [(["more"], "more")],
    "store": [(["more"], "more")],
    "submit": [([], "NO TARGET"), (["gone.json"], "gone.json")],
    "save": [([], "JOB"), (["gone"], "gone")],
    "stop": [([], "JOB"), (["gone"], "gone")],
    "top": [(["gone"], "gone")],
    "stacks": [([], "JOB"), (["gone"], "gone")],
    "token": [(["more"], "more")],
    "explain": [(["gone-page"], "gone-page")],
}
# The same with nobody's rights, and on a full disk.
WRITING_ROWS = [
    (TRAINER, ["checkpoint", "export", "runs/toy", "--to=new"]),
    (TRAINER, ["checkpoint", "export", "runs/toy", "--to=out"]),
    (TRAINER, ["checkpoint", "export", "runs/toy", "--to=new.pt"]),
    (TRAINER, ["checkpoint", "export", "runs/toy", "--to=old.safetensors"]),
    (TRAINER, ["tokenize", "mine/a.txt", "--tokenizer=words", "--no-separator", "--out=old.bin"]),
]
TRAINING_ROWS = [
    (harness.DDPRUN, ["toy.json"]),
    (harness.DDPRUN, ["--resume=runs/toy"]),
    (harness.DDPRUN, ["--sweep", "optimizer.learning_rate=1,2", "toy.json"]),
    (harness.DDPRUN, ["--log_dir=mine/logs", "toy.json"]),
    (TRAINER, ["toy.json"]),
]
# Runs that were made so, and refusals to go on with them.
RESUME_ROWS = [
    (["--resume=runs/toy", "--set", "model.layer_sizes=[10, 20, 5]"], ""),
    (["--resume=runs/toy", "--set", "checkpoint.dir=elsewhere"], "NO CHECKPOINT"),
    (["-n", "2", "--resume=runs/epochs"], "CANNOT GO ON FROM THIS CHECKPOINT"),
    (["--resume=runs/unsaved"], "NO CHECKPOINT"),
]


class RefusalTest(training.TrainingTest):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(kept.cleanup)
        os.chmod(kept.name, 0o755)
        cls.made = os.path.join(kept.name, "made")
        cls.cache = os.path.join(kept.name, "cache")
        os.makedirs(os.path.join(cls.made, "mine"))
        os.mkdir(cls.cache, 0o777)
        os.chmod(cls.cache, 0o777)
        cls.make_folder()

    @classmethod
    def inside(cls, name):
        return os.path.join(cls.made, name)

    @classmethod
    def write(cls, name, text):
        path = cls.inside(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    @classmethod
    def run_made(cls, program, *arguments):
        subprocess.run([program, *arguments], cwd=cls.made, env=cls.environment(), check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def environment(cls):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PET_", "DDPRUN_"))}
        temporary = cls.inside("tmp")
        os.makedirs(temporary, exist_ok=True)
        os.chmod(temporary, 0o1777)
        return env | {"TMPDIR": temporary, "XDG_CACHE_HOME": cls.cache}

    @classmethod
    def make_folder(cls):
        cls.write("mine/a.txt", "not to be lost, not to be changed " * 100)
        cls.write("mine/deep/b.txt", "this neither")
        cls.write("broken.json", "{")
        cls.write("toy.json", TOY)
        cls.write("words/vocab.txt", "[PAD]\n[UNK]\nnot\nto\nbe\nlost\n")
        cls.write("sweeps/toy/sweep.csv", "mine")
        cls.write("table.json", TABLE)
        cls.write("rows.csv", "a,kind\n" + "1,lo\n2,hi\n" * 8)
        cls.run_made(harness.DDPRUN, "toy.json")
        cls.run_made(harness.DDPRUN, "table.json", "--set", "report.trace_steps=[2,3]")
        for name in ("out", "changed", "extended", "old.safetensors"):
            cls.run_made(TRAINER, "checkpoint", "export", "runs/toy", f"--to={name}")
        cls.write("changed/config.json", "{}")
        cls.write("extended/notes.txt", "mine")
        shutil.copytree(cls.inside("out"), cls.inside("copy"), copy_function=shutil.copyfile)
        shutil.copytree(cls.inside("runs/table/model"), cls.inside("wrong"))
        cls.write("wrong/data.json", "{}")
        cls.run_made(TRAINER, "tokenize", "mine/a.txt", "--tokenizer=words", "--no-separator",
                     "--out=old.bin")
        shutil.copytree(cls.inside("runs/toy/checkpoints/step-5"), cls.inside("damaged"))
        with open(cls.inside("damaged/index.json"), "a") as file:
            file.write("x")

    def setUp(self):
        super().setUp()
        self.before = contents(self.made)

    def refuse(self, program, arguments, text, **options):
        done = subprocess.run([program, *arguments], cwd=self.made, text=True,
                              capture_output=True, env=self.environment(), timeout=120, **options)
        said = done.stdout + done.stderr
        command = f"{os.path.basename(program)} {' '.join(arguments)}"
        with self.subTest(command):
            self.assertNotEqual(0, done.returncode, command + "\n" + said)
            self.assertGreater(done.returncode, 0, command + "\n" + said)
            self.assertIn(text, said, command)
            after = contents(self.made)
            changed = [f"{name}: {self.before.get(name)} -> {after.get(name)}"
                       for name in sorted(self.before.keys() | after.keys())
                       if self.before.get(name) != after.get(name)]
            self.before = after
            self.assertEqual([], changed, command + "\n" + said)


class Refusals(RefusalTest):
    def test_every_subcommand_has_rows(self):
        for program, rows in ((TRAINER, TRAINER_ROWS), (harness.DDPRUN, DDPRUN_ROWS)):
            self.assertEqual(sorted(["", *subcommands(program)]), sorted(rows), program)

    def test_of_unknown_flags(self):
        for program, rows in ((TRAINER, TRAINER_ROWS), (harness.DDPRUN, DDPRUN_ROWS)):
            for command in rows:
                words = ["--no-such-flag", *WHOLE.get(command, [])]
                self.refuse(program, [*command.split(), *words], "no-such-flag")

    def test_of_the_trainer(self):
        for command, rows in TRAINER_ROWS.items():
            for arguments, text in rows:
                self.refuse(TRAINER, [*command.split(), *arguments], text)

    def test_of_the_launcher(self):
        for command, rows in DDPRUN_ROWS.items():
            for arguments, text in rows:
                self.refuse(harness.DDPRUN, [*command.split(), *arguments], text)

    @unittest.skipUnless(os.geteuid() == 0, "only root can have nobody's rights")
    def test_without_rights(self):
        reachable = subprocess.run([TRAINER, "--version"], preexec_fn=become_nobody,
                                   capture_output=True).returncode == 0
        if not reachable:
            self.skipTest("nobody cannot reach the programs")
        for program, arguments in WRITING_ROWS + TRAINING_ROWS:
            self.refuse(program, arguments, "Permission denied", preexec_fn=become_nobody)

    def test_on_a_full_disk(self):
        for program, arguments in WRITING_ROWS:
            self.refuse(program, arguments, "File too large", preexec_fn=fill_disk,
                        restore_signals=False)

    def test_of_a_run_that_trains(self):
        with open(self.inside("runs/toy/run.lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refuse(harness.DDPRUN, ["--resume=runs/toy"], "RUN IN USE")


class ResumeRefusals(RefusalTest):
    """The refusals of --resume after it has read the checkpoint."""

    @classmethod
    def make_folder(cls):
        super().make_folder()
        for name, changes in (
            ("epochs", {"run": {"max_epochs": 2}}),
            ("unsaved", {"checkpoint": {"save_steps": 0}}),
        ):
            config = json.loads(json.dumps(TOY))
            if name == "epochs":
                del config["run"]["max_steps"]
            for section, keys in changes.items():
                config[section] = {**config.get(section, {}), **keys}
            config["run"]["name"] = name
            cls.write(f"{name}.json", config)
            cls.run_made(harness.DDPRUN, f"{name}.json")

    def test_of_resuming(self):
        for arguments, text in RESUME_ROWS:
            self.refuse(harness.DDPRUN, arguments, text)


if __name__ == "__main__":
    harness.main()
