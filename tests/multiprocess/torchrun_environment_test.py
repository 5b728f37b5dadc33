"""Workers find the same environment under torchrun and under ddprun, variable by variable."""

import os
import re
import subprocess

import harness
import torchrun_compare

# Variables that only ddprun gives its workers.
OURS = {
    "DDPRUN_FLIGHT_PAGE",
    "DDPRUN_FLIGHT_RECORDER_FD",
    "DDPRUN_JOB_ID",
    "DDPRUN_NODE_MEMORY_FD",
    "DDPRUN_JOB_BEGAN_NS",
    "PYTHONFAULTHANDLER",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
}
# No two runs have the same; each has a check of its own below.
VARYING = {"MASTER_PORT", "PET_MASTER_PORT", "TORCHELASTIC_ERROR_FILE"}


class EnvironmentTest(torchrun_compare.CompareTest):
    def setUp(self):
        super().setUp()
        self.worker = self.script("worker.py", torchrun_compare.DUMP)

    def environments(self, launcher):
        """{rank: environment} without what varies."""
        return {
            key.split(".")[0]: {
                name: self.plain(launcher, text)
                for name, text in value["env"].items()
                if name not in OURS | VARYING
            }
            for key, value in self.dumps(launcher).items()
        }

    def assert_equal_environments(self, workers, differ=()):
        """Except for the variables in DIFFER, which each test looks at itself."""
        theirs = self.environments("torchrun")
        ours = self.environments("ddprun")
        self.assertEqual(sorted(theirs), [str(rank) for rank in range(workers)])
        self.assertEqual(sorted(ours), sorted(theirs))
        for rank in theirs:
            for environment in (ours[rank], theirs[rank]):
                for name in differ:
                    environment.pop(name, None)
            self.assertEqual(ours[rank], theirs[rank], f"rank {rank}")

    def compare(self, *flags, workers=2, differ=(), env=None):
        env = {"OMP_NUM_THREADS": "1", **(env or {})}
        self.succeed(*flags, self.worker, env=env)
        self.assert_equal_environments(workers, differ)

    def values(self, launcher, name):
        return {rank: value["env"].get(name) for rank, value in self.dumps(launcher).items()}


class Environment(EnvironmentTest):
    def test_is_the_same_on_one_node(self):
        self.compare("--nproc_per_node=2")

    def test_is_the_same_for_a_single_worker(self):
        self.compare(workers=1)

    def test_is_the_same_with_the_port_and_address_that_were_asked_for(self):
        port = str(harness.unused_port())
        self.compare("--nproc-per-node", "2", "--master-addr=localhost", "--master_port", port)
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(set(self.values(launcher, "MASTER_PORT").values()), {port})

    def test_is_the_same_with_a_static_endpoint(self):
        port = str(harness.unused_port())
        endpoint = f"--rdzv_endpoint=127.0.0.1:{port}"
        self.compare("--nproc_per_node=2", endpoint, "--rdzv_id=job7")
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(set(self.values(launcher, "MASTER_PORT").values()), {port})

    def test_is_the_same_standalone_but_for_the_name_of_this_machine(self):
        flags = ["--standalone", "--nproc_per_node=2", "--rdzv_id=ignored", "--nnodes=1"]
        self.compare(*flags, differ={"TORCHELASTIC_RUN_ID", "MASTER_ADDR"})
        for launcher in torchrun_compare.LAUNCHERS:
            for text in self.values(launcher, "TORCHELASTIC_RUN_ID").values():
                self.assertRegex(text, r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        # An address needs no name server.
        self.assertEqual(set(self.values("torchrun", "MASTER_ADDR").values()), {"localhost"})
        self.assertEqual(set(self.values("ddprun", "MASTER_ADDR").values()), {"127.0.0.1"})

    def test_is_the_same_under_c10d(self):
        self.compare(
            "--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--rdzv-id=job8",
            "--nproc_per_node=2", "--local_addr=127.0.0.1",
        )

    def test_has_the_role(self):
        self.compare("--nproc_per_node=2", "--role=trainer")

    def test_has_the_restarts_and_the_id_of_the_run(self):
        self.compare("--nproc_per_node=2", "--max_restarts=3", "--rdzv_id", "a.b-c")

    def test_comes_from_pet_variables_too(self):
        env = {
            "PET_NPROC_PER_NODE": "2", "PET_ROLE": "reader", "PET_MAX_RESTARTS": "4",
            "PET_RDZV_ID": "pet", "PET_NNODES": "1:1", "PET_MONITOR_INTERVAL": "0.05",
            "PET_SIGNALS_TO_HANDLE": "SIGTERM,SIGUSR1", "PET_LOG_DIR": "/dev/null",
        }
        self.compare(env=env)
        # The command line wins.
        self.compare("--role=writer", "--max-restarts=1", env=env)

    def test_numbers_gpus_from_zero_with_a_virtual_local_rank(self):
        flags = ["--nproc_per_node=2", "--virtual_local_rank"]
        self.compare(*flags, env={"CUDA_VISIBLE_DEVICES": "3,5"})
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(
                self.values(launcher, "CUDA_VISIBLE_DEVICES"), {"0.0": "3", "1.0": "5"}
            )
            self.assertEqual(self.values(launcher, "LOCAL_RANK"), {"0.0": "0", "1.0": "0"})
        self.compare("--nproc_per_node=2", "--virtual-local-rank")

    def test_names_the_signals_that_the_launcher_handles(self):
        self.compare("--signals_to_handle=SIGTERM,SIGUSR1,SIGINT", workers=1)

    def test_keeps_what_the_caller_set(self):
        env = {"OMP_NUM_THREADS": "7", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "RANK": "55",
               "MASTER_ADDR": "nowhere", "WITH_NEWLINE": "a\nb", "EMPTY": ""}
        self.compare("--nproc_per_node=2", env=env)

    def test_has_no_error_file_without_logs(self):
        self.compare("--nproc_per_node=2", "--log_dir=/dev/null")
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(
                set(self.values(launcher, "TORCHELASTIC_ERROR_FILE").values()), {""}
            )

    def test_has_the_error_file_in_the_log_folder(self):
        self.compare("--nproc_per_node=2", "--log_dir=logs", "--rdzv_id=run")
        files = {
            launcher: {
                rank: self.plain(launcher, os.path.join(self.of(launcher), path))
                for rank, path in self.values(launcher, "TORCHELASTIC_ERROR_FILE").items()
            }
            for launcher in torchrun_compare.LAUNCHERS
        }
        self.assertEqual(files["ddprun"], files["torchrun"])
        self.assertIn("/run_<random>/attempt_0/1/error.json", files["ddprun"]["1.0"])

    def test_has_the_error_file_in_a_temporary_folder_by_default(self):
        self.compare("--nproc_per_node=2")
        for launcher in torchrun_compare.LAUNCHERS:
            for key, path in self.values(launcher, "TORCHELASTIC_ERROR_FILE").items():
                rank = key.split(".")[0]
                self.assertTrue(path.startswith(self.of(launcher, "tmp")), path)
                self.assertTrue(path.endswith(f"/attempt_0/{rank}/error.json"), path)

    def test_shares_the_cores_out_where_torchrun_says_one(self):
        cores = len(os.sched_getaffinity(0))
        for workers in (1, 2):
            self.succeed(f"--nproc_per_node={workers}", self.worker)
            self.assert_equal_environments(workers, {"OMP_NUM_THREADS"})
            theirs = set(self.values("torchrun", "OMP_NUM_THREADS").values())
            ours = set(self.values("ddprun", "OMP_NUM_THREADS").values())
            self.assertEqual(theirs, {None} if workers == 1 else {"1"})
            self.assertEqual(len(ours), 1)
            # A container's limit on CPU time may make it less than the cores' share.
            self.assertIn(int(ours.pop()), range(1, max(1, cores // workers) + 1))


class Nodes(EnvironmentTest):
    """Two launchers of one kind on this machine are two nodes."""

    def run_nodes(self, *nodes, env=None):
        for launcher in torchrun_compare.LAUNCHERS:
            port = harness.unused_port()
            jobs = [
                self.launch(
                    launcher,
                    *(re.sub("PORT", str(port), flag) for flag in flags),
                    self.worker,
                    env={"OMP_NUM_THREADS": "1", **(env or {})},
                )
                for flags in nodes
            ]
            for job in jobs:
                self.assertEqual(job.wait().returncode, 0, f"{launcher}: {job.err}")

    def static(self, node, nodes, *more):
        return [f"--nnodes={nodes}", f"--node_rank={node}", "--master_addr=127.0.0.1",
                "--master_port=PORT", *more]

    def test_are_the_same_on_two_static_nodes(self):
        self.run_nodes(*(self.static(node, 2, "--nproc_per_node=2") for node in (0, 1)))
        self.assert_equal_environments(4)
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(len(set(self.values(launcher, "MASTER_PORT").values())), 1)

    def test_are_the_same_with_different_numbers_of_workers_and_roles(self):
        self.run_nodes(
            self.static(0, 3, "--nproc_per_node=3", "--role=reader"),
            self.static(1, 3, "--nproc_per_node=1", "--role=trainer"),
            self.static(2, 3, "--nproc_per_node=2", "--role=reader"),
        )
        self.assert_equal_environments(6)
        self.assertEqual(
            [self.values("ddprun", "ROLE_RANK")[f"{rank}.0"] for rank in range(6)],
            ["0", "1", "2", "0", "3", "4"],
        )

    def test_are_one_world_when_each_static_node_has_another_launcher(self):
        for order in (torchrun_compare.LAUNCHERS, torchrun_compare.LAUNCHERS[::-1]):
            with self.subTest(order=order):
                port = str(harness.unused_port())
                jobs = []
                for node, launcher in enumerate(order):
                    flags = self.static(node, 2, "--nproc_per_node=2", "--rdzv_id=mixed")
                    flags = [re.sub("PORT", port, flag) for flag in flags]
                    jobs.append(self.launch(launcher, *flags, self.worker,
                                            env={"OMP_NUM_THREADS": "1", "DUMP": order[0]}))
                for job in jobs:
                    self.assertEqual(job.wait().returncode, 0, job.err)
                for node, launcher in enumerate(order):
                    found = self.dumps(launcher, order[0])
                    self.assertEqual(sorted(found), [f"{2 * node}.0", f"{2 * node + 1}.0"])
                    for value in found.values():
                        env = value["env"]
                        self.assertEqual(
                            [env[name] for name in ("WORLD_SIZE", "GROUP_RANK", "ROLE_WORLD_SIZE",
                                                    "MASTER_ADDR", "MASTER_PORT")],
                            ["4", str(node), "4", "127.0.0.1", port],
                        )

    def test_are_the_same_on_two_c10d_nodes(self):
        flags = ["--nnodes=2", "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:PORT",
                 "--rdzv_id=two", "--nproc_per_node=2", "--local_addr=127.0.0.1"]
        self.run_nodes(flags, flags)
        self.assert_equal_environments(4)
        for launcher in torchrun_compare.LAUNCHERS:
            self.assertEqual(len(set(self.values(launcher, "MASTER_PORT").values())), 1)

    def test_are_the_same_on_nodes_that_meet_at_a_store_of_their_own(self):
        for launcher in torchrun_compare.LAUNCHERS:
            store = subprocess.Popen(
                [harness.DDPRUN, "store", "--host=127.0.0.1", "--port=0"], env=self.env(),
                stdout=subprocess.PIPE, text=True,
            )
            self.addCleanup(store.stdout.close)
            self.addCleanup(store.wait)
            self.addCleanup(store.kill)
            endpoint = store.stdout.readline().split()[-1]
            flags = ["--nnodes=2", "--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}",
                     "--rdzv_conf=is_host=0", "--local_addr=127.0.0.1", "--rdzv_id=two",
                     self.worker]
            jobs = [self.launch(launcher, *flags, env={"OMP_NUM_THREADS": "1"}) for _ in (0, 1)]
            for job in jobs:
                self.assertEqual(job.wait().returncode, 0, f"{launcher}: {job.err}")
            self.assertEqual(len(set(self.values(launcher, "MASTER_PORT").values())), 1)
        self.assert_equal_environments(2)

    def test_are_the_same_on_two_elastic_nodes_whatever_the_last_call(self):
        flags = ["--nnodes=1:2", "--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:PORT",
                 "--rdzv_id=two", "--nproc_per_node=1", "--local_addr=127.0.0.1",
                 "--rdzv_conf=last_call_timeout=60,join_timeout=120"]
        self.run_nodes(flags, flags)
        self.assert_equal_environments(2)


if __name__ == "__main__":
    harness.main()
