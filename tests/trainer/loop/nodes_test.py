"""Runs on several nodes, each an agent of its own on this machine: with and without a run folder
that all of them see, and when the node of rank 0 leaves."""

import os
import signal
import socket

import harness
import training


class NodesTest(training.TrainingTest):
    def config(self, **sections):
        config = training.gpt_config(
            run={"name": "run", "max_steps": 12},
            model={"name_or_path": "", "dropout": 0.1},
            # Not what is the fastest at the moment.
            training={"per_device_train_batch_size": 2, "matmul_engine": "default"},
        )
        for section, keys in sections.items():
            config.setdefault(section, {}).update(keys)
        return config

    def read_to(self, job, word):
        """Returns the job's output up to a line that begins with `word`."""
        said = ""
        for line in job.stdout:
            said += line
            if line.startswith(word):
                return said
        self.finish(job)
        raise AssertionError(f"no line of {word}: {job.err}")

    def start_nodes(self, config, *more, folders=("a", "b")):
        path = self.write_config(config)
        port = harness.unused_port()
        for folder in folders:
            os.makedirs(self.path(folder), exist_ok=True)
        return [
            self.start("--nnodes=2", f"--node_rank={node}", "--nproc_per_node=2",
                       "--master_addr=127.0.0.1", f"--master_port={port}", path, *more,
                       env={"OMP_NUM_THREADS": "1"}, cwd=self.path(folder))
            for node, folder in enumerate(folders)
        ]

    def train_whole(self, config):
        self.finish_all(self.start_nodes(config, folders=("whole", "whole")), 0)
        self.assertEqual(os.listdir(self.path("whole/runs")), ["run"])
        return self.weights("whole/runs/run")

    def finish_all(self, nodes, code):
        for node in nodes:
            self.finish(node)
        self.assertEqual([node.returncode for node in nodes], [code] * len(nodes),
                         "\n".join(node.err for node in nodes))
        self.assert_nothing_left()

    def weights(self, run):
        with open(self.path(f"{run}/model/model.safetensors"), "rb") as file:
            return file.read()


class Folders(NodesTest):
    """Two nodes of two ranks, whose working directories, and so run folders, may differ."""

    def test_of_which_one_node_sees_none_are_saved_by_the_other(self):
        nodes = self.start_nodes(self.config(run={"max_steps": 10**9}))
        said = self.read_to(nodes[0], "step")
        nodes[1].send_signal(signal.SIGTERM)
        self.finish_all(nodes, 75)
        self.assertIn("not all hosts see runs/run/checkpoints: the ranks beside rank 0 save", said)
        (saved,) = [name for name in os.listdir(self.path("a/runs/run/checkpoints"))
                    if name.startswith("step-")]
        files = os.listdir(self.path(f"a/runs/run/checkpoints/{saved}"))
        self.assertIn("shard-00001-of-00002.safetensors", files)
        self.assertFalse(os.path.exists(self.path("b/runs")))

    def test_of_which_one_node_sees_none_give_the_same_bits(self):
        config = self.config(checkpoint={"save_steps": 4})
        expected = self.train_whole(config)
        nodes = self.start_nodes(config, "--set", "run.max_time=0.001 s")
        self.finish_all(nodes, 75)
        self.assertIn("stopped after step 1 of 12", nodes[0].out)
        nodes = self.start_nodes(config, "--set", "run.resume=auto")
        self.finish_all(nodes, 0)
        self.assertIn("going on after step 1: runs/run/checkpoints/step-1", nodes[0].out)
        self.assertEqual(self.weights("a/runs/run"), expected)
        self.assertFalse(os.path.exists(self.path("b/runs")))

    def test_that_all_share_have_a_part_of_each_rank(self):
        config = self.config(checkpoint={"save_steps": 4})
        nodes = self.start_nodes(config, folders=("both", "both"))
        self.finish_all(nodes, 0)
        self.assertNotIn("not all hosts see", nodes[0].out)
        files = os.listdir(self.path("both/runs/run/checkpoints/step-12"))
        self.assertIn("shard-00003-of-00004.safetensors", files)
        left = os.listdir(self.path("both/runs/run/checkpoints"))
        self.assertEqual([name for name in left if name.startswith("seen-")], [])

    def test_that_not_all_see_are_refused_for_state_in_parts(self):
        config = self.config(strategy={"type": "zero1"}, checkpoint={"save_steps": 4})
        nodes = self.start_nodes(config)
        for node in nodes:
            self.finish(node)
        self.assertIn("-- NO SHARED FOLDER", nodes[0].err)
        self.assertIn('strategy.type "zero1"', nodes[0].err)
        self.assertIn("checkpoint.dir", nodes[0].err)
        self.assertEqual([node.returncode for node in nodes], [2, 2])
        self.assert_nothing_left()
        # As the message says.
        shared = ["--set", "checkpoint.dir=" + self.path("shared")]
        self.finish_all(self.start_nodes(config, *shared), 0)
        self.assertIn("step-12", os.listdir(self.path("shared/run-2")))
        nothing = ["--set", "checkpoint.save_steps=0"]
        nodes = self.start_nodes(config, *nothing)
        self.finish_all(nodes, 0)
        self.assertIn("nothing is saved, also not where the run is stopped", nodes[0].out)

    def test_that_not_all_see_still_refuse_another_model(self):
        config = self.config(checkpoint={"save_steps": 4}, run={"max_steps": 4})
        self.finish_all(self.start_nodes(config), 0)
        config["model"]["hidden_size"] = 16
        config["run"]["max_steps"] = 8
        nodes = self.start_nodes(config, "--set", "run.resume=auto")
        for node in nodes:
            self.finish(node)
            self.assertNotEqual(node.returncode, 0)
        self.assertIn("-- STATE DOES NOT FIT", nodes[0].err)
        self.assert_nothing_left()


class Leaving(NodesTest):
    """Nodes of an elastic job, and a coordinator of their rendezvous that belongs to none."""

    def start_store(self):
        self.port = harness.unused_port()
        store = self.start("store", "--host=127.0.0.1", f"--port={self.port}")

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        harness.wait_until(listens, "ddprun store to listen")
        return store

    def start_node(self, name, config):
        with open(self.path("out." + name), "w") as out:
            return self.start(
                "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{self.port}", "--rdzv_id=job",
                f"--rdzv_conf=last_call_timeout=0.05,join_timeout={harness.DEADLINE_S}",
                "--nnodes=1:2", "--nproc_per_node=1", config,
                env={"OMP_NUM_THREADS": "1"}, stdout=out)

    def said(self, name):
        with open(self.path("out." + name)) as out:
            return out.read()

    def wait_for_save(self, name, after):
        """Until the node tells of a checkpoint that it has saved after it has said that."""
        harness.wait_until(
            lambda: "checkpoint of step" in self.said(name).partition(after)[2],
            lambda: f"a checkpoint after {after!r}: {self.said(name)}")

    def test_of_rank_0_goes_on_in_the_run_folder(self):
        self.leave_with(training={"virtual_ranks": 2})

    def test_goes_on_with_other_batches_without_virtual_ranks(self):
        # 631 samples: two ranks pad an epoch. Positions of one rank may be odd.
        self.leave_with(training={"per_device_train_batch_size": 1})

    def leave_with(self, **sections):
        path = self.write_config(self.config(
            run={"max_steps": 10**9}, checkpoint={"save_steps": 25}, report={"logging_steps": 1},
            **sections))
        store = self.start_store()
        first = self.start_node("first", path)
        self.wait_for_save("first", "1 rank ")
        second = self.start_node("second", path)
        self.wait_for_save("first", "2 ranks ")
        first.kill()
        self.finish(first)
        self.wait_for_save("second", "going on after step ")
        second.send_signal(signal.SIGTERM)
        self.finish(second)
        self.assertEqual(second.returncode, 75, second.err)
        self.assertEqual(os.listdir(self.path("runs")), ["run"])
        starts = [line for line in self.metrics("run") if line.get("event") == "start"]
        self.assertEqual([start["world"]["size"] for start in starts], [1, 2, 1])
        steps = [line["step"] for line in self.metrics("run") if line.get("split") == "train"]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        store.terminate()
        self.finish(store)
        self.assert_nothing_left()


class Listeners(NodesTest):
    """No process of a job listens on more than the addresses of the job."""

    LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}

    def listening_addresses(self):
        """The local addresses, in hexadecimal as the kernel writes them, of the job's listeners."""
        owned = set()
        for pid in harness.processes_with(self.mark):
            try:
                targets = [os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")]
            except OSError:  # it has just closed a file, or ended
                continue
            owned.update(target[8:-1] for target in targets if target.startswith("socket:["))
        found = []
        for table in ("tcp", "tcp6"):
            with open(f"/proc/net/{table}") as file:
                rows = [line.split() for line in file][1:]
            found += [row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in owned]
        return found

    def test_are_on_the_addresses_of_the_job_alone(self):
        config = self.config(run={"max_steps": 100000}, report={"logging_steps": 1})
        nodes = self.start_nodes(config)
        self.read_to(nodes[0], "step")
        found = self.listening_addresses()
        self.assertGreaterEqual(len(found), 2)  # an agent, and the workers for the other node
        self.assertLessEqual(set(found), self.LOOPBACK)
        for node in nodes:
            node.send_signal(signal.SIGTERM)
        for node in nodes:
            self.finish(node)
        self.assert_nothing_left()


if __name__ == "__main__":
    harness.main()
