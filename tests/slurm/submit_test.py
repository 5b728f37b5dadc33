"""`ddprun submit`, `save` and `stop` in a real SLURM cluster of two nodes."""

import json
import os
import re
import subprocess

import slurm_test_case as case

CONFIG = {
    "run": {"max_epochs": 10**7},
    "model": {"type": "mlp", "layer_sizes": [6, 8, 3]},
    "data": {"format": "random", "num_samples": 20, "input_size": 6, "target_size": 3},
    "training": {"per_device_train_batch_size": 4},
    "report": {"logging_steps": 10**6},
    "checkpoint": {"save_steps": 0},
}


class Submit(case.SlurmTest):
    def on_login_node(self, *command):
        path = f"{os.path.dirname(case.DDPRUN)}:{os.environ['PATH']}"
        return subprocess.run([case.CLUSTER, "exec", *command], env={**self.env, "PATH": path},
                              cwd=self.folder, text=True, capture_output=True, check=False,
                              timeout=case.DEADLINE_S)

    def submit(self, *args):
        job = self.on_login_node("ddprun", "submit", *args)
        self.assertEqual(0, job.returncode, job.stderr)
        return re.search(r"^submitted job (\d+): ", job.stdout, re.MULTILINE)[1]

    def test_follow_shows_the_log_and_ends_with_the_code_of_the_job(self):
        script = "echo out; echo err >&2; sleep 2; echo end; exit 7"
        job = self.on_login_node("ddprun", "submit", "--follow", "sh", "-c", script)
        self.assertEqual(7, job.returncode, job.stderr)
        self.assertRegex(job.stdout, r"\nout\n(.*\n)*end\n")
        self.assertRegex(job.stderr, r": FAILED\n$")
        self.assertEqual(0, self.on_login_node("ddprun", "submit", "--follow", "true").returncode)

    def test_follow_finds_the_log_in_a_folder_whose_name_has_blanks(self):
        self.folder = os.path.join(self.folder, "my work")
        os.mkdir(self.folder)
        job = self.on_login_node("ddprun", "submit", "--follow", "echo", "the", "log")
        self.assertEqual(0, job.returncode, job.stderr)
        self.assertIn("\nthe log\n", job.stdout)

    def test_follow_of_a_job_that_is_cancelled_does_not_end_with_0(self):
        script = 'scancel "$SLURM_JOB_ID"; sleep 60'
        job = self.on_login_node("ddprun", "submit", "--follow", "sh", "-c", script)
        self.assertNotEqual(0, job.returncode)
        self.assertRegex(job.stderr, r": CANCELLED\n$")

    def test_save_and_stop_of_a_job_leave_checkpoints(self):
        self.write("mlp.json", json.dumps(CONFIG))
        job = self.submit("--time=10m", "--cpus-per-task=2", "mlp.json")
        runs = os.path.join(self.folder, "runs")
        log = os.path.join(runs, "slurm", f"mlp-{job}.out")

        def read():
            try:
                with open(log, encoding="utf-8") as file:
                    return file.read()
            except FileNotFoundError:
                return ""

        self.wait_for(lambda: "\nstep " in read(), "a step")
        for request in ("save", "stop"):
            asked = self.on_login_node("ddprun", request, job)
            self.assertEqual(0, asked.returncode, asked.stderr)
            count = {"save": 1, "stop": 2}[request]
            self.wait_for(lambda: read().count("\ncheckpoint of step ") >= count, request)
        self.assertEqual("COMPLETED", self.end_of(job)[0], read())
        self.assertEqual(("0:0", "0"), (self.field(job, "ExitCode"), self.field(job, "Restarts")))
        self.assertRegex(read(), r"\nstopped after step \d+ of \d+: \w+ asked for it ")
        asked = self.on_login_node("ddprun", "stop", job)
        self.assertEqual(2, asked.returncode, asked.stdout)

    def test_a_job_without_the_users_environment_has_the_program_and_the_token(self):
        for value in ("NONE", "HOME"):
            job = self.submit("--export", value, "-N2", "true")
            state = self.end_of(job)[0]
            path = os.path.join(self.folder, f"runs/slurm/true-{job}.out")
            with open(path, encoding="utf-8") as file:
                log = file.read()
            self.assertEqual("COMPLETED", state, log)
            self.assertIn("all nodes joined nnodes=2", log)
            self.assertNotIn("or a token", log)

    def test_values_reach_slurm_as_they_are(self):
        comment = """it's "x" #y $HOME \\z"""
        job = self.submit("--hold", "--comment", comment, "-J", "two words", "-N2", "-t", "90m",
                          "true")
        self.assertEqual("two words", self.field(job, "JobName"))
        self.assertEqual(comment, self.field(job, "Comment"))
        self.assertEqual(("2-2", "01:30:00"), (self.field(job, "NumNodes"),
                                             self.field(job, "TimeLimit")))
        self.assertEqual(os.path.join(self.folder, f"runs/slurm/two_words-{job}.out"),
                         self.field(job, "StdOut"))
        self.on_login_node("scancel", job)

    def test_refusals_of_sbatch_leave_nothing(self):
        job = self.on_login_node("ddprun", "submit", "-p", "nowhere", "true")
        self.assertEqual(2, job.returncode)
        self.assertIn("invalid partition specified: nowhere", job.stderr)
        self.assertEqual([], os.listdir(self.folder))

    def test_every_option_of_sbatch_has_its_place(self):
        text = self.on_login_node("sbatch", "--help").stdout
        options = re.findall(r"^(?: {6}|  -(\w),? {1,2})--([a-z-]+)(\[?=)?", text, re.MULTILINE)
        self.assertGreater(len(options), 80)
        refused = {"wrap", "wait", "chdir", "parsable", "quiet", "verbose", "usage", "version",
                   "help", "requeue"}
        for letter, name, equals in options:
            for word in [f"--{name}"] + [f"-{letter}"] * (letter not in ("", "m", "n")):
                # The help leaves out that these two insist on a value.
                valued = equals == "=" or name in ("export", "container")
                given = [word, "1"] if valued else [word]
                job = self.on_login_node("ddprun", "submit", "--dry_run", *given, "true")
                if name in refused:
                    self.assertNotIn("#SBATCH --" + name + "\n", job.stdout.replace(
                        "#SBATCH --requeue\n", ""))
                    continue
                self.assertRegex(job.stdout, rf"(?m)^#SBATCH --{name}\b", (word, job.stderr))

    def test_no_option_of_both_programs_has_two_meanings(self):
        sbatch = self.on_login_node("sbatch", "--help").stdout
        ddprun = self.on_login_node("ddprun", "--help").stdout.replace("_", "-")
        names = [set(re.findall(r"^ .*?--([a-z-]+)", text, re.MULTILINE))
                 for text in (sbatch, ddprun)]
        self.assertLessEqual(names[0] & names[1], {"help", "version", "requeue"})


if __name__ == "__main__":
    case.main()
