"""Failures: exit codes, error files and the named cause are torchrun's, or better on purpose."""

import glob
import json
import os
import re
import signal

import harness
import torchrun_compare

BOTH_EXIT_STYLES = [[], ["--exit_code=torchrun"]]

# Fails as rank 1 does when it was told so; writes its error file before.
FAIL = """
import json, os, signal, sys, time
path = os.environ["TORCHELASTIC_ERROR_FILE"]
if os.environ["RANK"] != "1":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    open(os.environ["FOLDER"] + "/waits." + os.environ["RANK"], "w").close()
    time.sleep(1000)
while not os.path.exists(os.environ["FOLDER"] + "/waits.0"):
    time.sleep(0.01)
if "CONTENT" in os.environ:
    with open(path, "w") as file:
        file.write(os.environ["CONTENT"])
how = int(os.environ["HOW"])
if how < 0:
    os.kill(os.getpid(), -how)
    time.sleep(1000)
os._exit(how)
"""

# Both ranks fail together; the file of rank 1 says that it was first.
FAIL_TOGETHER = """
import json, os, time
rank = os.environ["RANK"]
error = {"message": {"message": "rank " + rank, "extraInfo": {
    "py_callstack": "none", "timestamp": str(1700000009 - int(rank))}}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump(error, file)
open(os.environ["FOLDER"] + "/fails." + rank, "w").close()
while not os.path.exists(os.environ["FOLDER"] + "/fails." + str(1 - int(rank))):
    time.sleep(0.001)
os._exit(10 + int(rank))
"""

RECORD = """
import os, sys, time
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    folder = os.environ["FOLDER"]
    if os.environ["RANK"] == "0":
        open(folder + "/waits", "w").close()
        time.sleep(1000)
    while not os.path.exists(folder + "/waits"):
        time.sleep(0.01)
    raise ValueError("no such column: label")

main()
"""

DICT_FORM = {"message": {"message": "ValueError: no data", "extraInfo": {
    "py_callstack": "Traceback\n  line 3\nValueError: no data", "timestamp": "1700000000"}}}
STRING_FORM = {"message": "no data", "timestamp": 1700000000}
MALFORMED = ["", "{", "[]", '{"message": 3}', '{"other": 1}', "\x80 no JSON",
             '{"message": {"message": "m"}}', '"text"', "null"]


class FailureTest(torchrun_compare.CompareTest):
    def root_cause(self, launcher, job):
        """The fields of the failure that is named as the first: {"rank": "1 (local_rank: 1)"}."""
        marks = {"torchrun": "Root Cause (first observed failure):", "ddprun": "-- WORKER FAILED"}
        text = job.err
        self.assertIn(marks[launcher], text, launcher)
        text = text[text.index(marks[launcher]) :]
        fields = dict(re.findall(r"^  (\w+) *: (.*)$", text, re.MULTILINE)[:5])
        fields["exitcode"] = re.sub(r"pid: \d+", "pid: <pid>", fields["exitcode"])
        fields["error_file"] = self.plain(launcher, fields["error_file"])
        fields.pop("time")
        return fields

    def fail(self, how, *flags, content=None, script=FAIL, **env):
        for launcher in torchrun_compare.LAUNCHERS:
            for path in glob.glob(self.of(launcher, "waits*")):
                os.remove(path)
        if content is not None:
            env["CONTENT"] = content if isinstance(content, str) else json.dumps(content)
        worker = self.script("worker.py", script)
        return self.both("--nproc_per_node=2", *flags, worker, env={"HOW": str(how), **env})


class ExitCode(FailureTest):
    def codes(self, jobs):
        return {launcher: job.returncode for launcher, job in jobs.items()}

    def both_styles(self, *words):
        """Exit codes of torchrun, of ddprun, and of ddprun with --exit_code=torchrun."""
        theirs = self.launch("torchrun", *words).wait().returncode
        ours = self.launch("ddprun", *words).wait().returncode
        same = self.launch("ddprun", "--exit_code=torchrun", *words).wait().returncode
        return theirs, ours, same

    def test_is_the_workers_own_or_as_torchruns(self):
        for command, own in (("exit 0", 0), ("exit 1", 1), ("exit 7", 7), ("exit 255", 255),
                             ("kill -SEGV $$", 139), ("kill -KILL $$", 137)):
            with self.subTest(command):
                theirs, ours, same = self.both_styles("--no_python", "sh", "-c", command)
                self.assertEqual((theirs, ours, same), (int(own != 0), own, theirs))

    def test_is_1_or_as_a_shells_when_the_program_is_missing(self):
        theirs, ours, same = self.both_styles("--no_python", "./absent")
        self.assertEqual((theirs, ours, same), (1, 127, 1))

    def test_of_a_missing_script_is_that_of_a_missing_program(self):
        theirs, ours, same = self.both_styles("absent.py")
        self.assertEqual((theirs, ours, same), (1, 127, 1))

    def test_of_a_usage_error_is_2_in_both_styles(self):
        self.assertEqual(self.both_styles("--no_such_flag", "x.py"), (2, 2, 2))


class RootCause(FailureTest):
    def test_has_the_same_fields(self):
        for how in (7, -signal.SIGSEGV):
            with self.subTest(how=how):
                jobs = self.fail(how, "--role=reader")
                theirs = self.root_cause("torchrun", jobs["torchrun"])
                self.assertEqual(theirs["rank"], "1 (local_rank: 1)")
                self.assertEqual(self.root_cause("ddprun", jobs["ddprun"]), theirs)

    def test_has_the_same_fields_with_an_error_file(self):
        jobs = self.fail(7, "--log_dir=logs", "--rdzv_id=run", content=DICT_FORM)
        theirs = self.root_cause("torchrun", jobs["torchrun"])
        self.assertEqual(
            theirs["error_file"], "<folder>/logs/run_<random>/attempt_0/1/error.json"
        )
        ours = self.root_cause("ddprun", jobs["ddprun"])
        if not ours["error_file"].startswith("/") and not ours["error_file"].startswith("<"):
            ours["error_file"] = "<folder>/" + ours["error_file"]
        self.assertEqual(ours, theirs)
        for launcher, job in jobs.items():
            self.assertIn("ValueError: no data", job.err, launcher)

    def test_is_the_one_whose_file_has_the_earliest_time(self):
        worker = self.script("worker.py", FAIL_TOGETHER)
        jobs = self.both("--nproc_per_node=2", "--log_dir=logs", "--rdzv_id=run", worker)
        for launcher, job in jobs.items():
            self.assertEqual(self.root_cause(launcher, job)["rank"], "1 (local_rank: 1)", launcher)
            self.assertIn("rank 1", job.err)


class ErrorFile(FailureTest):
    def left(self, launcher):
        """{path: content} of the error files below the log folder."""
        return {
            self.plain(launcher, path): self.plain(launcher, open(path).read())
            for path in glob.glob(self.of(launcher, "logs/**/error.json"), recursive=True)
        }

    def copies(self):
        return {
            launcher: json.loads(self.contents(launcher, "parent.json") or "null")
            for launcher in torchrun_compare.LAUNCHERS
        }

    def fail_with_parent(self, how, content):
        """The jobs, as children of someone who wants to read why they failed."""
        return self.fail(
            how, "--log_dir=logs", "--rdzv_id=run", content=content,
            TORCHELASTIC_ERROR_FILE="parent.json",
        )

    def test_is_copied_to_the_launchers_own(self):
        for content in (DICT_FORM, STRING_FORM):
            for how in (7, -signal.SIGABRT):
                with self.subTest(content=content, how=how):
                    self.fail_with_parent(how, content)
                    copies = self.copies()
                    self.assertIsNotNone(copies["torchrun"])
                    self.assertEqual(copies["ddprun"], copies["torchrun"])

    def test_stays_in_the_log_folder(self):
        self.fail(7, "--log_dir=logs", "--rdzv_id=run", content=DICT_FORM)
        theirs = self.left("torchrun")
        self.assertEqual(list(theirs), ["<folder>/logs/run_<random>/attempt_0/1/error.json"])
        self.assertEqual(self.left("ddprun"), theirs)

    def test_that_is_malformed_breaks_torchrun_and_not_ddprun(self):
        for content in MALFORMED:
            with self.subTest(content=content):
                job = self.launch(
                    "ddprun", "--nproc_per_node=2", self.script("worker.py", FAIL),
                    env={"CONTENT": content, "HOW": "7"},
                )
                self.assertEqual(job.wait().returncode, 7, job.err)
                cause = self.root_cause("ddprun", job)
                self.assertEqual(cause["rank"], "1 (local_rank: 1)")
                self.assertEqual(cause["exitcode"], "7 (pid: <pid>)")
        job = self.launch("torchrun", "--nproc_per_node=2", self.path("worker.py"),
                          env={"CONTENT": "{", "HOW": "7"}).wait()
        self.assertIn("JSONDecodeError", job.err)
        self.assertNotIn("Root Cause", job.err)

    def test_of_a_recorded_python_worker_is_the_same_and_its_traceback_is_shown(self):
        worker = self.script("worker.py", RECORD)
        jobs = self.both("--nproc_per_node=2", "--log_dir=logs", "--rdzv_id=run", worker,
                         env={"TORCHELASTIC_ERROR_FILE": "parent.json"})
        path = "<folder>/logs/run_<random>/attempt_0/1/error.json"
        written = {}
        for launcher, job in jobs.items():
            self.assertEqual(self.root_cause(launcher, job)["rank"], "1 (local_rank: 1)")
            self.assertIn("ValueError: no such column: label", job.err)
            self.assertIn('raise ValueError("no such column: label")', job.err)
            copy = self.copies()[launcher]
            self.assertEqual(copy["message"]["errorCode"], 1)
            error = json.loads(self.left(launcher)[path])
            for text in (error, copy):
                text["message"]["extraInfo"].pop("timestamp")
            written[launcher] = (error, copy)
        self.assertEqual(written["ddprun"], written["torchrun"])


if __name__ == "__main__":
    harness.main()
