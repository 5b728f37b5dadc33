"""A script may end while operations of the backend "ddprun" and their callbacks are under way.

Usage: ending_test.py FOLDER; the folder holds the package ddprun.torch
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

FOLDER = None  # from the command line
BEGIN = """
import atexit, os, sys, time, torch, torch.distributed as dist
atexit.register(lambda: late())  # runs after what ddprun.torch registers
late = lambda: None
import ddprun.torch
rank, size, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("ddprun", init_method="file://" + store, rank=rank, world_size=size)
tensor = torch.ones(4)
"""


class Ending(unittest.TestCase):
    def run_ranks(self, script, size=1, status=0):
        """Returns what the ranks have printed, if they end with the exit code."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(
                [sys.executable, "-c", BEGIN + textwrap.dedent(script), str(rank), str(size),
                 os.path.join(folder, "store")],
                env={**os.environ, "PYTHONPATH": FOLDER, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(size)]
            try:
                texts = [rank.communicate(timeout=120) for rank in ranks]
            finally:
                for rank in ranks:
                    rank.kill()
        for rank, text in zip(ranks, texts):
            self.assertEqual(rank.returncode, status, text[1])
        return [text[0] for text in texts]

    def test_a_callback_is_run_to_its_end(self):
        texts = self.run_ranks("""
            def call(future):
                time.sleep(0.3)
                print("called", flush=True)
            dist.all_reduce(tensor, async_op=True).get_future().then(call)
            """)
        self.assertEqual(texts, ["called\n"])

    def test_an_operation_may_be_under_way(self):
        texts = self.run_ranks("""
            if rank == 1:
                time.sleep(0.5)
                dist.all_reduce(tensor)
                print(tensor.tolist())
            else:
                dist.all_reduce(tensor, async_op=True)
                del tensor  # the operation has the last reference
            """, size=2)
        self.assertEqual(texts, ["", "[2.0, 2.0, 2.0, 2.0]\n"])

    def test_a_rank_that_does_not_come_does_not_hold_up_the_others(self):
        begin = time.monotonic()
        self.run_ranks("""
            if rank == 0:
                def call(future):
                    print("an error came")
                dist.all_reduce(tensor, async_op=True).get_future().then(call)
                del tensor
            else:
                time.sleep(6)
            sys.exit(3)
            """, size=2, status=3)
        self.assertLess(time.monotonic() - begin, 60)

    def test_a_forked_child_does_not_wait_for_its_parent(self):
        self.run_ranks("""
            dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: time.sleep(1.5))
            child = os.fork()
            if child == 0:
                begin = time.monotonic()
                torch.ops.ddprun.settle(20_000)
                os._exit(time.monotonic() - begin > 10)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            """)

    def test_a_later_handler_of_the_end_may_use_the_group(self):
        texts = self.run_ranks("""
            def late():
                dist.all_reduce(tensor, async_op=True).get_future().wait()
                print(tensor.tolist())
                dist.destroy_process_group()
            """)
        self.assertEqual(texts, ["[1.0, 1.0, 1.0, 1.0]\n"])


if __name__ == "__main__":
    FOLDER = sys.argv.pop(1)
    unittest.main()
