"""The agent between its workers' ends: it stops and continues, renews its template, notes what the
other workers were doing, and informs its parent."""

import json
import os
import signal

import harness

WRITE_PID = 'echo $$ > "$FOLDER/new.$RANK"; mv "$FOLDER/new.$RANK" "$FOLDER/pid.$RANK"; '


class Suspended(harness.LauncherTest):
    def test_stops_with_its_workers_and_their_children_and_goes_on(self):
        command = f"sleep 1000.{self.sleep_mark} & " + WRITE_PID + (
            'while ! test -e "$FOLDER/end"; do sleep 0.02; done; kill %1; exit 0'
        )
        job = self.start("--nproc_per_node=2", "bash", "-c", command)
        family = [job.pid, self.pid_in("pid.0"), self.pid_in("pid.1")]
        harness.wait_until(
            lambda: len(harness.processes_with("sleep\0001000." + self.sleep_mark)) == 2,
            "the workers' children",
        )
        family += harness.processes_with("sleep\0001000." + self.sleep_mark)
        job.send_signal(signal.SIGTSTP)
        harness.wait_until(lambda: all(harness.state_of(p) == "T" for p in family), "all to stop")
        job.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: all(harness.state_of(p) != "T" for p in family), "all to go on")
        open(self.path("end"), "w").close()
        self.assertEqual(self.finish(job).returncode, 0, job.err)
        self.assert_nothing_left()


class SignalsToHandle(harness.LauncherTest):
    def test_end_the_job_as_they_are_listed_and_others_pass(self):
        command = (
            'trap "touch $FOLDER/usr2" USR2; trap "exit 0" USR1; ' + WRITE_PID
            + "while :; do sleep 0.02; done"
        )
        job = self.start("--signals_to_handle=SIGUSR1", "sh", "-c", command)
        self.pid_in("pid.0")
        job.send_signal(signal.SIGUSR2)
        self.wait_for_file("usr2")
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGUSR1)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGUSR1)
        self.assertIn("got SIGUSR1", job.err)
        self.assert_nothing_left()

    def test_leave_sigterm_alone_when_it_is_not_listed(self):
        job = self.start("--signals_to_handle=SIGUSR1", "sh", "-c", WRITE_PID + "exec sleep 1000")
        self.pid_in("pid.0")
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job).returncode, -signal.SIGTERM)
        self.assert_nothing_left()


class ExitCode(harness.LauncherTest):
    def test_is_1_in_torchruns_style_whatever_the_worker_says(self):
        for style, code in (("torchrun", 1), ("worker", 42)):
            with self.subTest(style=style):
                job = self.run_ddprun(f"--exit_code={style}", "sh", "-c", "exit 42")
                self.assertEqual(job.returncode, code, job.err)
                self.assertIn("exited with code 42", job.err)


class ParentsErrorFile(harness.LauncherTest):
    def test_gets_what_the_first_failing_worker_wrote(self):
        content = {"message": {"message": "boom", "extraInfo": {"timestamp": "1"}}}
        script = self.script(
            "worker.py",
            "import json, os, sys\n"
            f"json.dump({content!r}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
            "sys.exit(3)\n",
        )
        parent = self.path("parent.json")
        job = self.run_ddprun(script, env={"TORCHELASTIC_ERROR_FILE": parent})
        self.assertEqual(job.returncode, 3)
        with open(parent) as file:
            self.assertEqual(json.load(file)["message"]["message"], "boom")

    def test_is_not_written_by_a_job_that_ends_well(self):
        parent = self.path("parent.json")
        self.run_ddprun("true", env={"TORCHELASTIC_ERROR_FILE": parent})
        self.assertFalse(os.path.exists(parent))


class BackOff(harness.LauncherTest):
    def test_is_cut_short_by_a_signal(self):
        # The pauses grow: the one that follows takes 4 s.
        job = self.start("--max_restarts=50", "sh", "-c", "exit 1")
        for line in job.stderr:
            if "restart 6 of 50" in line:
                break
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, job.err)
        self.assertNotIn("restart 7", job.err)
        self.assert_nothing_left()


class KilledTemplate(harness.LauncherTest):
    def config(self, when):
        values = {"command": ["sh", "-c", "echo done"], when: self.path("killed." + when)}
        return self.script(when + ".json", json.dumps(values))

    def test_is_started_anew_while_restarts_are_left(self):
        for when in ("killed_when_ready", "killed_when_asked"):
            with self.subTest(when):
                job = self.run_ddprun("--nproc_per_node=2", "--max_restarts=1", self.config(when))
                self.assertEqual((job.returncode, job.out), (0, "done\ndone\n"), job.err)
                self.assertIn("was killed by SIGKILL", job.err)
                self.assert_nothing_left()

    def test_ends_the_job_without_restarts(self):
        for when in ("killed_when_ready", "killed_when_asked"):
            with self.subTest(when):
                job = self.run_ddprun("--nproc_per_node=2", self.config(when))
                self.assertEqual((job.returncode, job.out), (1, ""), job.err)
                self.assertIn("WORKER TEMPLATE FAILED", job.err)
                self.assert_nothing_left()

    def test_is_started_anew_while_the_other_node_has_not_come(self):
        flags = ("--nnodes=2", f"--master_port={harness.unused_port()}", "--max_restarts=1")
        first = self.start(*flags, "--node_rank=1", self.config("killed_when_ready"))
        line = first.stderr.readline()
        while line and "Another one is started" not in line:
            line = first.stderr.readline()
        self.assertIn("was killed by SIGKILL before it could fork workers", line)
        other = self.start(*flags, "--node_rank=0", self.config("killed_when_ready"))
        for node in (first, other):
            self.finish(node)
            self.assertEqual((node.returncode, node.out), (0, "done\n"), node.err)
            self.assertNotIn("restart 1", node.err)
        self.assert_nothing_left()


class Standing(harness.LauncherTest):
    EXPECTED = (
        r"until then waited in all_reduce 418 \(bucket 3, 25\.0 MB of float32\) of step 57 for \d"
    )

    def worker(self):
        return self.script(
            "worker.py",
            harness.WAITS_IN_ALL_REDUCE
            + "folder = os.environ['FOLDER']\n"
            + "if rank == 0:\n"
            + "    open(folder + '/waits', 'w').close()\n"
            + "    time.sleep(1000)\n"
            + "while not os.path.exists(folder + '/waits'): time.sleep(0.01)\n"
            + "os._exit(7)\n",
        )

    def test_of_the_others_is_in_the_report_of_a_failure(self):
        report = self.path("report.json")
        job = self.run_ddprun("--nproc_per_node=2", f"--report_file={report}", self.worker())
        self.assertEqual(job.returncode, 7)
        self.assertRegex(job.err, r"rank 0 .*" + self.EXPECTED)
        with open(report) as file:
            self.assertIn("waited in all_reduce 418", file.read())

    def test_is_noted_when_another_node_ends_the_round(self):
        port = harness.unused_port()
        reports = [self.path(f"report{node}.json") for node in (0, 1)]
        nodes = [
            self.start(
                "--nnodes=2",
                f"--node_rank={node}",
                f"--master_port={port}",
                f"--report_file={reports[node]}",
                self.worker(),
            )
            for node in (0, 1)
        ]
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 7, node.err)
        files = [name for name in os.listdir(self.folder) if name.startswith("report0")]
        with open(self.path(files[0])) as file:
            self.assertIn("waited in all_reduce 418", file.read())


class LinesOfANode(harness.LauncherTest):
    def test_carry_its_rank_once_it_has_one(self):
        port = harness.unused_port()
        nodes = [
            self.start(
                "--rdzv_backend=c10d",
                f"--rdzv_endpoint=127.0.0.1:{port}",
                "--nnodes=2",
                "sh",
                "-c",
                'echo "$GROUP_RANK"',
            )
            for _ in (0, 1)
        ]
        for node in nodes:
            self.finish(node)
            self.assertEqual(node.returncode, 0, node.err)
            self.assertIn(f"[ddprun n{node.out.strip()}] all nodes joined", node.err)


if __name__ == "__main__":
    harness.main()
