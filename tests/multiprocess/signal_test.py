"""Signals to ddprun and deaths of its own processes."""

import os
import signal
import subprocess
import time

import harness

# Writes its pid under a name, atomically.
WRITE_PID = 'echo $$ > "$FOLDER/tmp.$RANK"; mv "$FOLDER/tmp.$RANK" "$FOLDER/pid.$RANK"; '
# The same grandchildren for every kill test: in the worker's session, in a session of their own,
# orphaned, and with an environment that says nothing.
FAMILY = (
    "sleep 1000.{mark} & setsid sleep 1000.{mark} & (setsid sleep 1000.{mark} &) & "
    "env -i sleep 1000.{mark} & env -i setsid sleep 1000.{mark} & "
)


class Forwarding(harness.LauncherTest):
    def start_trapping(self, *flags, **options):
        """Two workers that note each signal in a file; TERM ends them with code 0."""
        program = self.script(
            "trap.py",
            "import os, signal, sys, time\n"
            "folder, rank = os.environ['FOLDER'], os.environ['RANK']\n"
            "def note(number, frame):\n"
            "    with open(f'{folder}/got.{rank}', 'a') as file:\n"
            "        file.write(signal.Signals(number).name + '\\n')\n"
            "    if number in (signal.SIGTERM, signal.SIGHUP):\n"
            "        sys.exit(int(os.environ.get('ON_TERM', '0')))\n"
            "for name in ('SIGUSR1', 'SIGUSR2', 'SIGTERM', 'SIGINT', 'SIGHUP'):\n"
            "    signal.signal(getattr(signal, name), note)\n"
            "open(f'{folder}/ready.{rank}', 'w').close()\n"
            "while True:\n"
            "    time.sleep(0.02)\n",  # a signal just before signal.pause() would wait in it
        )
        job = self.start("--nproc_per_node=2", *flags, program, **options)
        self.wait_for_file("ready.0")
        self.wait_for_file("ready.1")
        return job

    def got(self, rank):
        try:
            with open(self.path(f"got.{rank}")) as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def test_sends_sigterm_to_the_workers_and_says_so_in_the_exit_code(self):
        job = self.start_trapping()
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)
        self.assertEqual((self.got(0), self.got(1)), (["SIGTERM"], ["SIGTERM"]))
        self.assertIn("got SIGTERM", job.err)
        self.assertNotIn("WORKER FAILED", job.err)
        self.assert_nothing_left()

    def test_passes_on_the_code_of_a_worker_that_has_one_for_being_stopped(self):
        job = self.start_trapping(env={"ON_TERM": "75"})
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job).returncode, 75)

    def test_passes_sigusr1_and_sigusr2_through(self):
        job = self.start_trapping()
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            job.send_signal(number)
            for rank in (0, 1):
                harness.wait_until(lambda: number.name in self.got(rank), number.name)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job).returncode, 128 + signal.SIGTERM)

    def test_takes_two_sigterms_within_10_ms_for_one(self):
        job = self.start_trapping(env={"ON_TERM": "76"})
        job.send_signal(signal.SIGTERM)
        job.send_signal(signal.SIGTERM)
        # Killed workers would have had no code of their own.
        self.assertEqual(self.finish(job).returncode, 76)

    def test_kills_at_once_on_a_second_signal_half_a_second_later(self):
        job = self.start_trapping("--shutdown_timeout=1000")
        job.send_signal(signal.SIGINT)
        for rank in (0, 1):
            harness.wait_until(lambda: "SIGINT" in self.got(rank), "SIGINT")
        # The rule under test is about time, so time has to pass.
        time.sleep(0.6)
        job.send_signal(signal.SIGINT)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assert_nothing_left()

    def test_leaves_sighup_ignored_under_nohup(self):
        job = self.start_trapping(
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        )
        job.send_signal(signal.SIGHUP)
        job.send_signal(signal.SIGUSR1)
        for rank in (0, 1):
            harness.wait_until(lambda: "SIGUSR1" in self.got(rank), "SIGUSR1")
        self.assertEqual(self.got(0), ["SIGUSR1"])
        job.send_signal(signal.SIGTERM)
        self.finish(job)

    def test_stops_at_a_sigint_that_a_shell_without_job_control_ignores(self):
        job = self.start_trapping(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        job.send_signal(signal.SIGINT)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assert_nothing_left()

    def test_gives_workers_the_signal_mask_and_dispositions_it_was_started_with(self):
        command = "grep -E '^Sig(Blk|Ign)' /proc/self/status"
        plain = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        self.assertEqual(self.run_ddprun("sh", "-c", command).out, plain.stdout)


class Killed(harness.LauncherTest):
    def start_family(self, *flags, target=None):
        command = WRITE_PID + FAMILY.format(mark=self.sleep_mark) + "wait"
        job = self.start(*flags, *(target or ("sh", "-c", command)))
        pids = [self.pid_in("pid.0"), self.pid_in("pid.1")]
        harness.wait_until(
            lambda: len(harness.processes_with("1000." + self.sleep_mark)) >= 10,
            "the workers' children",
        )
        return job, pids

    def family_template(self):
        command = WRITE_PID + FAMILY.format(mark=self.sleep_mark) + "wait"
        return (self.script("job.json", as_json({"command": ["sh", "-c", command]})),)

    def test_agent_leaves_no_process(self):
        job, _ = self.start_family("--nproc_per_node=2")
        job.kill()
        # Ends when no process holds the pipes, not even the guard.
        self.finish(job)
        self.assert_nothing_left()

    def test_agent_with_a_template_leaves_no_process(self):
        job, _ = self.start_family("--nproc_per_node=2", target=self.family_template())
        job.kill()
        self.finish(job)
        self.assert_nothing_left()

    def test_agent_while_it_joins_leaves_no_process(self):
        config = self.script("job.json", as_json({"command": ["true"], "hang": True}))
        job = self.start("--nproc_per_node=2", config)
        harness.wait_until(
            lambda: any("template" in cmdline(p) for p in harness.processes_with(self.mark)),
            "the template to start",
        )
        job.kill()
        self.finish(job)
        self.assert_nothing_left()

    def test_worker_ends_the_job_and_leaves_no_process(self):
        job, pids = self.start_family("--nproc_per_node=2")
        os.kill(pids[1], signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        self.assertIn(f"(pid: {pids[1]})", job.err)
        self.assert_nothing_left()

    def test_guard_changes_nothing_for_the_job(self):
        os.mkfifo(self.path("fifo"))
        job = self.start("sh", "-c", WRITE_PID + 'read line < "$FOLDER/fifo"; exit 4')
        self.pid_in("pid.0")
        guards = [p for p in harness.processes_with(self.mark) if name_of(p) == "ddprun-guard"]
        self.assertEqual(len(guards), 1)
        os.kill(guards[0], signal.SIGKILL)
        with open(self.path("fifo"), "w") as fifo:
            fifo.write("go\n")
        self.assertEqual(self.finish(job).returncode, 4)
        self.assert_nothing_left()


class Template(harness.LauncherTest):
    def config(self, **values):
        return self.script("job.json", as_json(values))

    def test_forks_workers_with_ranks_output_and_exit_codes(self):
        command = (
            'echo "$RANK of $WORLD_SIZE"; echo "err $LOCAL_RANK" >&2; touch "$FOLDER/said.$RANK"; '
            'while ! test -e "$FOLDER/said.0" -a -e "$FOLDER/said.1"; do sleep 0.01; done; '
            "exit $RANK"
        )
        job = self.run_ddprun("--nproc_per_node=2", self.config(command=["sh", "-c", command]))
        self.assertEqual(job.returncode, 1)
        self.assertEqual(sorted(job.out.splitlines()), ["0 of 2", "1 of 2"])
        self.assertIn("err 0\n", job.err)
        self.assertIn("Rank 1 exited with code 1.", job.err)
        self.assert_nothing_left()

    def test_shares_one_memory_file_among_the_workers(self):
        command = (
            'stat -L -c "%i %F" "/proc/self/fd/$DDPRUN_NODE_MEMORY_FD"; '
            "env | grep TEMPLATE_FD; true"
        )
        job = self.run_ddprun("--nproc_per_node=3", self.config(command=["sh", "-c", command]))
        lines = job.out.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(len(set(lines)), 1)
        self.assertIn("regular empty file", lines[0])

    def test_passes_on_the_code_of_a_refused_config_without_a_worker_report(self):
        job = self.run_ddprun("--nproc_per_node=2", self.config(other=1))
        self.assertEqual(job.returncode, 2)
        self.assertEqual(job.err, self.path("job.json") + ": no command\n")
        self.assert_nothing_left()

    def test_killed_before_it_is_ready_is_reported(self):
        job = self.start("--nproc_per_node=2", self.config(command=["true"], hang=True))
        pids = []
        harness.wait_until(
            lambda: pids.extend(
                p for p in harness.processes_with(self.mark) if "--template" in cmdline(p)
            )
            or pids,
            "the template",
        )
        os.kill(pids[0], signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 1)
        self.assertIn("WORKER TEMPLATE FAILED", job.err)
        self.assertIn("was killed by SIGKILL", job.err)
        self.assert_nothing_left()

    def test_killed_after_the_fork_leaves_running_workers_alone(self):
        os.mkfifo(self.path("fifo"))
        command = WRITE_PID + 'read line < "$FOLDER/fifo"; exit 0'
        job = self.start("--nproc_per_node=1", self.config(command=["sh", "-c", command]))
        self.pid_in("pid.0")
        templates = [p for p in harness.processes_with(self.mark) if "--template" in cmdline(p)]
        self.assertEqual(len(templates), 1)
        os.kill(templates[0], signal.SIGKILL)
        with open(self.path("fifo"), "w") as fifo:
            fifo.write("go\n")
        self.finish(job)
        self.assertEqual((job.returncode, job.err), (0, ""))
        self.assert_nothing_left()

    def test_stops_at_once_on_a_signal_while_loading(self):
        job = self.start("--nproc_per_node=2", self.config(command=["true"], hang=True))
        harness.wait_until(
            lambda: any("--template" in cmdline(p) for p in harness.processes_with(self.mark)),
            "the template",
        )
        job.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(job).returncode, 75)
        self.assert_nothing_left()


class Saving(harness.LauncherTest):
    """Workers of a trainer config: told to stop, they save and end with 75."""

    def start_saving(self, *flags, on_term="exit 75", **options):
        """`on_term`: shell, also for Ctrl-C; $RANK is there."""
        command = f"trap '{on_term}' TERM INT USR1; {WRITE_PID} while true; do sleep 0.01; done"
        config = self.script("job.json", as_json({"command": ["sh", "-c", command]}))
        job = self.start("--nproc_per_node=2", *flags, config, **options)
        return job, [self.pid_in("pid.0"), self.pid_in("pid.1")]

    def test_ends_with_75_on_a_warning_signal_and_130_on_an_interrupt(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)):
            job, _ = self.start_saving("--max_restarts=1")
            job.send_signal(number)
            self.finish(job)
            self.assertEqual(job.returncode, code)
            self.assertIn("the workers save and end", job.err)
            self.assertNotIn("-- ", job.err)
            self.assertNotIn("restart", job.err)
            self.assert_nothing_left()
            for rank in (0, 1):
                os.unlink(self.path(f"pid.{rank}"))

    def test_takes_what_was_told_to_the_workers_alone_for_no_failure(self):
        job, pids = self.start_saving("--max_restarts=1")
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        self.finish(job)
        self.assertEqual((job.returncode, job.err), (75, ""))

    def test_waits_for_nobody_once_one_has_failed_to_save(self):
        on_term = "test $RANK = 0 && exit 1; touch told.$RANK"
        job, _ = self.start_saving("--shutdown_timeout=1000", on_term=on_term)
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)
        self.assertRegex(job.err, r"rank 0 .* exited with code 1 instead of saving; the others")
        self.assert_nothing_left()

    def test_says_when_the_grace_was_too_short(self):
        job, _ = self.start_saving("--shutdown_timeout=0.2", on_term=":")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)
        self.assertIn("have not saved and ended in time (--shutdown_timeout)", job.err)

    def test_does_not_ask_the_others_to_save_with_one_that_is_gone(self):
        job, pids = self.start_saving("--shutdown_timeout=1000", on_term="touch told.$RANK")
        os.kill(pids[0], signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL)
        self.assertFalse(os.path.exists(self.path("told.1")))
        self.assert_nothing_left()

    def test_under_slurm_has_the_patience_for_several_signals(self):
        on_term = "touch told.$RANK; while test ! -e go; do sleep 0.01; done; exit 75"
        job, _ = self.start_saving(on_term=on_term, env={"SLURM_JOB_ID": "7"})
        job.send_signal(signal.SIGUSR1)
        self.wait_for_file("told.0")
        self.wait_for_file("told.1")
        # The rule under test is about time, so time has to pass.
        time.sleep(0.6)
        job.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.script("go", "")
        self.assertEqual(self.finish(job).returncode, 75)


def as_json(values):
    import json

    return json.dumps(values)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    harness.main()
