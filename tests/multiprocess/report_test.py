"""The report when a job has ended: on standard error, and its twin in a file."""

import json
import os
import pathlib
import re
import signal
import socket

import harness

SCHEMA = pathlib.Path(__file__).parents[2] / "docs" / "report_file.schema.json"
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def violations(value, schema, root, path="report"):
    """Returns how the value breaks the JSON Schema, of which it knows what ours uses, and unknown
    fields."""
    if "$ref" in schema:
        return violations(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path)
    if "const" in schema or "enum" in schema:
        accepted = schema.get("enum", [schema.get("const")])
        return [] if value in accepted else [f"{path}: {value!r} is none of {accepted}"]
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is TYPES[name] for name in names):
        return [f"{path}: {value!r} is no {names}"]
    found = []
    if isinstance(value, dict):
        properties = schema["properties"]
        found += [f"{path}.{name} is missing" for name in schema["required"] if name not in value]
        found += [f"{path}.{name} is unknown" for name in value if name not in properties]
        for name in set(value) & set(properties):
            found += violations(value[name], properties[name], root, f"{path}.{name}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            found += violations(item, schema["items"], root, f"{path}[{index}]")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path}: {value!r} does not match {schema['pattern']}")
    return found


class ReportTest(harness.LauncherTest):
    def report(self, name="report.json"):
        with open(self.path(name)) as file:
            report = json.load(file)
        schema = json.loads(SCHEMA.read_text())
        self.assertEqual(violations(report, schema, schema), [])
        return report


class LogLines(ReportTest):
    def test_are_shown_by_level_and_the_flag_wins(self):
        env = {**os.environ, "LOGLEVEL": "ERROR"}
        job = self.run_ddprun("--log_level=debug", "true", env=env)
        self.assertIn("[ddprun n0] debug: worker exited with code 0 rank=0", job.err)
        self.assertEqual(self.run_ddprun("--max_restarts=1", "false", env=env).err.count("["), 0)

    def test_go_to_a_file_with_times_and_debug_lines(self):
        for _ in range(2):
            job = self.run_ddprun("--log_file=logs/agent.log", "true")
            self.assertEqual((job.returncode, job.err), (0, ""))
        with open(self.path("logs/agent.log")) as file:
            lines = file.read().splitlines()
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z debug \[ddprun n0\] ")
        self.assertEqual(sum("worker started rank=0" in line for line in lines), 2)

    def test_have_the_time_when_asked(self):
        job = self.run_ddprun("--log_time", "--max_restarts=1", "false")
        self.assertRegex(job.err, r"^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z \[ddprun n0\] warning: ")

    def test_that_cannot_be_written_are_refused_before_a_worker_starts(self):
        job = self.run_ddprun("--log_file=/proc/none/log", "touch", self.path("started"))
        self.assertEqual(job.returncode, 2)
        self.assertIn("-- LOG FILE ", job.err)
        self.assertFalse(os.path.exists(self.path("started")))

    def test_before_a_failure_are_in_the_report(self):
        job = self.run_ddprun("--report_file=report.json", "sh", "-c", "kill -9 $$")
        self.assertNotIn("debug", job.err)
        lines = [line.partition("[ddprun n0] ")[2] for line in self.report()["launcher_log"]]
        pid = self.report()["first_cause"]["worker"]["pid"]
        self.assertIn(f"worker started rank=0 local_rank=0 pid={pid}", lines)
        self.assertIn(f"worker was killed by SIGKILL rank=0 pid={pid}", lines)


class ReportFile(ReportTest):
    def run_job(self, *args, **options):
        return self.run_ddprun("--report_file=report.json", *args, **options)

    def test_of_a_job_that_went_well(self):
        job = self.run_job("--nproc_per_node=2", "true")
        self.assertEqual((job.returncode, job.err), (0, ""))
        report = self.report()
        self.assertEqual((report["result"], report["exit_code"]), ("succeeded", 0))
        self.assertIsNone(report["first_cause"])
        workers = report["attempts"][0]["workers"]
        self.assertEqual([worker["exit"]["code"] for worker in workers], [0, 0])
        self.assertLessEqual(report["started_at"], workers[0]["started_at"])
        self.assertLessEqual(workers[0]["started_at"], workers[0]["ended_at"])
        self.assertLessEqual(workers[0]["ended_at"], report["ended_at"])

    def test_names_the_first_failure_of_each_attempt(self):
        command = 'test "$RANK" = 1 || exec sleep 1000; echo boom >&2; exit 7'
        job = self.run_job("--nproc_per_node=2", "--max_restarts=1", "sh", "-c", command)
        self.assertEqual(job.returncode, 7)
        report = self.report()
        self.assertEqual([a["restart_count"] for a in report["attempts"]], [0, 1])
        for attempt in report["attempts"]:
            stopped, failed = attempt["workers"]
            self.assertEqual((failed["first_failure"], failed["exit"]["code"]), (True, 7))
            self.assertEqual((stopped["first_failure"], stopped["told_to_stop"]), (False, True))
            self.assertEqual(stopped["exit"]["signal_name"], "SIGTERM")
        self.assertEqual(report["first_cause"]["worker"]["pid"], failed["pid"])
        self.assertEqual(report["first_cause"]["worker"]["last_lines"], ["boom"])
        self.assertIn(f"(pid: {failed['pid']})", job.err)

    def test_of_a_job_that_was_told_to_stop(self):
        job = self.start(
            "--report_file=report.json", "sh", "-c", 'touch "$FOLDER/ready"; exec sleep 1000'
        )
        self.wait_for_file("ready")
        job.send_signal(signal.SIGTERM)
        self.finish(job)
        report = self.report()
        self.assertEqual((report["result"], report["stop_signal"]), ("stopped", "SIGTERM"))
        self.assertEqual(report["exit_code"], 128 + signal.SIGTERM)

    def test_of_a_job_that_could_not_be_started(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.run_job(f"--master_port={taken.getsockname()[1]}", "true")
        report = self.report()
        self.assertEqual((report["result"], report["attempts"]), ("failed", []))
        self.assertIn("PORT", report["launcher_error"]["title"])

    def test_that_cannot_be_written_is_refused_before_a_worker_starts(self):
        job = self.run_ddprun("--report_file=none/report.json", "touch", self.path("started"))
        self.assertEqual(job.returncode, 2)
        self.assertIn("none/report.json", job.err)
        self.assertFalse(os.path.exists(self.path("started")))

    def test_that_can_no_longer_be_written_does_not_change_the_result(self):
        os.mkdir(self.path("folder"))
        job = self.run_ddprun("--report_file=folder/report.json", "rmdir", self.path("folder"))
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(len(job.err.splitlines()), 1, job.err)
        self.assertIn("folder/report.json", job.err)

    def test_of_each_node_is_its_own_and_names_the_culprit(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = 'test "$RANK" = 1 || exec sleep 1000; echo boom >&2; exit 7'
        nodes = [
            self.start(
                "--nnodes=2",
                f"--node_rank={node}",
                f"--master_port={port}",
                "--report_file=report.json",
                "sh",
                "-c",
                command,
            )
            for node in (0, 1)
        ]
        for node in nodes:
            self.assertEqual(self.finish(node).returncode, 7)
        self.assertIn("  | boom\n", nodes[0].err)
        self.assertIn("Rank 1 on ", nodes[0].err)
        own = self.report("report.node1.json")["first_cause"]
        told = self.report("report.node0.json")["first_cause"]
        self.assertEqual(told["worker"], own["worker"])
        self.assertEqual((told["node_rank"], told["worker"]["exit"]["code"]), (1, 7))


class Report(ReportTest):
    def test_shows_where_standard_error_is_kept_and_more_of_it(self):
        command = "for i in $(seq 30); do echo line $i >&2; done; exit 9"
        logs = f"--log_dir={self.path('logs')}"
        job = self.run_ddprun("--redirects=2", logs, "sh", "-c", command)
        log = re.search(r"^  stderr    : (.+)$", job.err, re.MULTILINE)[1]
        with open(log) as file:
            self.assertEqual(len(file.readlines()), 30)
        self.assertIn("| line 11\n", job.err)

    def test_is_short_about_what_stands_right_above_it(self):
        command = "for i in $(seq 30); do echo line $i >&2; done; exit 9"
        job = self.run_ddprun("sh", "-c", command)
        report = job.err[job.err.index("-- WORKER FAILED") :]
        self.assertEqual(re.findall(r"\| line (\d+)\n", report), ["30"])

    def test_explains_a_shells_exit_code(self):
        job = self.run_ddprun("sh", "-c", "sh -c 'kill -SEGV $$'; exit $?")
        self.assertEqual(job.returncode, 128 + signal.SIGSEGV)
        self.assertIn("a program of it was killed by SIGSEGV", job.err)


if __name__ == "__main__":
    harness.main()
