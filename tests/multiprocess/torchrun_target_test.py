"""Both launchers read the command line alike, and workers get the same program and arguments."""

import os
import re
import sys

import harness
import torchrun_compare

# A worker without Python: what it was called and given, a line each.
SHELL_DUMP = """#!/bin/sh
for word in "$0" "$@" "$PWD" "$LOCAL_RANK of $LOCAL_WORLD_SIZE"; do
  echo "<$word>" >> "$FOLDER/shell.$RANK"
done
"""

WORDS = ["--lr=0.1", "--nproc_per_node", "9", "", "two words", "-m", "${local_rank}",
         "x$local_rank.y", "$$local_rank", "$HOME", "${HOME}", "${local_rank", "$", "--", "\u00e9"]


class TargetTest(torchrun_compare.CompareTest):
    def setUp(self):
        super().setUp()
        self.worker = self.script("worker.py", torchrun_compare.DUMP)

    def dumped(self, launcher, *leave_out):
        """Returns what each worker was given, without its environment."""
        return {
            rank: {
                name: self.plain(launcher, str(part))
                for name, part in value.items()
                if name not in ("env", *leave_out)
            }
            for rank, value in self.dumps(launcher).items()
        }

    def assert_same_dumps(self, *leave_out, workers=2):
        theirs = self.dumped("torchrun", *leave_out)
        self.assertEqual(len(theirs), workers)
        self.assertEqual(self.dumped("ddprun", *leave_out), theirs)

    def files(self, pattern, workers=2):
        """{launcher: [text of each worker's file]}."""
        return {
            launcher: [
                self.plain(launcher, self.contents(launcher, pattern.format(rank)) or "none")
                for rank in range(workers)
            ]
            for launcher in torchrun_compare.LAUNCHERS
        }


class Target(TargetTest):
    def test_gets_the_same_arguments_as_a_script(self):
        self.succeed("--nproc_per_node=2", self.worker, *WORDS)
        self.assert_same_dumps()
        self.assertIn("'x1.y'", self.dumped("ddprun")["1.0"]["argv"])

    def test_gets_the_same_arguments_as_a_module(self):
        for launcher in torchrun_compare.LAUNCHERS:
            os.makedirs(self.of(launcher, "package"))
            for name, text in (("__init__", ""), ("train", torchrun_compare.DUMP)):
                with open(self.of(launcher, "package", f"{name}.py"), "w") as file:
                    file.write(text)
        for flags in (["-m"], ["--module"]):
            self.succeed("--nproc_per_node=2", *flags, "package.train", *WORDS)
            self.assert_same_dumps()

    def test_gets_the_same_arguments_as_a_program(self):
        os.chmod(self.script("program", SHELL_DUMP), 0o755)
        self.succeed("--nproc_per_node=2", "--no_python", self.path("program"), *WORDS)
        written = self.files("shell.{}")
        self.assertIn("<x1.y>", written["ddprun"][1])
        self.assertEqual(written["ddprun"], written["torchrun"])

    def test_is_looked_up_in_path_as_a_program(self):
        words = ["-c", 'echo "$0 $LOCAL_RANK $1" > "$FOLDER/sh.$RANK"', "name", "${local_rank}"]
        self.succeed("--no-python", "--nproc_per_node=2", "sh", *words)
        written = self.files("sh.{}")
        self.assertEqual(written["ddprun"], ["name 0 0\n", "name 1 1\n"])
        self.assertEqual(written["torchrun"], written["ddprun"])

    def test_is_run_by_runpy_with_run_path(self):
        # torchrun does it in a child of multiprocessing, whose own sys.path has no script folder.
        self.succeed("--nproc_per_node=2", "--run_path", self.worker, "a", "--b", "${local_rank}")
        self.assert_same_dumps("path", "executable", "unbuffered")

    def test_is_run_by_the_interpreter_in_python_exec(self):
        text = '#!/bin/sh\necho "$@" > "$FOLDER/python.$RANK"\n'
        os.chmod(self.script("my_python", text), 0o755)
        env = {"PYTHON_EXEC": self.path("my_python")}
        self.succeed("--nproc_per_node=2", self.worker, "x", env=env)
        self.succeed("-m", "any.module", "x", env=env)
        written = self.files("python.{}")
        self.assertEqual(written["ddprun"], written["torchrun"])
        self.assertEqual(written["ddprun"][0], "-u -m any.module x\n")

    def test_reads_the_standard_input_of_the_launcher(self):
        text = self.script("input", "one line\n")
        command = 'cat > "$FOLDER/input.$RANK"'
        self.succeed("--no_python", "sh", "-c", command, stdin=text)
        written = self.files("input.{}", workers=1)
        self.assertEqual(written["ddprun"], ["one line\n"])
        self.assertEqual(written["torchrun"], written["ddprun"])

    def test_gets_local_rank_as_under_torch_distributed_launch(self):
        env = {"PYTHON_EXEC": sys.executable}
        for flags, ours in (([], ["--use_env=0"]), (["--use_env"], ["--use_env"])):
            words = ["--nproc_per_node=2", self.worker, "--lr", "1"]
            theirs = self.launch(
                "torchrun", *flags, *words, env=env, module="torch.distributed.launch"
            )
            self.assertEqual(theirs.wait().returncode, 0, theirs.err)
            job = self.launch("ddprun", *ours, *words, env=env).wait()
            self.assertEqual(job.returncode, 0, job.err)
            self.assert_same_dumps()
            given = "--local-rank=1" in self.dumped("ddprun")["1.0"]["argv"]
            self.assertEqual(given, not flags)

    def test_is_python_without_a_suffix(self):
        package = self.path("package")
        os.mkdir(package)
        for name in ("plain", "package/__main__.py"):
            self.script(name, torchrun_compare.DUMP)
        one_line = self.script("one_line", f"exec({torchrun_compare.DUMP!r})")
        for target in (self.path("plain"), package, one_line):
            with self.subTest(target=target):
                self.succeed("--nproc_per_node=2", target, *WORDS)
                self.assert_same_dumps()

    def test_may_be_what_torchrun_would_not_run(self):
        # Without --no_python: an executable that is no Python script runs as it is.
        os.chmod(self.script("program", SHELL_DUMP), 0o755)
        jobs = self.both("--nproc_per_node=2", self.path("program"))
        self.assertEqual(jobs["torchrun"].returncode, 1)
        self.assertEqual(jobs["ddprun"].returncode, 0, jobs["ddprun"].err)


class CommandLine(TargetTest):
    def test_takes_both_spellings_abbreviations_and_the_last_of_several(self):
        port = str(harness.unused_port())
        for flags in (
            ["--nproc-per-node=2", "--max-restarts", "2", "--rdzv-id=a"],
            ["--nproc_per", "2", "--max_r=2", "--rdzv_i", "a"],
            ["--nproc-p=5", "--nproc_per_node=2", "--max_restarts=9", "--max-restarts=2",
             "--rdzv-id", "b", "--rdzv_id=a"],
            ["--nproc_per_node=2", "--max_restarts=2", "--rdzv_id=a", "--master-p", port,
             "--master-a=127.0.0.1", "--monitor-i", "0.5", "--start_m=fork", "--rdzv_b=static",
             "--local_ad=127.0.0.1", "--node_r=0", "--rdzv_co=timeout=60"],
        ):
            with self.subTest(flags=flags):
                self.succeed(*flags, self.worker, "w", env={"OMP_NUM_THREADS": "1"})
                self.assert_same_dumps()
                for launcher in torchrun_compare.LAUNCHERS:
                    env = self.dumps(launcher)["1.0"]["env"]
                    self.assertEqual(env["TORCHELASTIC_MAX_RESTARTS"], "2")
                    self.assertEqual(env["TORCHELASTIC_RUN_ID"], "a")

    def test_takes_every_flag_of_torchrun(self):
        flags = [
            "--nnodes=1:1", "--nproc-per-node=2", "--rdzv-backend=c10d",
            "--rdzv-endpoint=localhost:0", "--rdzv-id=all", "--max-restarts=1",
            "--rdzv-conf=join_timeout=60,last_call_timeout=1,close_timeout=3,read_timeout=60,"
            "heartbeat_timeout=5,keep_alive_interval=5,keep_alive_max_attempt=3,is_host=1,"
            "store_type=tcp,timeout=900",
            "--monitor-interval=0.1", "--start-method=spawn", "--event-log-handler=null",
            "--role=all", "--log-dir=logs", "--redirects=3", "--tee=0:1",
            "--local-ranks-filter=0,1", "--duplicate-stdout-filters=a,b",
            "--duplicate-stderr-filters=c", "--node-rank=0", "--master-addr=127.0.0.1",
            "--master-port=0", "--local-addr=127.0.0.1", "--signals-to-handle=SIGTERM,SIGINT",
            "--virtual-local-rank",
        ]
        self.succeed(*flags, self.worker)
        self.assert_same_dumps()
        self.succeed("-r", "1", "-t", "0:3,1:2", "--standalone", *flags[1:2], self.worker)
        self.assert_same_dumps()

    def test_refuses_what_torchrun_refuses_with_the_same_code(self):
        for flags in (
            ["--no_such_flag", self.worker],
            ["--nproc_per_node"],
            ["--rdzv"],  # ambiguous
            [],
            ["--max_restarts=many", self.worker],
            ["--monitor_interval=soon", self.worker],
            ["--start_method=magic", self.worker],
            ["--numa_binding=moon", self.worker],
            ["--master_port=here", self.worker],
        ):
            with self.subTest(flags=flags):
                jobs = self.both(*flags)
                self.assertEqual(jobs["torchrun"].returncode, 2, jobs["torchrun"].err)
                self.assertEqual(jobs["ddprun"].returncode, 2, jobs["ddprun"].err)

    def test_refuses_as_a_usage_error_where_torchrun_ends_with_a_traceback(self):
        for flags in (
            ["--nnodes=0"], ["--nnodes=3:2"], ["--nnodes=two"], ["--nproc_per_node=some"],
            ["--max_restarts=-1"], ["-r", "7"], ["--tee=a"],
            ["--local_ranks_filter=a"], ["--rdzv_conf=join_timeout"],
            ["--rdzv_backend=pigeon"], ["--module", "--no_python"],
        ):
            with self.subTest(flags=flags):
                jobs = self.both(*flags, self.worker)
                self.assertEqual(jobs["torchrun"].returncode, 1, jobs["torchrun"].err)
                self.assertEqual(jobs["ddprun"].returncode, 2, jobs["ddprun"].err)
                self.assertNotIn("Traceback", jobs["ddprun"].err)

    def test_takes_log_rules_for_ranks_above_nine_which_torchrun_refuses(self):
        jobs = self.both("--nproc_per_node=2", "-r", "10:3", self.worker)
        self.assertEqual(jobs["torchrun"].returncode, 1)
        self.assertEqual(jobs["ddprun"].returncode, 0, jobs["ddprun"].err)

    def test_refuses_a_switch_in_the_environment_that_is_no_number(self):
        jobs = self.both(self.worker, env={"PET_STANDALONE": "no"})
        self.assertEqual(jobs["torchrun"].returncode, 1)
        self.assertEqual(jobs["ddprun"].returncode, 2)

    def test_answers_help_on_standard_output(self):
        for launcher, job in self.both("--help").items():
            self.assertEqual((job.returncode, job.err), (0, ""), launcher)
            for flag in ("nnodes", "rdzv", "max", "tee", "redirects", "local"):
                self.assertIn(f"--{flag}", job.out)

    def test_has_all_flags_of_torchrun_in_its_help(self):
        jobs = self.both("--help")
        flags = {
            launcher: {flag.replace("-", "_") for flag in re.findall(r"--([a-z_-]+)", job.out)}
            for launcher, job in jobs.items()
        }
        self.assertGreater(len(flags["torchrun"]), 25)
        # torchrun's text speaks of --redirect, which is none.
        self.assertEqual(flags["torchrun"] - flags["ddprun"], {"redirect"})


if __name__ == "__main__":
    harness.main()
