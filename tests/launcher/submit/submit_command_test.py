"""`ddprun submit`, `save` and `stop` as a user runs them, with a program in place of sbatch."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
ROOT = pathlib.Path(__file__).parents[3]
TEMPLATES = sorted((ROOT / "configs" / "slurm").glob("*.sbatch"))
WRITTEN_BY = "# Written by: ddprun submit "


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.script = self.folder / "runs" / "slurm" / "true.sbatch"

    def run_ddprun(self, *args, cwd=None, **options):
        path = f"{os.path.dirname(DDPRUN)}:{self.bin}:/usr/bin:/bin"
        return subprocess.run([DDPRUN, *args], capture_output=True, text=True, timeout=60,
                              cwd=cwd or self.folder, **options,
                              env={"PATH": path, "DDPRUN_TRAINER": "/bin/true"})

    def program(self, name, text):
        (self.bin / name).write_text("#!/bin/sh\n" + text)
        (self.bin / name).chmod(0o755)


class Submit(Command):
    def test_prints_the_file_and_the_job(self):
        self.program("sbatch", 'echo "sbatch: a warning" >&2; echo "17;cluster"')
        job = self.run_ddprun("submit", "--nodes=2", "true")
        self.assertEqual(0, job.returncode, job.stderr)
        self.assertIn(self.script.read_text(), job.stdout)
        self.assertIn("submitted job 17: runs/slurm/true.sbatch\n", job.stdout)
        self.assertEqual("sbatch: a warning\n", job.stderr)

    def test_dry_run_writes_nothing(self):
        job = self.run_ddprun("submit", "--dry_run", "true")
        self.assertEqual(0, job.returncode, job.stderr)
        self.assertEqual([self.bin], list(self.folder.iterdir()))

    def test_takes_spares(self):
        job = self.run_ddprun("submit", "--dry_run", "--nnodes=2", "--spares=1", "true")
        self.assertEqual(0, job.returncode, job.stderr)
        for words in ("#SBATCH --nodes=3\n", "#SBATCH --no-kill\n", "\nsrun --kill-on-bad-exit=0 ",
                      " --spares=1 true\n"):
            self.assertIn(words, job.stdout)

    def test_refused_by_sbatch_leaves_nothing(self):
        self.program("sbatch", 'echo "sbatch: error: invalid partition specified: x" >&2; exit 1')
        job = self.run_ddprun("submit", "-p", "x", "true")
        self.assertEqual(2, job.returncode)
        self.assertIn("\ninvalid partition specified: x\nThe command sinfo -s", job.stderr)
        self.assertEqual([self.bin], list(self.folder.iterdir()))

    def test_without_sbatch_says_where_jobs_are_submitted(self):
        (self.bin / "true").symlink_to("/bin/true")
        job = subprocess.run([DDPRUN, "submit", "true"], capture_output=True, text=True,
                             cwd=self.folder, env={"PATH": str(self.bin)})
        self.assertEqual(127, job.returncode, job.stderr)
        self.assertIn("NO SLURM HERE", job.stderr)
        self.assertFalse((self.folder / "runs").exists())

    def test_never_overwrites_a_file_that_differs(self):
        self.program("sbatch", 'echo "$2" >> files; echo 1')
        for word in ("--nodes=2", "--nodes=3", "--nodes=2"):
            self.assertEqual(0, self.run_ddprun("submit", word, "true").returncode)
        files = (self.folder / "files").read_text().split()
        name = "runs/slurm/true"
        self.assertEqual([f"{name}.sbatch", f"{name}-2.sbatch", f"{name}.sbatch"], files)
        self.assertIn("#SBATCH --nodes=2\n", self.script.read_text())

    def test_templates_are_what_submit_writes(self):
        self.assertGreater(len(TEMPLATES), 2)
        for path in TEMPLATES:
            with self.subTest(path.name):
                text = path.read_text()
                args = text.splitlines()[1].removeprefix(WRITTEN_BY).split()
                job = self.run_ddprun("submit", "--dry_run", *args, cwd=ROOT)
                self.assertEqual(text, job.stdout, job.stderr)

    def test_files_are_valid_shell(self):
        checks = [["bash", "-n"]]
        if shutil.which("shellcheck"):
            checks.append(["shellcheck", "--severity=warning"])
        args = ["--cpus-per-task=2", "sh", "-c", "echo '$HOME \"x\"'; exit\n", "$(id)", "`id`"]
        odd = self.folder / "odd.sbatch"
        odd.write_text(self.run_ddprun("submit", "--dry_run", *args).stdout)
        for path in [odd, *TEMPLATES]:
            for check in checks:
                done = subprocess.run([*check, path], capture_output=True, text=True)
                self.assertEqual("", done.stdout + done.stderr, path)
        self.program("srun", 'shift 3; exec "$@"')
        self.program("ddprun", 'printf "<%s>" "$@"')
        path = {"PATH": f"{self.bin}:/usr/bin:/bin", "SLURM_CPUS_PER_TASK": "2"}
        text = odd.read_text().replace(DDPRUN, "ddprun")
        ran = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=path)
        self.assertEqual("".join(f"<{word}>" for word in args[1:]),
                         ran.stdout.removeprefix("<--requeue=3>"), ran.stderr)


class Requests(Command):
    def setUp(self):
        super().setUp()
        self.run_folder = self.folder / "runs" / "mlp"
        self.run_folder.mkdir(parents=True)
        self.lock = open(self.run_folder / "run.lock", "w")
        self.addCleanup(self.lock.close)
        self.lock.write("run 0123\nslurm main 18 abcd\n")
        self.lock.flush()

    def requests(self):
        return sorted(path.name for path in self.run_folder.iterdir() if path.name != "run.lock")

    def test_of_a_run_that_has_ended_are_refused(self):
        job = self.run_ddprun("stop", "runs/mlp")
        self.assertEqual(2, job.returncode)
        self.assertIn("Nothing trains in runs/mlp now.", job.stderr)
        self.assertEqual([], self.requests())

    def test_are_files_in_the_folder(self):
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        for name, again in (("save", ""), ("stop", ""), ("stop", ", as asked before")):
            job = self.run_ddprun(name, "runs/mlp")
            self.assertEqual(0, job.returncode, job.stderr)
            self.assertIn(again + "\n", job.stdout)
        self.assertEqual(["save", "stop"], self.requests())

    def test_need_the_right_to_write_there(self):
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        options = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        self.folder.chmod(0o755)
        self.run_folder.chmod(0o555)
        job = self.run_ddprun("stop", "runs/mlp", **options)
        self.run_folder.chmod(0o755)
        self.assertEqual(1, job.returncode, job.stderr)
        self.assertIn("MAY NOT ASK THIS RUN", job.stderr)
        self.assertEqual([], self.requests())

    def test_find_the_run_of_a_slurm_job(self):
        self.program("squeue", f'[ "$3" = 17_1 ] && echo 17_1 18 {self.folder}')
        job = self.run_ddprun("save", "17_1")
        self.assertEqual(0, job.returncode, job.stderr)
        self.assertEqual(["save"], self.requests())

    def test_find_the_run_of_a_heterogeneous_job(self):
        self.program("squeue", f"""
            case $3 in
                18) echo 18+0 18 {self.folder}; echo 18+1 19 {self.folder} ;;
                19 | 18+1) echo 18+1 19 {self.folder} ;;
            esac""")
        for name in ("18", "18+1", "19"):
            job = self.run_ddprun("save", name)
            self.assertEqual(0, job.returncode, job.stderr)
        self.assertEqual(["save"], self.requests())

    def test_of_elements_of_an_array_need_one_name(self):
        self.program("squeue", f"echo 18_0 20 {self.folder}; echo 18_1 18 {self.folder}")
        job = self.run_ddprun("save", "18")
        self.assertEqual(2, job.returncode)
        self.assertIn("Name one element of the array, such as 18_0.", job.stderr)
        self.assertEqual([], self.requests())

    def test_of_other_jobs_name_what_to_do(self):
        self.program("squeue", f'[ "$3" = 19 ] && echo 19 19 {self.folder}')
        job = self.run_ddprun("save", "19")
        self.assertEqual(2, job.returncode)
        self.assertIn("scancel -s USR1 19", job.stderr)
        job = self.run_ddprun("save", "20")
        self.assertIn("SLURM has no running job 20.", job.stderr)
        self.assertEqual([], self.requests())


if __name__ == "__main__":
    unittest.main()
