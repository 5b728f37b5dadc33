"""Log folders and their files: the same under torchrun and under ddprun."""

import glob
import os
import re

import harness
import torchrun_compare

# Without redirection torchrun's workers share a pipe: only what one write() carries stays together.
WORKER = """
import os
rank = os.environ["RANK"]
for line in (f"first loss {rank}", "second", f"last {rank}"):
    os.write(1, f"{line}\\n".encode())
    os.write(2, f"err {line}\\n".encode())
"""


class Logs(torchrun_compare.CompareTest):
    def setUp(self):
        super().setUp()
        self.worker = self.script("worker.py", WORKER)

    def logs(self, launcher):
        """{path below the run's folder: content}, folders with None."""
        (run,) = glob.glob(os.path.join(self.path("logs." + launcher), "*"))
        self.assertRegex(os.path.basename(run), r"^mine_[a-z0-9_]{8}$")
        found = {}
        for folder, _, names in os.walk(run):
            found[os.path.relpath(folder, run)] = None
            for name in names:
                path = os.path.join(folder, name)
                with open(path) as file:
                    found[os.path.relpath(path, run)] = file.read()
        return found

    def compare(self, *flags):
        shown = {}
        for launcher in torchrun_compare.LAUNCHERS:
            job = self.launch(
                launcher, "--nproc_per_node=3", "--rdzv_id=mine",
                f"--master_port={harness.unused_port()}",
                "--log_dir=" + self.path("logs." + launcher), *flags, self.worker,
                env={"OMP_NUM_THREADS": "1"},
            )
            self.assertEqual(job.wait().returncode, 0, job.err)
            shown[launcher] = [sorted(text.splitlines()) for text in (job.out, job.err)]
        theirs, ours = self.logs("torchrun"), self.logs("ddprun")
        for logs in (theirs, ours):
            # Ranks write into it in any order.
            for name in logs:
                if re.search("filtered_", name):
                    logs[name] = sorted(logs[name].splitlines())
        self.assertEqual(ours, theirs)
        self.assertEqual(shown["ddprun"], shown["torchrun"])
        return ours

    def test_of_redirected_streams(self):
        self.assertIn("attempt_0/2/stderr.log", self.compare("-r", "3"))

    def test_of_some_ranks(self):
        logs = self.compare("-r", "0:1,1:2")
        self.assertNotIn("attempt_0/0/stderr.log", logs)

    def test_of_streams_that_are_shown_too(self):
        self.compare("-t", "0:1,2:3", "-r", "1:3", "--role=trainer")

    def test_of_ranks_that_are_not_shown(self):
        self.compare("-t", "1", "--local_ranks_filter=1,2")

    def test_of_matching_lines(self):
        logs = self.compare(
            "-t", "0:3,1:3", "--duplicate_stdout_filters=loss,last",
            "--duplicate_stderr_filters=second",
        )
        self.assertEqual(len(logs["attempt_0/filtered_stdout.log"]), 4)

    def test_without_any_stream(self):
        self.assertEqual(
            sorted(self.compare()),
            [".", "attempt_0", "attempt_0/0", "attempt_0/1", "attempt_0/2"],
        )


if __name__ == "__main__":
    harness.main()
