"""A worker that ends with code 0 while others wait for it is named within seconds, without a flag;
one for whom nobody waits may end when it likes."""

import harness


class EarlyEnd(harness.LauncherTest):
    def run_workers(self, text, *args):
        script = self.script("worker.py", harness.FLIGHT_PAGE + text)
        return self.run_ddprun("--nproc_per_node=3", *args, script)

    def test_fails_the_job_and_names_the_collective(self):
        job = self.run_workers(
            "if os.environ['RANK'] == '1':\n"
            "    write_page(417, COMPLETED)\n"
            "    sys.exit(0)\n"
            "write_page(418, WAITING)\n"
            "time.sleep(1000)\n"
        )
        self.assertEqual(job.returncode, 1, job.err)
        text = " ".join(job.err.split())
        self.assertIn(
            "Rank 1 exited with code 0 and left ranks 0 and 2 waiting for it in all_reduce 418 "
            "(bucket 3, 25.0 MB of float32) of step 57. All ranks have to call the same "
            "collectives.",
            text,
        )
        self.assertRegex(text, r"rank 2 \(.*\) was killed by SIGTERM when told to stop")
        self.assert_nothing_left()

    def test_uses_up_a_restart(self):
        job = self.run_workers(
            "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '1': sys.exit(0)\n"
            "write_page(1, STARTED if os.environ['RANK'] == '1' else WAITING)\n"
            "if os.environ['RANK'] != '1': time.sleep(1000)\n",
            "--max_restarts=1",
        )
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("exited with code 0 and left ranks 0 and 2 waiting for it in", job.err)
        self.assertIn("restart 1 of 1", job.err)

    # Longer than it takes to tell.
    def test_is_none_where_the_rank_has_come(self):
        job = self.run_workers(
            "if os.environ['RANK'] == '1':\n"
            "    write_page(418, COMPLETED)\n"
            "    sys.exit(0)\n"
            "write_page(418, WAITING)\n"
            "time.sleep(4)\n"
        )
        self.assertEqual((job.returncode, job.err), (0, ""))

    def test_is_none_where_no_worker_writes_pages(self):
        job = self.run_workers("time.sleep(2 * int(os.environ['RANK']))\n")
        self.assertEqual((job.returncode, job.err), (0, ""))


if __name__ == "__main__":
    harness.main()
