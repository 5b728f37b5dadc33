"""The time between a failure and the attempt that follows it."""

import json
import os
import signal
import socket
import time

import harness

WRITE_PID = (
    'echo $$ > "$FOLDER/new.$RANK"; mv "$FOLDER/new.$RANK" "$FOLDER/pid.$RANK.$ATTEMPT"; '
)
ATTEMPT = "ATTEMPT=$TORCHELASTIC_RESTART_COUNT; "


def one_line_each(text, part):
    return [line for line in text.splitlines() if part in line]


class Restart(harness.LauncherTest):
    def test_gives_a_job_as_many_chances_as_it_was_promised(self):
        for promised in (0, 1, 3):
            with self.subTest(max_restarts=promised):
                job = self.run_ddprun(
                    "--nproc_per_node=2",
                    f"--max_restarts={promised}",
                    "sh",
                    "-c",
                    'test "$RANK" = 1 || exec sleep 1000; echo "$RANK"; exit 7',
                )
                self.assertEqual(job.returncode, 7)
                self.assertEqual(len(one_line_each(job.out, "1")), promised + 1)
                restarts = one_line_each(job.err, f" of {promised}")
                self.assertEqual(len(restarts), promised)
                for line in restarts:
                    self.assertIn("rank 1 (local_rank: 1, pid: ", line)
                    self.assertIn("exited with code 7", line)
                self.assertEqual(job.err.count("-- WORKER FAILED"), 1)
        self.assert_nothing_left()

    def test_ends_well_when_a_later_attempt_does(self):
        command = ATTEMPT + 'test "$ATTEMPT" = 1 || exit 3'
        job = self.run_ddprun("--nproc_per_node=2", "--max_restarts=2", "sh", "-c", command)
        self.assertEqual(job.returncode, 0)
        self.assertNotIn("WORKER FAILED", job.err)
        self.assertIn("restart 1 of 2", job.err)
        self.assert_nothing_left()

    def test_tells_workers_which_attempt_they_are(self):
        show = (
            'echo "$TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS '
            '$(basename $(dirname $(dirname "$TORCHELASTIC_ERROR_FILE")))"; exit 1'
        )
        job = self.run_ddprun("--max_restarts=2", "sh", "-c", show)
        self.assertEqual(
            job.out.splitlines(), ["0 2 attempt_0", "1 2 attempt_1", "2 2 attempt_2"]
        )

    def test_gives_each_attempt_an_empty_memory_file(self):
        command = 'stat -L -c "%s" "/proc/self/fd/$DDPRUN_NODE_MEMORY_FD"; '
        command += 'truncate -s 4096 "/proc/self/fd/$DDPRUN_NODE_MEMORY_FD"; exit 1'
        job = self.run_ddprun("--max_restarts=1", "sh", "-c", command)
        self.assertEqual(job.out.splitlines(), ["0", "0"])

    def test_gives_each_attempt_a_fresh_store(self):
        # The wire protocol of torch's TCPStore: VALIDATE, then CHECK and SET of one key.
        program = self.script(
            "store.py",
            "import os, socket, struct, sys\n"
            "def text(value):\n"
            "    return struct.pack('=Q', len(value)) + value\n"
            "with socket.create_connection(\n"
            "    (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))) as store:\n"
            "    store.sendall(b'\\0' + struct.pack('=I', 0x3C85F7CE))\n"
            "    store.sendall(b'\\5' + struct.pack('=Q', 1) + text(b'key'))\n"
            "    print(struct.unpack('=B', store.recv(1))[0], flush=True)\n"
            "    store.sendall(b'\\1' + text(b'key') + text(b'value'))\n"
            "    store.sendall(b'\\5' + struct.pack('=Q', 1) + text(b'key'))\n"
            "    print(struct.unpack('=B', store.recv(1))[0], flush=True)\n"
            "sys.exit(1)\n",
        )
        job = self.run_ddprun("--max_restarts=1", program)
        there, absent = "0", "1"
        self.assertEqual(job.out.split(), [absent, there, absent, there], job.err)

    def test_follows_at_once(self):
        command = ATTEMPT + 'date +%s%N > "$FOLDER/time.$ATTEMPT"; test "$ATTEMPT" = 1'
        best = 1e9
        for _ in range(3):
            self.run_ddprun("--max_restarts=1", "sh", "-c", command)
            times = [int(open(self.path(f"time.{i}")).read()) / 1e9 for i in (0, 1)]
            best = min(best, times[1] - times[0])
        # Far above what it takes, far below any pause.
        self.assertLess(best, 0.2)

    def test_kills_what_the_workers_have_left_behind(self):
        family = (
            "sleep 1000.{0} & setsid sleep 1000.{0} & (setsid sleep 1000.{0} &) & "
            "env -i setsid sleep 1000.{0} & "
        ).format(self.sleep_mark)
        count = f"ps -e -o comm=,args= | grep -c '^sleep  *sleep 1000.{self.sleep_mark}'; "
        command = ATTEMPT + (
            f'if test "$ATTEMPT" = 1; then {count} exit 0; fi; {family} sleep 0.1; {count} exit 5'
        )
        job = self.run_ddprun("--max_restarts=1", "sh", "-c", command)
        self.assertEqual((job.returncode, job.out.split()), (0, ["4", "0"]), job.err)
        self.assert_nothing_left()

    def test_follows_on_a_killed_worker(self):
        command = ATTEMPT + WRITE_PID + 'test "$ATTEMPT" = 1 || exec sleep 1000'
        job = self.start("--nproc_per_node=2", "--max_restarts=1", "sh", "-c", command)
        self.pid_in("pid.0.0")
        os.kill(self.pid_in("pid.1.0"), signal.SIGKILL)
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("was killed by SIGKILL; restart 1 of 1", job.err)

    def test_does_not_follow_when_the_program_cannot_be_executed(self):
        job = self.run_ddprun("--max_restarts=3", "--no_python", "./absent")
        self.assertEqual(job.returncode, 127)
        self.assertNotIn("restart", job.err)

    def test_is_given_up_when_the_job_is_told_to_stop_meanwhile(self):
        deaf = 'trap "" TERM; touch "$FOLDER/deaf"; while :; do sleep 1000; done'
        command = ATTEMPT + (
            f'test "$ATTEMPT" = 1 && touch "$FOLDER/again"; test "$RANK" = 1 && {{ {deaf}; }}; '
            'while ! test -e "$FOLDER/deaf"; do sleep 0.01; done; touch "$FOLDER/failed"; exit 7'
        )
        job = self.start(
            "--nproc_per_node=2", "--max_restarts=1", "--shutdown_timeout=2", "sh", "-c", command
        )
        self.wait_for_file("failed")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        self.assertIn(job.returncode, (7, 128 + signal.SIGTERM))
        self.assertFalse(os.path.exists(self.path("again")))
        self.assert_nothing_left()

    def test_pauses_before_a_third_attempt_of_workers_that_fail_at_once(self):
        begin = time.monotonic()
        self.run_ddprun("--max_restarts=2", "sh", "-c", "exit 1")
        self.assertGreaterEqual(time.monotonic() - begin, 0.25)

    def test_has_a_fresh_fork_of_the_template(self):
        command = ATTEMPT + 'echo "$ATTEMPT $PPID"; test "$ATTEMPT" = 2'
        config = self.script("job.json", json.dumps({"command": ["sh", "-c", command]}))
        job = self.run_ddprun("--max_restarts=2", config)
        self.assertEqual(job.returncode, 0, job.err)
        agent = job.pid
        self.assertEqual(job.out.splitlines(), [f"{i} {agent}" for i in range(3)])
        self.assert_nothing_left()

    def test_starts_the_template_anew_if_it_was_killed(self):
        os.mkfifo(self.path("fifo"))
        command = ATTEMPT + WRITE_PID + (
            'test "$ATTEMPT" = 1 || { read line < "$FOLDER/fifo"; exit 9; }'
        )
        config = self.script("job.json", json.dumps({"command": ["sh", "-c", command]}))
        job = self.start("--max_restarts=1", config)
        self.pid_in("pid.0.0")
        templates = [
            pid for pid in harness.processes_with(self.mark) if b"--template" in cmdline(pid)
        ]
        self.assertEqual(len(templates), 1)
        os.kill(templates[0], signal.SIGKILL)
        harness.wait_until(
            lambda: not os.path.exists(f"/proc/{templates[0]}"), "the agent to notice"
        )
        with open(self.path("fifo"), "w") as fifo:
            fifo.write("go\n")
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        self.assert_nothing_left()


class TwoNodes(harness.LauncherTest):
    def start_nodes(self, *args, per_node=((), ())):
        port = harness.unused_port()
        return [
            self.start(
                "--nnodes=2",
                f"--node_rank={node}",
                f"--master_port={port}",
                *per_node[node],
                *args,
            )
            for node in (0, 1)
        ]

    def test_restart_together_with_one_count(self):
        for failing in (0, 1):
            with self.subTest(failing_node=failing):
                command = ATTEMPT + (
                    'echo "$RANK $ATTEMPT"; touch "$FOLDER/up.$RANK.$ATTEMPT"; '
                    f'test "$RANK" = {failing} || exec sleep 1000; '
                    f'while ! test -e "$FOLDER/up.{1 - failing}.$ATTEMPT"; do sleep 0.01; done; '
                    'exit 6'
                )
                nodes = self.start_nodes("--max_restarts=2", "sh", "-c", command)
                for rank, node in enumerate(nodes):
                    self.finish(node)
                    self.assertEqual(node.returncode, 6, node.err)
                    self.assertEqual(node.out.splitlines(), [f"{rank} {i}" for i in range(3)])
                    self.assertEqual(len(one_line_each(node.err, "restart ")), 2, node.err)
                self.assert_nothing_left()
                for name in os.listdir(self.folder):
                    if name.startswith("up."):
                        os.remove(self.path(name))

    def test_run_workers_again_that_had_ended_well(self):
        command = ATTEMPT + (
            'echo "$ATTEMPT"; test "$RANK" = 0 && { touch "$FOLDER/ended.$ATTEMPT"; exit 0; }; '
            'while ! test -e "$FOLDER/ended.$ATTEMPT"; do sleep 0.01; done; '
            'test "$ATTEMPT" = 1 || exit 4'
        )
        nodes = self.start_nodes("--max_restarts=1", "sh", "-c", command)
        for node in nodes:
            self.finish(node)
            self.assertEqual((node.returncode, node.out), (0, "0\n1\n"), node.err)

    def test_both_end_when_one_template_refuses_the_config_before_the_other_node_joins(self):
        config = self.script("job.json", json.dumps({"command": ["sleep", "1000"]}))
        bad = self.script("bad.json", json.dumps({}))
        port = harness.unused_port()
        flags = ("--nnodes=2", f"--master_port={port}")
        refusing = self.start(*flags, "--node_rank=1", bad)
        self.assertIn("no command", refusing.stderr.readline())
        other = self.start(*flags, "--node_rank=0", config)
        for node in (refusing, other):
            self.finish(node)
            self.assertEqual(node.returncode, 2, node.err)
        self.assertIn("could not start its workers", other.err)
        self.assert_nothing_left()


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    harness.main()
