"""One chaos run: starts what a plan says, hits the victim, and looks at everything afterwards."""

import json
import os
import re
import signal
import socket
import sys
import time

import chaos_plan
import harness

HERE = os.path.dirname(os.path.abspath(__file__))
# Longer than the workers, which only sleep, do so before one is frozen or after they are released.
HANG_TIMEOUT_S = 4
TRAINER = os.environ.get("DDPRUN_CHAOS_TRAINER", "")


def stat_fields(pid):
    """The fields of /proc/PID/stat from the third (the state) on; None once it has gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def is_running(pid):
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in "ZX"


def children(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(name)
            if fields is not None and int(fields[1]) == pid:
                found.append(int(name))
    return sorted(found)


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError:
            return False
    return True


class ChaosJob(harness.LauncherTest):
    """Fixture verbs; `run_plan` is the whole of a run."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("pids"))
        self.ports = set()
        self.known = {}  # pid: start time, of everything that said who it is
        self.system_v_before = read_bytes("/proc/sysvipc/shm")

    def target(self, plan):
        style = ("plain", "session", "cleared")[plan.seed % 3]
        shell = ["sh", os.path.join(HERE, "chaos_worker.sh"), self.sleep_mark, style]
        if plan.kind == "shell":
            return shell
        if plan.kind == "python":
            return [sys.executable, os.path.join(HERE, "chaos_worker.py"), *shell[2:]]
        if plan.kind == "template":
            return [self.script("job.json", json.dumps({"command": shell}))]
        return [self.script("job.json", json.dumps(self.trainer_config()))]

    def trainer_config(self):
        """Steps of some milliseconds, for some seconds."""
        text = self.script("text.txt", "All work and no play makes a dull boy. " * 2000)
        return {
            "run": {"name": "chaos", "output_dir": self.path("runs"), "max_steps": 600},
            "model": {
                "type": "gpt",
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
            },
            "data": {"train_files": [text], "max_seq_length": 32},
            "training": {"per_device_train_batch_size": 2},
            "report": {"logging_steps": 1},
        }

    def start_job(self, plan):
        env = {"DDPRUN_TRAINER": TRAINER} if plan.kind == "trainer" else {}
        self.port = harness.unused_port()
        if len(plan.nproc) > 1:
            self.ports.add(self.port)
        self.nodes = []
        for node in range(len(plan.nproc)):
            self.start_node(plan, node, env)

    def start_node(self, plan, node, env=None):
        flags = [f"--nproc_per_node={plan.nproc[node]}", f"--max_restarts={plan.max_restarts}"]
        flags.append("--shutdown_timeout=5")
        if plan.hangs:
            flags.append(f"--hang_timeout={HANG_TIMEOUT_S}")
        if len(plan.nproc) > 1:
            flags += self.node_flags(plan, node)
        # Into files: nothing waits for a pipe that a survivor might hold.
        number = len(self.nodes)
        with open(self.path(f"out.{number}"), "w") as out:
            with open(self.path(f"err.{number}"), "w") as err:
                job = self.start(*flags, *self.target(plan), env=env or {}, stdout=out, stderr=err)
        self.addCleanup(self.put_to_rest, job)
        self.nodes.append(job)

    def node_flags(self, plan, node):
        if plan.backend == "c10d":
            conf = f"is_host={int(node == 0)},last_call_timeout=0.05,join_timeout=60"
            return [
                f"--nnodes={plan.min_nodes}:{len(plan.nproc)}",
                "--rdzv_backend=c10d",
                f"--rdzv_endpoint=127.0.0.1:{self.port}",
                f"--rdzv_id=chaos{plan.seed}",
                f"--rdzv_conf={conf}",
                f"--node_rank={node}",
            ]
        return [
            f"--nnodes={len(plan.nproc)}",
            f"--node_rank={node}",
            "--master_addr=127.0.0.1",
            f"--master_port={self.port}",
        ]

    def put_to_rest(self, job):
        if job.poll() is None:
            job.kill()
            job.wait()

    def err(self, node):
        with open(self.path(f"err.{node}"), errors="replace") as file:
            return file.read()

    # The processes of a job.

    def worker_pids(self, plan, node, local_rank, attempt=0):
        """(pid, pid of its child) as the worker has written them; None before that."""
        text = read_bytes(self.path(f"pids/{node}.{local_rank}.{attempt}"))
        return tuple(map(int, text.split()[:2])) if text else None

    def trainer_pids(self, plan):
        """The ranks that ddp-trainer's template has forked: they have mapped the node's memory."""
        return [
            pid
            for pid in children(self.nodes[0].pid)
            if b"ddprun-node-memory" in read_bytes(f"/proc/{pid}/maps")
        ]

    def has_ended(self, plan):
        """Whether a node has that nobody has killed on purpose."""
        return any(
            job.poll() is not None
            for node, job in enumerate(self.nodes)
            if node != plan.node or not plan.is_replaced
        )

    def all_running(self, plan, attempt=0):
        if plan.kind == "trainer":
            return "step" in read_bytes(self.path("out.0")).decode(errors="replace")
        return all(
            self.worker_pids(plan, node, local_rank, attempt)
            for node, nproc in enumerate(plan.nproc)
            for local_rank in range(nproc)
        )

    def template_pid(self, plan):
        workers = self.trainer_pids(plan) if plan.kind == "trainer" else []
        for pid in children(self.nodes[plan.node].pid):
            if pid not in workers and b"--template" in read_bytes(f"/proc/{pid}/cmdline"):
                return pid
        return None

    def victim_pid(self, plan):
        agent = self.nodes[plan.node].pid
        if plan.victim == "agent":
            return agent
        if plan.victim == "guard":
            return next(
                (pid for pid in children(agent) if b"guard" in read_bytes(f"/proc/{pid}/comm")),
                None,
            )
        if plan.victim == "template":
            return self.template_pid(plan)
        if plan.kind == "trainer":
            return self.trainer_pids(plan)[plan.local_rank]
        pids = self.worker_pids(plan, plan.node, plan.local_rank)
        return pids[0 if plan.victim == "worker" else 1] if pids else None

    def remember_everyone(self):
        """Keeps the pids that the workers have written so far, for the search afterwards."""
        for name in os.listdir(self.path("pids")):
            words = read_bytes(self.path("pids/" + name)).split()
            if name.endswith(".tmp") or len(words) != 3:
                continue
            self.ports.add(int(words[2]))
            for pid in map(int, words[:2]):
                fields = stat_fields(pid)
                if fields is not None:
                    self.known.setdefault(pid, fields[19])

    def is_still_there(self, pid):
        """Whether it runs and is the process that had this pid before."""
        fields = stat_fields(pid)
        return fields is not None and fields[0] not in "ZX" and fields[19] == self.known[pid]

    # The events of a plan.

    def hit(self, plan):
        """Returns the victim's pid; None if it had gone before."""
        pid = self.victim_pid(plan)
        if pid is None or not is_running(pid):
            return None
        first = {"kill": signal.SIGKILL, "stop": signal.SIGTERM}.get(plan.action, signal.SIGSTOP)
        try:
            os.kill(pid, first)
            if plan.action.startswith("freeze and"):
                time.sleep(plan.frozen_s)
                wake = plan.action == "freeze and wake"
                os.kill(pid, signal.SIGCONT if wake else signal.SIGKILL)
        except ProcessLookupError:
            return None
        return pid

    def release(self):
        with open(self.path("finish"), "w"):
            pass

    def run_plan(self, plan):
        """Returns (pid of the victim or None, seconds from the hit to the job's end)."""
        self.start_job(plan)
        if plan.when != "start":
            harness.wait_until(
                lambda: self.all_running(plan) or any(n.poll() is not None for n in self.nodes),
                "all workers to run",
            )
            self.remember_everyone()
        if plan.when == "end":
            self.release()
        time.sleep(plan.delay_s)
        victim = self.hit(plan)
        hit_at = time.monotonic()
        if plan.is_replaced:
            self.start_node(plan, plan.node)
        restarts = plan.victim == "worker" and plan.deadly and plan.max_restarts > 0
        if plan.is_replaced or (restarts and plan.when == "run"):
            self.wait_for_second_attempt(plan)
        ends_by_itself = chaos_plan.job_fails(plan) and victim is not None
        if not ends_by_itself:
            self.release()
        for node, job in enumerate(self.nodes):
            try:
                job.wait(harness.DEADLINE_S)
            except Exception:
                self.fail(f"node {node} did not end: {self.everything(plan)}")
        self.remember_everyone()
        return victim, time.monotonic() - hit_at

    def wait_for_second_attempt(self, plan):
        if plan.kind == "trainer":
            return
        try:
            harness.wait_until(
                lambda: self.all_running(plan, attempt=1) or self.has_ended(plan),
                "the second attempt",
            )
        except AssertionError as error:
            self.fail(f"{error}: {self.everything(plan)}")

    # The checks after them.

    def check(self, plan, victim):
        codes = [job.returncode for job in self.nodes]
        accepted = chaos_plan.accepted_codes(plan)
        if victim is None:
            accepted = [{0} for _ in codes]
        elif plan.is_replaced:
            accepted.append({0})
        for node, code in enumerate(codes):
            self.assertIn(code, accepted[node], f"node {node} of {self.everything(plan)}")
        if victim is not None and plan.hangs:
            self.check_hang(plan, victim, codes[0])
        elif victim is not None and plan.victim == "worker" and plan.deadly and not plan.stops_well:
            self.check_first_cause(plan, victim, codes)
        if all(code == 0 for code in codes) and not (plan.hangs and victim is not None):
            for node in range(len(codes)):
                self.assertNotIn("-- ", self.err(node), "a job that went well complains")
        self.check_nothing_left(plan)

    def check_first_cause(self, plan, victim, codes):
        who = rf"local_rank: {plan.local_rank}\b" if plan.kind != "trainer" else "local_rank: "
        for node, code in enumerate(codes):
            text = self.err(node)
            if code == 0 and (plan.when == "end" or node != plan.node):
                continue
            self.assertRegex(text, rf"pid: {victim}\)", self.everything(plan))
            self.assertRegex(text, who, self.everything(plan))
            if code != 0:
                title = "WORKER FAILED" if node == plan.node else "ANOTHER NODE FAILED"
                self.assertIn(title, text, self.everything(plan))
                report = text[text.index(title) :]
                first = re.search(r"pid: (\d+)", report)
                self.assertEqual(int(first[1]), victim, self.everything(plan))

    def check_hang(self, plan, victim, code):
        if code == 0 and plan.when == "end":
            return  # it may have ended just before
        text = self.err(0)
        self.assertIn("no worker has moved for", text, self.everything(plan))
        if code != 0:
            self.assertIn("-- WORKERS HANG", text, self.everything(plan))
            frozen = rf"rank \d+ \(local_rank: \d+, pid: {victim}\) .*state [Tt]"
            self.assertRegex(text, frozen, self.everything(plan))

    def check_nothing_left(self, plan):
        try:
            self.assert_nothing_left()
            harness.wait_until(
                lambda: not any(self.is_still_there(pid) for pid in self.known),
                "the workers and their children to end",
            )
            for port in self.ports:
                harness.wait_until(lambda p=port: is_free(p), f"port {port} to be free")
            self.assertEqual(read_bytes("/proc/sysvipc/shm"), self.system_v_before)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.everything(plan)}") from None

    def everything(self, plan):
        text = f"{plan}\n"
        for node, job in enumerate(self.nodes):
            text += f"--- node {node} (pid {job.pid}, exit {job.returncode}), stderr:\n"
            text += self.err(node)
        return text
