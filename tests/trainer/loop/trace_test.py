"""report.trace_steps: trace.json shows what each rank did, on one clock."""

import collections
import json
import os
import subprocess
import unittest

import harness
import training

PHASES = {"wait for data", "forward", "backward", "update", "between steps"}


class Trace(training.TrainingTest):
    def config(self, **report):
        config = training.gpt_config(report={"logging_steps": 1, **report},
                                     strategy={"bucket_cap_mb": 0.01, "first_bucket_mb": 0.01})
        config["run"]["max_steps"] = 6
        return config

    def events(self):
        with open(self.path("runs/gpt/trace.json")) as file:
            return json.load(file)["traceEvents"]

    def check_thread(self, spans):
        """The spans of a thread follow each other."""
        spans.sort(key=lambda event: event["ts"])
        for before, after in zip(spans, spans[1:]):
            self.assertGreaterEqual(after["ts"] + 0.002, before["ts"] + before["dur"],
                                    (before, after))

    def check(self, ranks, steps, first, apart=0.002):
        """Checks the trace of a run. Returns its collectives, by rank and number."""
        events = self.events()
        threads = collections.defaultdict(list)
        for event in events:
            self.assertIn(event["ph"], ("M", "X"))
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], 0)
                self.assertGreaterEqual(event["dur"], 0)
                threads[event["pid"], event["tid"]].append(event)
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
        collectives = collections.defaultdict(dict)
        for rank in range(ranks):
            self.assertRegex(names[rank, 0], rf"^rank {rank} \(.+, pid \d+\)$")
            self.assertEqual(names[rank, 1], "step")
            phases = threads[rank, 1]
            self.assertEqual({event["name"] for event in phases}, PHASES)
            for phase in ("backward", "update"):
                self.assertEqual(sum(e["name"] == phase for e in phases), steps, phases)
            for (pid, _), spans in threads.items():
                if pid == rank:
                    self.check_thread(spans)
            for event in threads[rank, 3]:
                self.assertLessEqual(event["args"]["waited_us"], event["dur"] + 0.002)
                collectives[rank][event["args"]["number"]] = event
        self.assertEqual(min(e["ts"] for spans in threads.values() for e in spans), 0)
        for rank in range(1, ranks):
            self.assertEqual(set(collectives[rank]), set(collectives[0]))
        for number, event in collectives[0].items():
            # No rank has ended a reduction before the last one has begun it.
            others = [collectives[rank][number] for rank in range(ranks)]
            self.assertEqual({other["name"] for other in others}, {event["name"]})
            if event["name"] == "all_reduce":
                begun = max(other["ts"] for other in others)
                ended = min(other["ts"] + other["dur"] for other in others)
                self.assertLessEqual(begun, ended + apart, others)
        buckets = collections.Counter(
            event["args"]["of"] for event in collectives[0].values()
            if "bucket" in event["args"].get("of", ""))
        for step in range(first, first + steps):
            self.assertGreater(sum(f"step {step}, " in of for of in buckets), 1, buckets)
        self.assertEqual(set(buckets.values()), {1}, buckets)
        return collectives

    def test_has_the_phases_and_the_buckets_of_each_rank(self):
        job = self.train(self.config(trace_steps=[3, 5]), 2)
        self.check(2, 3, 3)
        self.assertIn("trace of steps 3 to 5: runs/gpt/trace.json", job.out)

    def test_may_begin_with_the_first_step_and_end_with_the_last(self):
        self.train(self.config(trace_steps=[1, 6]), 2)
        self.check(2, 6, 1)

    def test_says_why_there_is_none(self):
        config = self.config(trace_steps=[2, 4])
        config["data"]["validation_fraction"] = 0.2
        # No evaluation is that much better, so the run ends after the second one.
        config["evaluation"] = {"eval_steps": 1, "early_stopping_patience": 1,
                                "early_stopping_threshold": 100}
        job = self.train(config, 2)
        self.assertIn("warning: no trace of steps 2 to 4: the run ended after step 2", job.out)
        job = self.run_ddprun("--nproc_per_node=2", "--resume", "runs/gpt",
                              "--set", "evaluation.early_stopping_patience=100")
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("warning: no trace of steps 2 to 4: not all of them were made in this start",
                      job.out)
        job = self.run_ddprun("--nproc_per_node=2", "--resume", "runs/gpt")
        self.assertNotIn("no trace", job.out + job.err)
        self.assertFalse(os.path.exists(self.path("runs/gpt/trace.json")))

    def test_changes_no_bit_of_the_run(self):
        losses = []
        for report in ({}, {"trace_steps": [2, 4]}):
            config = self.config(**report)
            config["run"]["name"] = f"run{len(losses)}"
            self.train(config, 2)
            losses.append([line["loss"] for line in self.metrics(config["run"]["name"])
                           if line.get("split") == "train"])
        self.assertEqual(losses[0], losses[1])
        self.assertFalse(os.path.exists(self.path("runs/run0/trace.json")))

    def test_messages_of_a_pipeline_may_cross_each_other(self):
        config = self.config(trace_steps=[2, 3])
        config["strategy"] = {"type": "pipeline", "pipeline_micro_batches": 2}
        self.train(config, 2)
        events = self.events()
        begins = [event["id"] for event in events if event["ph"] == "b"]
        self.assertGreater(len(begins), 0)
        self.assertEqual(len(set(begins)), len(begins))
        self.assertEqual(sorted(begins), sorted(e["id"] for e in events if e["ph"] == "e"))

    @unittest.skipUnless(os.geteuid() == 0, "only root makes a clock of its own")
    def test_brings_the_clocks_of_two_hosts_together(self):
        path = self.write_config(self.config(trace_steps=[3, 5]))
        flags = ["--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={harness.unused_port()}",
                 "--nproc_per_node=1", path]
        other = subprocess.Popen(
            ["unshare", "--time", "--monotonic", "5000", "--fork", harness.DDPRUN,
             "--node_rank=1", *flags],
            env=self.env(), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(other.communicate)
        job = self.run_ddprun("--node_rank=0", *flags)
        self.assertEqual(job.returncode, 0, job.err)
        # The clocks are 5000 s apart. The trace knows how far only within half a round trip between
        # the hosts, which may take milliseconds on a busy machine.
        self.check(2, 3, 3, apart=5000)

    def test_refuses_what_is_no_range_of_steps_of_the_run(self):
        for steps, words in (([3], "first and the last"), ([5, 3], "first and the last"),
                             ([5, 7], "ends after step 6"), ([0, 3], "at least 1")):
            with self.subTest(steps=steps):
                path = self.write_config(self.config(trace_steps=steps))
                job = self.run_ddprun("--nproc_per_node=1", path)
                self.assertEqual(job.returncode, 2, job.err)
                self.assertIn(words, job.err)


if __name__ == "__main__":
    unittest.main()
