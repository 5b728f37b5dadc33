"""ddprun --hostfile with a real sshd, whose keys, port and configuration are the test's own.

Addresses of 127/8 are the hosts: ssh reaches all of them, and localhost gets its agent without ssh.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
WORKER = """
import glob, json, os, sys
secret = os.environ["A_SECRET"].encode()
seen = []
for path in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        with open(path, "rb") as file:
            seen.append(secret in file.read())
    except OSError:
        pass
place = [int(os.environ[name]) for name in "RANK WORLD_SIZE LOCAL_RANK GROUP_RANK".split()]
print("PLACE " + json.dumps([place, sys.argv[1:], os.getcwd(), os.environ["A_SECRET"],
                             any(seen)]), flush=True)
"""
WAITS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
folder = os.environ["FOLDER"]
open(f"{folder}/started-{os.environ['RANK']}", "w").close()
while True:
    time.sleep(0.02)  # a signal just before a long sleep would wait for its end
"""

# Starts no process: a shell that has just begun one is not stopped, but waits for it.
WAITS_FOR_END = """
import os, time
name = f"{os.environ['FOLDER']}/pid.{os.environ['RANK']}"
with open(name + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(name + ".new", name)
while not os.path.exists(os.environ["FOLDER"] + "/end"):
    time.sleep(0.02)
"""


class HostfileTest(harness.LauncherTest):
    @classmethod
    def setUpClass(cls):
        cls.sshd_folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.sshd_folder.cleanup)
        folder = cls.sshd_folder.name
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"],
                           check=True)
        # The privilege separation of a root's sshd needs this folder.
        if os.geteuid() == 0 and not os.path.exists("/run/sshd"):
            os.mkdir("/run/sshd", 0o755)
            cls.addClassCleanup(os.rmdir, "/run/sshd")
        port = harness.unused_port()
        with open(f"{folder}/sshd_config", "w") as file:
            file.write(f"Port {port}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\n"
                       f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
                       "StrictModes no\nPidFile none\nUsePAM no\n")
        with open(f"{folder}/ssh_config", "w") as file:
            file.write(f"Host *\nPort {port}\nIdentityFile {folder}/user\nBatchMode yes\n"
                       f"UserKnownHostsFile {folder}/known\nIdentitiesOnly yes\n")
        with open(f"{folder}/host.pub") as file:
            key = " ".join(file.read().split()[:2])
        with open(f"{folder}/known", "w") as file:
            file.write("".join(f"[127.0.0.{i}]:{port} {key}\n" for i in (2, 3, 4)))
        with open(f"{folder}/sshd.log", "w") as log:
            sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", f"{folder}/sshd_config"], stderr=log)
        cls.addClassCleanup(sshd.wait)
        cls.addClassCleanup(sshd.terminate)
        cls.ssh = f"ssh -F {folder}/ssh_config"

        def answers():
            return subprocess.run([*cls.ssh.split(), "127.0.0.2", "true"], check=False,
                                  stderr=subprocess.DEVNULL).returncode == 0
        harness.wait_until(answers, lambda: open(f"{folder}/sshd.log").read())

    def hosts(self, *lines):
        return ("--hostfile=" + self.script("hosts", "\n".join(lines) + "\n"),
                "--ssh_command=" + self.ssh)

    def start_waiting(self, *hosts, ranks):
        process = self.start(*self.hosts(*hosts), self.script("waits.py", WAITS))
        for rank in range(ranks):
            self.wait_for_file(f"started-{rank}")
        return process

    def test_one_job_of_all_hosts_with_folder_arguments_and_variables(self):
        folder = self.path("a folder with 'quotes' and $HOME")
        os.mkdir(folder)
        words = ["two words", "it's", '"', "$HOME `id`", "a\nb", "", "*", "\\"]
        secret = "secret'\"\n$x " + self.mark
        more_than_a_pipe_holds = {f"PADDING_{i}": "x" * 100_000 for i in range(3)}
        done = self.run_ddprun(
            *self.hosts("# all hosts", "127.0.0.2 slots=2", "", "localhost  # no slots",
                        "127.0.0.3 slots=1 max_slots=4"),
            self.script("worker.py", WORKER), *words, cwd=folder,
            env={"A_SECRET": secret, **more_than_a_pipe_holds})
        self.assertEqual(done.returncode, 0, done.out + done.err)
        found = sorted(json.loads(line.partition("PLACE ")[2])
                       for line in done.out.splitlines() if "PLACE " in line)
        places = [[0, 4, 0, 0], [1, 4, 1, 0], [2, 4, 0, 1], [3, 4, 0, 2]]
        self.assertEqual(found, [[place, words, folder, secret, False] for place in places])
        self.assert_nothing_left()

    def test_a_job_has_a_token_that_no_worker_sees_and_no_stranger_has(self):
        place = f"--rdzv_endpoint=127.0.0.2:{harness.unused_port()}"
        flags = "--rdzv_backend=c10d", place
        job = self.start(*self.hosts("127.0.0.2", "127.0.0.3"), *flags, "--no_python", "sh", "-c",
                         'env > "$FOLDER/env-$RANK"; : > "$FOLDER/started-$RANK"; '
                         f"exec sleep 100.{self.sleep_mark}")
        for rank in (0, 1):
            self.wait_for_file(f"started-{rank}")
            with open(self.path(f"env-{rank}")) as file:
                self.assertNotIn("DDPRUN_TOKEN", file.read())
        stranger = self.run_ddprun("--nnodes=2", *flags, "--rdzv_conf=is_host=0", "true")
        self.assertEqual(stranger.returncode, 3, stranger.err)
        self.assertIn("this port wants a token", stranger.err)
        job.send_signal(signal.SIGINT)
        self.finish(job)
        self.assertIn("it came without a token", job.err)
        self.assert_nothing_left()

    def test_a_host_that_ssh_cannot_reach_ends_the_job_with_its_name(self):
        # 127.0.0.4 refuses connections: sshd does not listen there.
        done = self.run_ddprun(*self.hosts("127.0.0.2", "127.0.0.4", "localhost"),
                               self.script("waits.py", WAITS))
        self.assertEqual(done.returncode, 3, done.out + done.err)
        self.assertIn("NO AGENT ON HOST", done.err)
        self.assertRegex(done.err, r"ssh: connect to host 127.0.0.4 port \d+: Connection refused")
        self.assert_nothing_left()

    def test_an_elastic_job_does_without_a_host_that_cannot_be_reached(self):
        done = self.run_ddprun(*self.hosts("127.0.0.2", "127.0.0.4"), "--nnodes=1:2",
                               "--rdzv_conf=last_call_timeout=1", "--no_python", "true")
        self.assertEqual(done.returncode, 0, done.out + done.err)
        self.assertIn("127.0.0.4", done.err)
        self.assert_nothing_left()

    def test_the_first_host_may_be_lost_if_the_job_meets_elsewhere(self):
        token = self.run_ddprun("token").out.strip()
        store = self.start("store", "--host=127.0.0.1", "--port=0", env={"DDPRUN_TOKEN": token})
        self.addCleanup(store.kill)
        place = store.stdout.readline().split()[-1]
        done = self.run_ddprun(*self.hosts("127.0.0.4", "127.0.0.2", "127.0.0.3"), "--nnodes=2:3",
                               f"--rdzv_endpoint={place}", "--rdzv_conf=last_call_timeout=1",
                               "--no_python", "true", env={"DDPRUN_TOKEN": token})
        self.assertEqual(done.returncode, 0, done.out + done.err)
        self.assertIn("NO AGENT ON HOST", done.err)
        store.kill()
        store.communicate()
        self.assert_nothing_left()

    def test_the_exit_code_is_that_of_the_first_worker_that_fails(self):
        for code in (41, 255):
            with self.subTest(code=code):
                done = self.run_ddprun(
                    *self.hosts("127.0.0.2", "127.0.0.3"), "--no_python", "sh", "-c",
                    f'test "$RANK" = 0 && exec sleep 100.{self.sleep_mark}; exit {code}')
                self.assertEqual(done.returncode, code, done.out + done.err)
                self.assertNotIn("NO AGENT ON HOST", done.err)
                self.assert_nothing_left()

    def test_an_agent_that_fails_before_the_nodes_meet_ends_the_others(self):
        # Only the agents find this error, because no host of the list is this machine.
        done = self.run_ddprun(*self.hosts("127.0.0.2", "127.0.0.3"), "absent.py")
        self.assertEqual(done.returncode, 127, done.out + done.err)
        self.assert_nothing_left()

    def test_signals_end_all_agents(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=number):
                process = self.start_waiting("127.0.0.2", "127.0.0.3", "localhost", ranks=3)
                process.send_signal(number)
                done = self.finish(process)
                self.assertEqual(done.returncode, code, done.out + done.err)
                self.assert_nothing_left()
                for rank in range(3):
                    os.unlink(self.path(f"started-{rank}"))

    def test_a_killed_starter_leaves_no_agent(self):
        process = self.start_waiting("127.0.0.2", "localhost", ranks=2)
        process.kill()
        process.communicate(timeout=harness.DEADLINE_S)
        self.assert_nothing_left()

    def test_a_killed_ssh_ends_the_job(self):
        process = self.start_waiting("127.0.0.2", "127.0.0.3", ranks=2)
        children = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "127.0.0.3"], text=True,
                                  capture_output=True, check=True)
        os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
        done = self.finish(process)
        self.assertNotEqual(done.returncode, 0, done.out + done.err)
        self.assertIn("the connection to 127.0.0.3 ended, because ssh was killed by SIGKILL",
                      done.err)
        self.assert_nothing_left()

    def test_a_signal_ends_the_start_of_a_host_that_does_not_read(self):
        ssh = self.script("ssh.sh", "printf '\\nddprun is ready on this host\\n'; "
                          "head -c 1 > /dev/null; touch \"$FOLDER/read\"; "
                          f"exec sleep 1000.{self.sleep_mark}\n")
        process = self.start("--hostfile=" + self.script("hosts", "127.0.0.2\n127.0.0.3\n"),
                             f"--ssh_command=sh {ssh}", "train.py",
                             env={f"PADDING_{i}": "x" * 100_000 for i in range(3)})
        self.wait_for_file("read")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process).returncode, 130, process.err)
        self.assert_nothing_left()

    def test_stops_with_its_agents_and_goes_on(self):
        process = self.start(*self.hosts("127.0.0.2", "localhost"),
                             self.script("worker.py", WAITS_FOR_END))
        family = [process.pid, self.pid_in("pid.0"), self.pid_in("pid.1")]

        def stopped():
            return [harness.state_of(pid) == "T" for pid in family]
        process.send_signal(signal.SIGTSTP)
        harness.wait_until(lambda: all(stopped()), lambda: f"all to stop: {stopped()}")
        process.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: not any(stopped()), "all to go on")
        open(self.path("end"), "w").close()
        self.assertEqual(self.finish(process).returncode, 0, process.err)
        self.assert_nothing_left()

    def test_a_dry_run_shows_the_commands_and_checks_the_config(self):
        trainer = self.script("trainer", '#!/bin/sh\necho "checked: $*"\nexit 2\n')
        os.chmod(trainer, 0o755)
        config = self.script("train.json", "{}")
        for lines, ranks in ((("127.0.0.2 slots=2", "127.0.0.3 slots=2"), (2, 2)),
                             (("127.0.0.2 slots=3", "127.0.0.3"), (4, 1))):
            with self.subTest(lines=lines):
                done = self.run_ddprun(*self.hosts(*lines), "--dry_run", config,
                                       env={"DDPRUN_TRAINER": trainer})
                self.assertEqual(done.returncode, 2, done.err)
                self.assertIn("127.0.0.3 exec", done.out)
                self.assertIn("checked: check " + config, done.err)
                self.assertIn(f"--nproc_per_node={ranks[0]} --nnodes={ranks[1]}", done.err)

    def test_what_contradicts_the_list_is_refused_before_a_start(self):
        for flags, text in ((["--standalone"], "FLAGS CONTRADICT"),
                            (["--node_rank=1"], "FLAGS CONTRADICT"),
                            (["--nnodes=3"], "--nnodes is 3")):
            with self.subTest(flags=flags):
                done = self.run_ddprun(*self.hosts("127.0.0.2", "127.0.0.3"), *flags,
                                       self.script("worker.py", "open('ran', 'w')"))
                self.assertEqual(done.returncode, 2, done.err)
                self.assertIn(text, done.err)
        done = self.run_ddprun(*self.hosts("127.0.0.2", "127.0.0.3"), "train.py",
                               env={"SLURM_STEP_NUM_TASKS": "2"})
        self.assertIn("srun has started several", done.err)
        for line in ("-oProxyCommand=x", "a;b", "a slots=0", "a slots=x", "a cores=2"):
            with self.subTest(line=line):
                done = self.run_ddprun(*self.hosts("127.0.0.2", line), "train.py")
                self.assertEqual(done.returncode, 2, done.err)
                self.assertIn("hosts:2", done.err)
        done = self.run_ddprun(*self.hosts("# none"), "train.py")
        self.assertIn("The file has no host.", done.err)
        done = self.run_ddprun(f"--hostfile={self.folder}", "train.py")
        self.assertEqual(done.returncode, 2, done.err)
        self.assertFalse(os.path.exists(self.path("ran")))


if __name__ == "__main__":
    missing = [name for name, path in (("sshd", SSHD), ("ssh", shutil.which("ssh"))) if not path]
    if missing:
        print(f"SKIPPED: no {missing[0]}: install openssh-server")
        sys.exit(77)
    unittest.main(verbosity=2)
