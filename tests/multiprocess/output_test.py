"""Workers' output with real processes: the console, log files, terminals."""

import fcntl
import glob
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

import harness

BOTH = 'echo "out $RANK"; echo "err $RANK" >&2'


def content(path):
    with open(path) as file:
        return file.read()


class Lines(harness.LauncherTest):
    def python(self, text):
        return [sys.executable, "-u", self.script("worker.py", text)]

    def test_of_several_workers_are_never_mixed(self):
        worker = self.python(
            "import os, sys\n"
            "rank = os.environ['RANK']\n"
            "for i in range(300):\n"
            "    for piece in (f'begin {rank} ', f'middle {i} ', 'end\\n'):\n"
            "        sys.stdout.write(piece)\n"
            "        sys.stderr.write(piece)\n"
        )
        job = self.run_ddprun("--nproc_per_node=4", "--no_python", *worker)
        for text in (job.out, job.err):
            lines = text.splitlines()
            for rank in range(4):
                wanted = [f"begin {rank} middle {i} end" for i in range(300)]
                self.assertEqual([x for x in lines if x.startswith(f"begin {rank}")], wanted)
            self.assertEqual(len(lines), 1200)
        self.assert_nothing_left()

    def test_may_hold_any_bytes_and_be_long(self):
        worker = self.python(
            "import os, sys\n"
            "os.write(1, bytes(range(256)) * 4 + b'\\n')\n"
            "sys.stdout.buffer.write(b'x' * 10_000_000 + os.environ['RANK'].encode())\n"
            "sys.stdout.buffer.write(b'\\n')\n"
        )
        job = self.run_ddprun("--nproc_per_node=2", "--no_python", *worker, text=False)
        self.assertEqual(job.out.count(bytes(range(256))), 8)
        for rank in (b"0", b"1"):
            self.assertIn(b"\n" + b"x" * 10_000_000 + rank + b"\n", job.out)

    def test_are_held_back_while_nobody_reads_and_all_come_in_the_end(self):
        worker = self.python(
            "import os\n"
            "for i in range(100_000): print(os.environ['RANK'], i, 'x' * 40)\n"
            "open(os.environ['FOLDER'] + '/done.' + os.environ['RANK'], 'w').close()\n"
        )
        job = self.start("--nproc_per_node=2", "--no_python", *worker)
        # Past Python's buffer, of which communicate() knows nothing.
        first = os.read(job.stdout.fileno(), 1).decode()
        self.assertEqual([f for f in os.listdir(self.folder) if f.startswith("done")], [])
        self.finish(job)
        lines = (first + job.out).splitlines()
        for rank in "01":
            numbers = [int(x.split()[1]) for x in lines if x.startswith(rank)]
            self.assertEqual(numbers, list(range(100_000)))

    def test_end_the_workers_when_nobody_will_ever_read_them(self):
        job = self.start("--nproc_per_node=2", "--no_python", "yes")
        job.stdout.readline()
        job.stdout.close()
        job.wait(timeout=harness.DEADLINE_S)
        self.assertEqual(job.returncode, 128 + signal.SIGPIPE)
        err = " ".join(job.stderr.read().split())
        self.assertIn("standard output cannot be written to any more: its reader has ended", err)
        self.assertIn("was killed by SIGPIPE: nobody reads its output any more", err)
        self.assert_nothing_left()

    def test_name_a_disk_that_is_full(self):
        with open("/dev/full", "w") as full:
            job = self.run_ddprun("--nproc_per_node=2", "--no_python", "yes", stdout=full)
        self.assertIn("cannot be written to any more: No space left on device", job.err)
        self.assert_nothing_left()

    def test_carry_labels_when_asked_to(self):
        job = self.run_ddprun("--label=always", "--nproc_per_node=2", "sh", "-c", BOTH)
        self.assertEqual(sorted(job.out.splitlines()), ["[0] out 0", "[1] out 1"])
        self.assertEqual(sorted(job.err.splitlines()), ["[0] err 0", "[1] err 1"])


class LogFiles(harness.LauncherTest):
    def run_logged(self, *flags, command=BOTH, code=0):
        logs = self.path("logs")
        job = self.run_ddprun(
            f"--log_dir={logs}", "--nproc_per_node=2", *flags, "sh", "-c", command
        )
        self.assertEqual(job.returncode, code, job.err)
        (job.run,) = glob.glob(logs + "/*")
        return job

    def test_lie_in_a_folder_of_the_run(self):
        job = self.run_logged("--rdzv_id=mine", "-r", "3")
        self.assertRegex(os.path.basename(job.run), r"^mine_[a-z0-9]{8}$")
        self.assertEqual((job.out, job.err), ("", ""))
        for rank in "01":
            folder = f"{job.run}/attempt_0/{rank}"
            self.assertEqual(sorted(os.listdir(folder)), ["stderr.log", "stdout.log"])
            self.assertEqual(content(folder + "/stdout.log"), f"out {rank}\n")
            self.assertEqual(content(folder + "/stderr.log"), f"err {rank}\n")
        self.assert_nothing_left()

    def test_get_a_copy_of_what_is_shown(self):
        job = self.run_logged("-t", "0:3,1:1", "--role=r")
        self.assertEqual(sorted(job.out.splitlines()), ["[r0]:out 0", "[r1]:out 1"])
        self.assertEqual(sorted(job.err.splitlines()), ["[r0]:err 0", "err 1"])
        self.assertEqual(content(job.run + "/attempt_0/0/stderr.log"), "err 0\n")
        self.assertEqual(content(job.run + "/attempt_0/1/stdout.log"), "out 1\n")
        self.assertFalse(os.path.exists(job.run + "/attempt_0/1/stderr.log"))

    def test_collect_matching_lines(self):
        command = 'echo "loss $RANK"; echo other; echo "bad $RANK" >&2; echo fine >&2'
        job = self.run_logged(
            "-t", "3", "--duplicate_stdout_filters=loss,acc", "--duplicate_stderr_filters=bad",
            command=command,
        )
        out = content(job.run + "/attempt_0/filtered_stdout.log")
        err = content(job.run + "/attempt_0/filtered_stderr.log")
        self.assertEqual(sorted(out.splitlines()), ["[default0]:loss 0", "[default1]:loss 1"])
        self.assertEqual(sorted(err.splitlines()), ["[default0]:bad 0", "[default1]:bad 1"])

    def test_hold_what_a_failure_report_shows(self):
        command = 'test "$RANK" = 1 && { echo why >&2; exit 4; }; exec sleep 1000'
        job = self.run_logged("-r", "3", command=command, code=4)
        self.assertIn("| why\n", job.err)

    def test_of_ranks_not_shown_are_complete(self):
        job = self.run_logged("-t", "1", "--local_ranks_filter=1")
        self.assertEqual((job.out, job.err), ("[default1]:out 1\n", "err 1\n"))
        self.assertEqual(content(job.run + "/attempt_0/0/stdout.log"), "out 0\n")

    def test_are_kept_somewhere_if_no_folder_was_named(self):
        job = self.run_ddprun("-r", "3", "sh", "-c", BOTH)
        folder = re.search(r"logs go to (\S+)", job.err)[1]
        self.assertEqual(content(folder + "/attempt_0/0/stdout.log"), "out 0\n")
        self.assertEqual(os.listdir(self.tmp), [os.path.basename(folder)])

    def test_are_none_for_dev_null(self):
        command = BOTH + '; echo "<$TORCHELASTIC_ERROR_FILE>"'
        job = self.run_ddprun("--log_dir=/dev/null", "-r", "3", "sh", "-c", command)
        self.assertEqual((job.out, job.err), ("out 0\n<>\n", "err 0\n"))

    def test_that_cannot_be_made_are_reported_before_anything_starts(self):
        with open(self.path("file"), "w"):
            pass
        job = self.run_ddprun(f"--log_dir={self.path('file')}", "touch", self.path("started"))
        self.assertEqual(job.returncode, 1)
        self.assertIn("LOG FOLDER NOT WRITABLE", job.err)
        self.assertFalse(os.path.exists(self.path("started")))
        self.assert_nothing_left()


class RankFilter(harness.LauncherTest):
    def test_shows_only_the_ranks_named_but_reports_every_failure(self):
        command = BOTH + '; test "$RANK" = 0 && exit 5; exec sleep 1000'
        job = self.run_ddprun(
            "--nproc_per_node=2", "--local_ranks_filter=1", "sh", "-c", command
        )
        self.assertEqual(job.returncode, 5)
        self.assertNotIn("out 0", job.out)
        self.assertNotIn("err 0\n", job.err.split("-- WORKER FAILED")[0])
        self.assertIn("| err 0\n", job.err)


class Terminal(harness.LauncherTest):
    def run_on_terminal(self, *args, during=lambda job, terminal: None, **env):
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 123, 0, 0))
        job = subprocess.Popen(
            [harness.DDPRUN, *args], env=self.env(TERM="xterm", **env), cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        )
        os.close(theirs)
        during(job, ours)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # EIO: no process holds the other end
            pass
        os.close(ours)
        self.assertEqual(job.wait(timeout=harness.DEADLINE_S), 0)
        return text.decode().replace("\r\n", "\n")

    def test_is_one_for_the_workers_too(self):
        worker = self.script(
            "worker.py",
            "import os\nprint(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns)\n",
        )
        text = self.run_on_terminal(
            "--nproc_per_node=2", "--no_python", sys.executable, worker, NO_COLOR="1"
        )
        # The label takes four of the terminal's 123 columns.
        lines = ["[0] True True 119", "[1] True True 119"]
        self.assertEqual(sorted(text.splitlines()), lines)
        self.assert_nothing_left()

    def test_that_changes_its_size_changes_the_workers(self):
        worker = self.script(
            "worker.py",
            "import os, signal\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
            "open(os.environ['FOLDER'] + '/ready.' + os.environ['RANK'], 'w').close()\n"
            "signal.sigwait({signal.SIGWINCH})\n"
            "print(os.get_terminal_size(1).columns)\n",
        )

        def shrink(job, terminal):
            for rank in range(2):
                self.wait_for_file(f"ready.{rank}")
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 60, 0, 0))
            job.send_signal(signal.SIGWINCH)

        text = self.run_on_terminal(
            "--nproc_per_node=2", "--no_python", sys.executable, worker, during=shrink, NO_COLOR="1"
        )
        self.assertEqual(sorted(text.splitlines()), ["[0] 56", "[1] 56"])

    def test_shows_labels_in_colors(self):
        text = self.run_on_terminal("--nproc_per_node=2", "echo", "hello")
        self.assertRegex(text, r"\x1b\[36m\[0\]\x1b\[0m hello\n")
        self.assertRegex(text, r"\x1b\[33m\[1\]\x1b\[0m hello\n")

    def test_shows_a_single_worker_as_it_is(self):
        self.assertEqual(self.run_on_terminal("sh", "-c", BOTH), "out 0\nerr 0\n")


if __name__ == "__main__":
    harness.main()
