"""How a job ends: exit codes, first failures, grace periods, output."""

import os
import re
import signal
import subprocess
import time

import harness

# Announces itself in a file named after its rank, then waits for whatever comes.
READY = 'touch "$FOLDER/ready.$RANK"; '


class ExitCode(harness.LauncherTest):
    def test_is_zero_when_all_workers_succeed(self):
        job = self.run_ddprun("--nproc_per_node=4", "sh", "-c", "echo out; exit 0")
        self.assertEqual((job.returncode, job.out, job.err), (0, "out\n" * 4, ""))
        self.assert_nothing_left()

    def test_of_a_killed_agent_with_a_relative_tmpdir_leaves_nothing(self):
        command = (
            'cd /; test -d "$(dirname "$TORCHELASTIC_ERROR_FILE")" || exit 9; '
            "kill -9 $PPID; exec sleep 1000"
        )
        job = self.run_ddprun("sh", "-c", command, env={"TMPDIR": "tmp"})
        self.assertEqual(job.returncode, -signal.SIGKILL, job.err)
        self.assert_nothing_left()

    def test_is_the_first_failing_workers_own(self):
        command = 'test "$RANK" = 1 && exit 7; exec sleep 1000'
        job = self.run_ddprun("--nproc_per_node=3", "sh", "-c", command)
        self.assertEqual(job.returncode, 7)
        self.assert_nothing_left()

    def test_is_128_plus_the_signal_that_killed_the_first(self):
        command = 'test "$RANK" = 0 && kill -SEGV $$; exec sleep 1000'
        job = self.run_ddprun("--nproc_per_node=2", "sh", "-c", command)
        self.assertEqual(job.returncode, 128 + signal.SIGSEGV)
        self.assertIn("was killed by SIGSEGV", job.err)
        self.assertIn("exitcode  : -11 (pid: ", job.err)

    def test_is_126_or_127_when_the_program_cannot_be_executed(self):
        self.script("plain", "#!/bin/sh\n")
        os.chmod(self.script("no_interpreter", "#!/nowhere/interpreter\n"), 0o755)
        for program, code in (("./absent", 127), ("./plain", 126), ("./no_interpreter", 126)):
            with self.subTest(program):
                job = self.run_ddprun("--nproc_per_node=2", program)
                self.assertEqual(job.returncode, code)
                self.assertIn(program.strip("./"), job.err)
        self.assert_nothing_left()


class FirstFailure(harness.LauncherTest):
    def test_is_named_first_with_its_last_words(self):
        command = (
            'test "$RANK" = 2 || exec sleep 1000; '
            "for i in $(seq 30); do echo line $i >&2; done; exit 9"
        )
        job = self.run_ddprun("--nproc_per_node=4", "sh", "-c", command)
        report = job.err[job.err.index("-- WORKER FAILED") :]
        self.assertIn("Rank 2 exited with code 9.", report)
        self.assertIn("  rank      : 2 (local_rank: 2)\n", report)
        # All thirty stand above already.
        self.assertEqual(re.findall(r"\| line (\d+)\n", report), ["30"])
        others = re.findall(r"rank (\d) \(local_rank: \d, pid: \d+\) was killed by SIGTERM", report)
        self.assertEqual(others, ["0", "1", "3"])
        self.assertGreater(report.index("rank 0 (local"), report.index("Rank 2 exited"))

    def test_is_found_among_workers_that_fail_right_after_it(self):
        # Rank 0 fails as soon as rank 1 has ended, which the launcher may not have looked at yet.
        program = self.script(
            "fail.py",
            "import os, time\n"
            "path = os.environ['FOLDER'] + '/pid'\n"
            "if os.environ['RANK'] == '1':\n"
            "    with open(path + '.tmp', 'w') as file:\n"
            "        file.write(str(os.getpid()))\n"
            "    os.rename(path + '.tmp', path)\n"
            "    os._exit(5)\n"
            "while not os.path.exists(path):\n"
            "    time.sleep(0.001)\n"
            "stat = '/proc/' + open(path).read() + '/stat'\n"
            "try:\n"
            "    while open(stat).read().rpartition(')')[2].split()[0] not in 'ZX':\n"
            "        pass\n"
            "except OSError:\n"
            "    pass\n"
            "os._exit(6)\n",
        )
        for _ in range(5):
            job = self.run_ddprun("--nproc_per_node=2", program)
            self.assertEqual(job.returncode, 5, job.err)
            os.remove(self.path("pid"))

    def test_shows_the_message_in_the_error_file(self):
        text = '{"message": {"message": "ValueError: no data", "extraInfo": {"timestamp": "1"}}}'
        command = f"echo '{text}' > $TORCHELASTIC_ERROR_FILE; exit 1"
        job = self.run_ddprun("sh", "-c", command)
        self.assertIn("| ValueError: no data\n", job.err)
        self.assertIn("  error_file: " + self.tmp, job.err)
        self.assert_nothing_left()

    def test_does_not_wait_for_an_error_file_that_is_a_pipe(self):
        job = self.run_ddprun("sh", "-c", "mkfifo $TORCHELASTIC_ERROR_FILE; exit 3")
        self.assertEqual(job.returncode, 3, job.err)
        self.assertIn("Rank 0 exited with code 3.", job.err)

    def test_is_told_though_its_error_file_is_nested_without_end(self):
        error = '{"message": {"message": ' + "[" * 60000 + "]" * 60000 + "}}"
        script = self.script("deep", error)
        job = self.run_ddprun("sh", "-c", f"cp {script} $TORCHELASTIC_ERROR_FILE; exit 3")
        self.assertEqual(job.returncode, 3, job.err)
        self.assertIn("Rank 0 exited with code 3.", job.err)

    def test_of_a_killed_worker_names_the_signal(self):
        job = self.start("--nproc_per_node=2", "sh", "-c", READY + "exec sleep 1000")
        self.wait_for_file("ready.0")
        self.wait_for_file("ready.1")
        workers = [
            pid
            for pid in harness.processes_with("RANK=1")
            if pid in harness.processes_with(self.mark)
        ]
        os.kill(workers[0], signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        self.assertIn("Rank 1 was killed by SIGKILL", job.err)
        self.assert_nothing_left()


class Shutdown(harness.LauncherTest):
    def test_kills_a_worker_that_ignores_sigterm_after_the_grace_period(self):
        # Rank 0 fails only once rank 1 is deaf.
        command = (
            'if test "$RANK" = 1; then trap "" TERM; touch "$FOLDER/deaf"; '
            "while :; do sleep 1000; done; fi; "
            'while ! test -e "$FOLDER/deaf"; do sleep 0.01; done; exit 3'
        )
        begin = time.monotonic()
        job = self.run_ddprun(
            "--nproc_per_node=2", "--shutdown-timeout=0.5", "sh", "-c", command
        )
        self.assertEqual(job.returncode, 3)
        self.assertGreaterEqual(time.monotonic() - begin, 0.5)
        self.assertRegex(job.err, r"rank 1 .* was killed by SIGKILL when told to stop \(\d+ ms\)")
        self.assert_nothing_left()

    def test_leaves_no_background_process_of_a_worker_that_succeeded(self):
        command = f"setsid sleep 1000.{self.sleep_mark} & exit 0"
        job = self.run_ddprun("--nproc_per_node=2", "sh", "-c", command)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(harness.processes_with(self.sleep_mark), [])
        self.assert_nothing_left()

    def test_leaves_alone_what_ddprun_did_not_start(self):
        # In the process that ddprun takes over, as `tensorboard & exec ddprun ...` does.
        others = f"sleep 1000.{self.sleep_mark} & setsid sleep 1000.{self.sleep_mark} & "
        job = f"{harness.DDPRUN} --max_restarts=1 sh -c 'setsid sleep 999 & exit 5'"
        job = subprocess.run(
            ["sh", "-c", others + "exec " + job], env=self.env(), cwd=self.folder,
            timeout=harness.DEADLINE_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.assertEqual(job.returncode, 5)
        self.assertEqual(len(harness.processes_with(self.sleep_mark)), 2)
        self.assertEqual(len(harness.processes_with(self.mark)), 2)
        self.end_leftovers()

    def test_says_so_where_it_cannot_look_for_what_workers_leave_behind(self):
        hidden = "mount -t tmpfs none /proc && exec " + harness.DDPRUN + " true"
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hidden]
        job = subprocess.run(
            command, env=self.env(), cwd=self.folder, timeout=harness.DEADLINE_S,
            capture_output=True, text=True,
        )
        if "unshare" in job.stderr or "mount" in job.stderr:
            self.skipTest("no mount of our own: " + job.stderr)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertIn("/proc shows no processes", job.stderr)


class Output(harness.LauncherTest):
    def test_of_100000_lines_arrives_whole_and_in_order(self):
        lines = 50_000
        program = self.script(
            "write.py",
            "import os, sys\n"
            "rank = os.environ['RANK']\n"
            f"for i in range({lines}):\n"
            "    sys.stderr.write(f'<{rank} {i} ' + 'x' * (i % 90) + '>\\n')\n"
            "if rank == '0':\n"
            f"    os.write(1, b''.join(b'<%d>\\n' % i for i in range({lines})))\n",
        )
        job = self.run_ddprun("--nproc_per_node=2", program)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(job.out, "".join(f"<{i}>\n" for i in range(lines)))
        for rank in "01":
            mine = [line for line in job.err.splitlines() if line.startswith("<" + rank)]
            expected = [f"<{rank} {i} " + "x" * (i % 90) + ">" for i in range(lines)]
            self.assertEqual(mine, expected)
        self.assertEqual(len(job.err.splitlines()), 2 * lines)

    def test_on_stderr_shows_a_prompt_and_a_progress_bar_before_their_line_ends(self):
        command = (
            'printf "10%%\\r20%%\\r" >&2; printf "name? " >&2; read answer; echo "hello $answer"'
        )
        job = self.start("sh", "-c", command, stdin=subprocess.PIPE, bufsize=0, text=False)
        shown = b""
        while not shown.endswith(b"name? "):
            shown += job.stderr.read(1)
        self.assertEqual(shown, b"10%\r20%\rname? ")
        job.stdin.write(b"Ada\n")
        job.stdin.close()
        self.assertEqual(job.stdout.read(), b"hello Ada\n")
        self.assertEqual(job.wait(harness.DEADLINE_S), 0)

    def test_keeps_a_last_line_without_an_end(self):
        job = self.run_ddprun("sh", "-c", "printf unfinished >&2")
        self.assertEqual(job.err, "unfinished")

    def test_does_not_stop_the_launcher_when_nobody_reads_it(self):
        command = READY + "while :; do echo more >&2; done"
        job = self.start("--shutdown_timeout=0.2", "sh", "-c", command)
        self.wait_for_file("ready.0")
        job.send_signal(signal.SIGTERM)
        harness.wait_until(
            lambda: harness.processes_with("RANK=0") == []
            or self.mark not in str(harness.processes_with(self.mark)),
            "the worker to end",
        )
        job.wait(harness.DEADLINE_S)  # one signal is enough
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)


if __name__ == "__main__":
    harness.main()
