"""The backend "ddprun" of torch.distributed, with 4 processes and PyTorch's own store.

Usage: backend_test.py FOLDER DDPRUN; the folder holds the package ddprun.torch
"""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

WORKER = pathlib.Path(__file__).with_name("backend_worker.py")
RANKS = 4
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
FOLDER = None  # from the command line, like DDPRUN
DDPRUN = None


class Backend(unittest.TestCase):
    def run_ranks(self, *cases, ended=RANKS):
        """All ranks do the cases; the first `ended` of them have to end well."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        env = {**ENVIRONMENT, "PYTHONPATH": FOLDER, "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
        ranks = [subprocess.Popen([sys.executable, WORKER, *cases], env={**env, "RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank in range(RANKS)]
        texts = []
        try:
            for rank in ranks:
                texts.append(rank.communicate(timeout=300)[0])
        finally:
            for rank in ranks:
                rank.kill()
        for rank in range(ended):
            self.assertEqual(ranks[rank].returncode, 0, texts[rank][-3000:])
        return texts

    def test_reductions_equal_torch(self):
        self.run_ranks("reductions")

    def test_premultiplied_sums_are_those_of_products(self):
        self.run_ranks("premultiplied")

    def test_sums_of_floats_are_near_those_of_gloo(self):
        self.run_ranks("floats")

    def test_copies_equal_gloo(self):
        self.run_ranks("copies")

    def test_many_groups(self):
        self.run_ranks("groups")

    def test_a_group_may_be_destroyed_while_a_thread_uses_it(self):
        self.run_ranks("destroyed_in_use")

    def test_layouts(self):
        self.run_ranks("layouts")

    def test_initialised_again(self):
        self.run_ranks("again", "two_backends")

    def test_training_has_the_losses_of_gloo(self):
        self.run_ranks("ddp", "fsdp")

    def test_a_callback_may_wait_for_a_collective(self):
        self.run_ranks("nested")

    def test_a_forked_child_does_not_disturb(self):
        self.run_ranks("fork")

    def test_mismatches(self):
        self.run_ranks("mismatch")

    def test_a_missing_rank_is_named(self):
        self.run_ranks("late", "missing")
        self.run_ranks("missing_at_start")

    def test_a_failed_start_fails_on_all(self):
        self.run_ranks("failed_start")

    def test_a_killed_rank_is_named(self):
        texts = self.run_ranks("killed", ended=RANKS - 1)
        self.assertIn("noticed after", texts[0])

    def test_a_rank_may_leave(self):
        self.run_ranks("left")

    def test_launchers(self):
        # Alone, torchrun would take port 29500, which another test may have.
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        for launcher in ([DDPRUN], torchrun):
            done = subprocess.run(
                [*launcher, f"--nproc_per_node={RANKS}", WORKER, "again", "groups"],
                env={**ENVIRONMENT, "PYTHONPATH": FOLDER, "PYTHON_EXEC": sys.executable},
                capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            self.assertEqual(done.stdout.count("did groups"), RANKS)

    def test_the_launcher_names_a_rank_that_does_not_come(self):
        done = subprocess.run(
            [DDPRUN, f"--nproc_per_node={RANKS}", "--hang_timeout=10", WORKER, "hang"],
            env={**ENVIRONMENT, "PYTHONPATH": FOLDER, "PYTHON_EXEC": sys.executable},
            capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 124, done.stderr[-3000:])
        report = done.stderr[done.stderr.index("-- WORKERS HANG"):]
        self.assertIn("The others wait for: rank 1 has not come to all_reduce 1", report)
        self.assertRegex(report, r"rank 0 .* waits in all_reduce 1 \(4.0 KB of float32\)")

    def test_another_torch_is_refused(self):
        script = "import torch; torch.__version__ = '2.3.1'; import ddprun.torch"
        done = subprocess.run([sys.executable, "-c", script], env={**ENVIRONMENT,
                              "PYTHONPATH": FOLDER}, capture_output=True, text=True, check=False)
        self.assertIn("ImportError: ddprun.torch was built for torch 2.", done.stderr)
        self.assertIn("this Python has torch 2.3.1", done.stderr)


class Installed(unittest.TestCase):
    """As after `pip install`, which leaves the entry point of python/pyproject.toml."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        project = pathlib.Path(__file__).parents[2] / "python/pyproject.toml"
        entry = re.search(r'\[project\.entry-points\."(.+)"\]\n(.+) = "(.+)"\n',
                          project.read_text())
        info = pathlib.Path(folder.name) / "ddprun_torch-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ddprun-torch\nVersion: 0\n")
        (info / "entry_points.txt").write_text("[%s]\n%s = %s\n" % entry.groups())
        self.env = {**ENVIRONMENT, "PYTHONPATH": f"{folder.name}:{FOLDER}",
                    "PYTHON_EXEC": sys.executable}

    def run_script(self, script, *launcher):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(textwrap.dedent(script))
            file.flush()
            return subprocess.run([*launcher, file.name], env=self.env, capture_output=True,
                                  text=True, timeout=300, check=False)

    def test_needs_no_import(self):
        done = self.run_script("""
            import sys
            import torch
            import torch.distributed as dist
            assert "ddprun.torch" not in sys.modules  # the library is loaded with the first group
            dist.init_process_group("ddprun")
            total = torch.ones(3)
            dist.all_reduce(total)
            import ddprun.torch
            dist.barrier(dist.new_group([1, 0]))
            print(dist.get_backend(), total.tolist())
            dist.destroy_process_group()
            """, DDPRUN, "--nproc_per_node=2")
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertEqual(done.stdout, "ddprun [2.0, 2.0, 2.0]\n" * 2)

    def test_for_another_torch_does_not_break_it(self):
        done = self.run_script("""
            import torch
            import torch.distributed as dist
            torch.__version__ = "2.3.1"
            print("torch is there", flush=True)
            dist.init_process_group("ddprun", store=dist.HashStore(), rank=0, world_size=1)
            """, sys.executable)
        self.assertEqual(done.stdout, "torch is there\n")
        self.assertIn("ImportError: ddprun.torch was built for torch 2.", done.stderr)


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    DDPRUN = sys.argv.pop(1)
    unittest.main()
