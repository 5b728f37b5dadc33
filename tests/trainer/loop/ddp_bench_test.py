"""ddp-bench, started by ddprun as a job of its own: what it writes, and that it measures."""

import json
import os

import harness

BENCH = os.environ["DDPRUN_BENCH_PROGRAM"]
MODEL = ("--model", "mlp", "--sizes", "8", "16", "4", "--batch", "4")
TINY = (*MODEL, "--rounds", "2", "--steps", "2")


class DdpBench(harness.LauncherTest):
    def measure(self, *words, ranks=2):
        job = self.run_ddprun(
            f"--nproc_per_node={ranks}", "--no_python", BENCH,
            "--json", self.path("out.json"), *words,
        )
        self.assertEqual(job.returncode, 0, job.err)
        with open(self.path("out.json")) as file:
            return json.load(file), job.out

    def test_sweeps_sizes_and_algorithms_of_the_all_reduce(self):
        report, table = self.measure(
            "allreduce", "--sizes", "4", "100000", "--rounds", "1", "--seconds", "0.001", ranks=3
        )
        self.assertEqual(report["ranks"], 3)
        self.assertEqual(len(report["results"]), 8)
        for result in report["results"]:
            self.assertGreater(result["seconds"], 0)
            self.assertIn(result["algorithm"], table)

    def test_measures_every_overlap_and_the_reducer_of_libtorch(self):
        report, table = self.measure("overlap", *TINY, "--torch")
        names = [result["name"] for result in report["results"]]
        self.assertEqual(
            names, ["no communication", "none", "step", "backward", "both", "c10d::Reducer"]
        )
        for result in report["results"]:
            self.assertIn("exposed", result)
            for phase in ("forward", "backward", "update", "step"):
                self.assertGreater(result[phase], 0, (result["name"], phase))
            self.assertIn(result["name"], table)

    def test_smaller_buckets_are_more_buckets(self):
        report, _ = self.measure("buckets", *TINY, "--buckets_mb", "0.00001", "25")
        self.assertEqual([result["buckets"] for result in report["results"]], [0, 4, 1])

    def test_a_slow_link_is_waited_for(self):
        # 8 * 16 + 16 + 16 * 4 + 4 numbers of 4 bytes at 1 Mbit/s: 6.8 ms.
        report, _ = self.measure("overlap", *TINY, "--link_gigabit", "0.001")
        for result in report["results"][1:]:
            self.assertGreater(result["step"], 0.0067, result["name"])

    def test_refuses_sizes_that_make_no_model(self):
        job = self.run_ddprun("--no_python", BENCH, "overlap", "--sizes", "3")
        self.assertEqual(job.returncode, 2)
        self.assertIn("three sizes for a gpt", job.err)


if __name__ == "__main__":
    harness.main()
