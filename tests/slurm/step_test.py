"""Steps of real SLURM jobs: srun ddprun makes one job of all nodes, whatever form the step has."""

import json
import os
import pty
import random
import re
import subprocess
import sys
import unittest

import slurm_test_case
from slurm_test_case import DDPRUN, PLACE

TRAINER = os.environ.get("DDPRUN_TRAINER", "")
CONFIG = """{
  "model": {"type": "mlp", "layer_sizes": [10, 10, 5]},
  "training": {"loss": "mse", "per_device_train_batch_size": 4},
  "optimizer": {"type": "sgd", "learning_rate": 0.01},
  "data": {"format": "random", "num_samples": 64, "input_size": 10, "target_size": 5},
  "run": {"max_steps": 4, "name": "run", "output_dir": "FOLDER/{name}"},
  "report": {"logging_steps": 1}
}"""
# The gloo group of PyTorch's users.
ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("SUM", int(value), flush=True)
dist.destroy_process_group()
"""


def read_until_closed(screen):
    """Returns what a terminal has got until all programs have closed it."""
    out = b""
    while True:
        try:
            part = screen.read(65536)
        except OSError:  # EIO: closed
            part = b""
        if not part:
            return out.decode(errors="replace")
        out += part


class StepTest(slurm_test_case.SlurmTest):
    NODES = "node[1-2],gpu-a[03-04]"

    def setUp(self):
        super().setUp()
        self.place = self.write("place.py", PLACE)

    def check_world(self, result, hosts, local_world_sizes):
        """One world: `hosts` in order of rank, each with the workers of its host."""
        self.assertEqual(result.code, 0, result.out)
        places = result.places()
        self.assertEqual([place["host"] for place in places], hosts, result.out)
        self.assertEqual([int(place["LOCAL_WORLD_SIZE"]) for place in places], local_world_sizes)
        self.assertEqual({place["WORLD_SIZE"] for place in places}, {str(len(hosts))})
        self.assertEqual([int(place["RANK"]) for place in places], list(range(len(hosts))))
        self.assertEqual(len({place["TORCHELASTIC_RUN_ID"] for place in places}), 1)

    def test_nodes_form_one_job_without_options(self):
        result = self.srun("-N4", DDPRUN, "--nproc_per_node=2", self.place)
        hosts = [host for host in ("gpu-a03", "gpu-a04", "node1", "node2") for _ in range(2)]
        self.check_world(result, hosts, [2] * 8)
        self.assertRegex(result.out,
                         r"\[ddprun\] SLURM step \d+\.0: 4 agents, one a node, meeting at gpu-a03:")

    def test_each_task_may_be_an_agent_with_one_worker(self):
        for nproc in ([], ["--nproc_per_node=1"], ["--nproc_per_node=2"]):
            with self.subTest(nproc=nproc):
                result = self.srun("-N2", "--ntasks-per-node=2", "-wnode[1-2]", DDPRUN, *nproc,
                                   self.place)
                self.check_world(result, ["node1", "node1", "node2", "node2"], [2] * 4)
                places = result.places()
                self.assertEqual([place["LOCAL_RANK"] for place in places], ["0", "1", "0", "1"])
                self.assertEqual([place["GROUP_RANK"] for place in places], ["0", "0", "1", "1"])
                # Workers of other agents do not share this one's memory.
                self.assertEqual({place["DDPRUN_NODE_MEMORY_FD"] for place in places}, {None})

    def test_nodes_may_have_unequally_many_tasks(self):
        result = self.srun("-N2", "-n3", "-wnode[1-2]", DDPRUN, self.place)
        self.check_world(result, ["node1", "node1", "node2"], [2, 2, 1])

    def test_tasks_may_be_dealt_to_the_nodes_in_any_order(self):
        # SLURM's first task is not on the first node, or neighbours are on different nodes.
        file = self.write("hosts", "node2\nnode1\nnode2\ngpu-a03\ngpu-a03\n")
        result = self.srun("-n5", "-m", "arbitrary", DDPRUN, self.place,
                           env={"SLURM_HOSTFILE": file})
        self.check_world(result, ["gpu-a03", "gpu-a03", "node1", "node2", "node2"], [2, 2, 1, 2, 2])
        places = result.places()
        self.assertEqual([int(place["GROUP_RANK"]) for place in places], [0, 0, 1, 2, 2])
        self.assertEqual({place["GROUP_WORLD_SIZE"] for place in places}, {"3"})
        result = self.srun("-N2", "--ntasks-per-node=2", "-m", "cyclic", "-wnode[1-2]", DDPRUN,
                           self.place)
        self.check_world(result, ["node1", "node1", "node2", "node2"], [2] * 4)
        self.assertEqual([place["LOCAL_RANK"] for place in result.places()], ["0", "1", "0", "1"])

    def test_more_workers_than_tasks_are_refused_with_the_line_to_write(self):
        result = self.srun("-N1", "-n2", DDPRUN, "--nproc_per_node=4", self.place)
        self.assertEqual(result.code, 2, result.out)
        self.assertIn("FLAG DOES NOT FIT THE STEP", result.out)
        self.assertIn("srun --ntasks-per-node=1 ddprun --nproc_per_node=4", result.out)
        self.assertEqual(result.places(), [])

    def test_other_numbers_of_nodes_are_refused(self):
        result = self.srun("-N2", DDPRUN, "--nnodes=3", self.place)
        self.assertEqual(result.code, 2, result.out)
        self.assertIn("has started 2 agents, and --nnodes is 3", result.out)

    def test_users_flags_and_variables_win(self):
        alone = self.srun("-N2", DDPRUN, "--standalone", self.place)
        self.assertEqual([place["WORLD_SIZE"] for place in alone.places()], ["1", "1"], alone.out)
        alone = self.srun("-N2", DDPRUN, "--nnodes=1", self.place)
        self.assertEqual([place["WORLD_SIZE"] for place in alone.places()], ["1", "1"], alone.out)
        elastic = self.srun("-N2", DDPRUN, "--nnodes=1:2", "--rdzv_id=mine", self.place)
        self.assertEqual({place["TORCHELASTIC_RUN_ID"] for place in elastic.places()}, {"mine"})
        self.assertEqual({place["WORLD_SIZE"] for place in elastic.places()}, {"2"}, elastic.out)
        port = self.srun("-N2", "-wnode[1-2]", DDPRUN, self.place, env={"MASTER_PORT": "23456"})
        self.assertIn("meeting at node1:23456", port.out)
        self.assertEqual(len(port.places()), 2, port.out)
        static = self.srun("-N2", "-wnode[1-2]", DDPRUN, "--rdzv_backend=static", self.place)
        self.check_world(static, ["node1", "node2"], [1, 1])

    def test_the_batch_script_of_other_launchers_works(self):
        job = self.sbatch(f"""
            export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
            srun {DDPRUN} --nnodes=$SLURM_NNODES --nproc_per_node=2 --rdzv_id=$SLURM_JOB_ID \
                --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500 {self.place}
            """, "-N2")
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        places = slurm_test_case.Result(0, out).places()
        self.assertEqual({place["WORLD_SIZE"] for place in places}, {"4"}, out)
        self.assertEqual(len(places), 4)

    def test_a_batch_script_alone_trains_on_its_node_and_says_so(self):
        job = self.sbatch(f"{DDPRUN} {self.place}\n", "-N2")
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        self.assertIn(f"inside SLURM job {job} of 2 nodes, but not under srun: this node", out)
        self.assertEqual([place["WORLD_SIZE"] for place in
                          slurm_test_case.Result(0, out).places()], ["1"])

    def test_a_shell_of_salloc_trains_here_and_its_srun_on_all_nodes(self):
        commands = f"{DDPRUN} {self.place}; srun {DDPRUN} {self.place}"
        done = self.srun("-N2", "bash", "-c", commands, program="salloc")
        self.assertEqual(done.code, 0, done.out)
        said = "of 2 nodes, but not under srun: the machine of salloc's"
        self.assertEqual(done.out.count(said), 1, done.out)
        self.assertEqual([place["WORLD_SIZE"] for place in done.places()], ["1", "2", "2"])

    def test_a_shell_of_salloc_says_that_it_is_on_no_node_of_the_job(self):
        done = self.srun("-N1", DDPRUN, self.place, program="salloc")
        self.assertEqual(done.code, 0, done.out)
        self.assertEqual([place["host"] for place in done.places()], ["ctl"], done.out)
        said = "of 1 node, but not under srun: the machine of salloc's shell alone"
        self.assertIn(said, done.out)

    def test_a_shell_of_several_tasks_says_that_the_others_do_not_come(self):
        # srun --pty gives a terminal to the first task only; the shells of the others end at once.
        place = f"[ $SLURM_PROCID != 0 ] || {DDPRUN} --rdzv_conf=join_timeout=1 {self.place}"
        words = [slurm_test_case.CLUSTER, "exec", "srun", "-n2", "--pty", "bash", "-c", place]
        terminal, ours = pty.openpty()
        with open(terminal, "rb", buffering=0) as screen:
            with subprocess.Popen(words, env=self.env, cwd=self.folder, stdin=ours, stdout=ours,
                                  stderr=ours) as step:
                os.close(ours)
                out = read_until_closed(screen)
                step.wait(slurm_test_case.DEADLINE_S)
        self.assertIn("in a shell of srun --pty no other of the step's 2 agents comes: "
                      "--standalone", out)

    def test_two_steps_of_one_allocation_do_not_disturb_each_other(self):
        one = f"srun --overlap -N2 {DDPRUN} {self.place}"
        job = self.sbatch(f"for i in 1 2 3; do {one} & done\nwait\n", "-N2")
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        places = slurm_test_case.Result(0, out).places()
        self.assertEqual([place["WORLD_SIZE"] for place in places], ["2"] * 6, out)
        self.assertEqual(len({place["TORCHELASTIC_RUN_ID"] for place in places}), 3)

    def test_each_element_of_an_array_is_a_job(self):
        job = self.sbatch(f"srun {DDPRUN} {self.place}\n", "-N2", "--array=0-3",
                          "-o", os.path.join(self.folder, "out.%A_%a"))
        for element in range(4):
            self.cluster("wait", f"{job}_{element}", "60")
        ids = set()
        for element in range(4):
            out = self.output(f"{job}_{element}")
            places = slurm_test_case.Result(0, out).places()
            self.assertEqual([place["WORLD_SIZE"] for place in places], ["2", "2"], out)
            ids |= {place["TORCHELASTIC_RUN_ID"] for place in places}
        self.assertEqual(len(ids), 4)

    def test_groups_of_a_heterogeneous_job_form_one_job(self):
        script = (f"#SBATCH -N1 -n2\n#SBATCH hetjob\n#SBATCH -N2 --ntasks-per-node=1\n"
                  f"srun --het-group=0,1 {DDPRUN} {self.place}\n")
        state, out = self.end_of(self.sbatch(script))
        self.assertEqual(state, "COMPLETED", out)
        places = slurm_test_case.Result(0, out).places()
        self.assertEqual([int(place["RANK"]) for place in places], [0, 1, 2, 3], out)
        self.assertEqual([int(place["LOCAL_WORLD_SIZE"]) for place in places], [2, 2, 1, 1], out)

    def test_a_taken_port_is_left_to_its_owner(self):
        # Another program has the port that follows from the step's name: the job takes the next.
        first = self.srun("-N2", "-wnode[1-2]", DDPRUN, self.place)
        job = int(re.search(r"SLURM step (\d+)\.0", first.out).group(1)) + 1
        name = f"slurmlab.{job}.0"
        value = 2166136261
        for byte in name.encode():
            value = ((value ^ byte) * 16777619) % 2**32
        port = 20000 + value % 12000
        listener = self.write("listener.py", (
            "import socket, subprocess, sys\n"
            "taken = socket.socket()\n"
            f"taken.bind(('', {port}))\ntaken.listen()\n"
            "sys.exit(subprocess.call(sys.argv[1:]))\n"))
        result = self.srun("-N2", "-wnode[1-2]", sys.executable, listener, DDPRUN, self.place)
        self.assertIn(f"meeting at node1:{port}", result.out)
        self.check_world(result, ["node1", "node2"], [1, 1])

    def test_node_lists_are_read_as_scontrol_reads_them(self):
        lists = ["node[1-4,7],gpu-a[01-03]", "n[08-11]", "n[8-11]", "n[99-101]", "n[099-101]",
                 "n[008-011,1]", "n[8,09-10]", "node[1-3,2]", "n[10,9]", "a,,b", "a, b",
                 "rack[1-2]-node[01-03]", "alpha,beta", "linux[1,2]", "n[006,011]"]
        lists += [f"n{a}[{b:0{w}}-{b + c:0{w}}],m{a}" for a in (1, 20) for b in (0, 7, 98)
                  for c in (0, 1, 13) for w in (1, 3, 5)]
        for text in lists:
            expected = self.cluster("exec", "scontrol", "show", "hostnames", text).split()
            found = subprocess.run([os.environ["DDPRUN_NODE_LIST_MAIN"], text], text=True,
                                   capture_output=True, check=True)
            self.assertTrue(expected, text)
            self.assertEqual(found.stdout.split(), expected, text)


class TrainingTest(slurm_test_case.SlurmTest):
    NODES = "4"

    def losses_in(self, out):
        losses = re.findall(r"step (\d/4)  loss +(\S+)", out)
        # One world writes each step once.
        self.assertEqual([step for step, _ in losses], ["1/4", "2/4", "3/4", "4/4"], out)
        return losses

    def train(self, *words):
        config = self.write("train.json", CONFIG.replace("FOLDER", self.folder))
        result = self.srun(*words, config)
        self.assertEqual(result.code, 0, result.out)
        return self.losses_in(result.out)

    def language_configs(self):
        """Small GPT and BERT configs with data of their own."""
        draw = random.Random(1)
        words = [f"w{i}" for i in range(200)]
        os.makedirs(os.path.join(self.folder, "tokenizer"))
        self.write("tokenizer/vocab.txt",
                   "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
        self.write("tokenizer/tokenizer_config.json", '{"tokenizer_class": "BertTokenizer"}')
        rows = (" ".join(draw.choices(words, k=draw.randint(3, 20))) + f"\t{'ab'[i % 2]}\n"
                for i in range(200))
        pairs = self.write("pairs.tsv", "text\tlabel\n" + "".join(rows))
        text = self.write("text.txt", " ".join(draw.choices(words, k=4000)))
        common = {
            "training": {"per_device_train_batch_size": 4},
            "optimizer": {"type": "adamw", "learning_rate": 0.001},
            "run": {"max_steps": 4, "output_dir": os.path.join(self.folder, "{name}")},
            "report": {"logging_steps": 1},
        }
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        return {
            "gpt": common | {"model": {"type": "gpt", **size},
                             "data": {"train_files": [text], "max_seq_length": 32}},
            "bert": common | {"model": {"type": "bert", "vocab_size": 205, **size},
                              "data": {"format": "text_classification", "train_files": [pairs],
                                       "text_column": "text", "label_column": "label",
                                       "tokenizer": os.path.join(self.folder, "tokenizer"),
                                       "max_seq_length": 32}},
        }

    @unittest.skipUnless(TRAINER, "this build has no ddp-trainer")
    def test_gpt_and_bert_train_on_two_and_four_nodes(self):
        for name, config in self.language_configs().items():
            path = self.write(f"{name}.json", json.dumps(config))
            for nodes in (2, 4):
                with self.subTest(model=name, nodes=nodes):
                    alone = self.srun("-N1", DDPRUN, f"--nproc_per_node={2 * nodes}", path)
                    self.assertEqual(alone.code, 0, alone.out)
                    step = self.srun(f"-N{nodes}", DDPRUN, "--nproc_per_node=2", path)
                    self.assertEqual(step.code, 0, step.out)
                    state, script = self.end_of(self.sbatch(f"""
                        export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" |
                            head -n 1)
                        srun {DDPRUN} --nnodes=$SLURM_NNODES --nproc_per_node=2 \
                            --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d \
                            --rdzv_endpoint=$MASTER_ADDR:29500 {path}
                        """, f"-N{nodes}"))
                    self.assertEqual(state, "COMPLETED", script)
                    expected = self.losses_in(alone.out)
                    self.assertGreater(len({loss for _, loss in expected}), 1, "it learns")
                    for out in (step.out, script):
                        for (_, one), (_, other) in zip(expected, self.losses_in(out), strict=True):
                            # Sums over hosts are added in another order.
                            self.assertAlmostEqual(float(one), float(other), delta=2e-4, msg=out)

    @unittest.skipUnless(TRAINER, "this build has no ddp-trainer")
    def test_configs_train_the_same_in_each_form_of_the_step(self):
        expected = self.train("-N2", DDPRUN, "--nproc_per_node=2")
        self.assertEqual(self.train("-N4", DDPRUN), expected)
        self.assertEqual(self.train("-N2", "--ntasks-per-node=2", DDPRUN), expected)
        # Without an agent, srun's own variables are enough on one node.
        self.assertEqual(self.train("-N1", "-n4", TRAINER), expected)

    @unittest.skipUnless(TRAINER, "this build has no ddp-trainer")
    def test_steps_without_an_agent_in_one_allocation_do_not_meet(self):
        # Ranks of one node meet under a name in the kernel, which must differ for each step. All
        # ranks 0 wait under their names before the first rank 1 comes.
        late = self.write("late.sh", "until [ $SLURM_PROCID = 0 ] || [ -e go ]; do sleep 0.1\n"
                                     f"done; exec {TRAINER} \"$@\"\n")
        config = CONFIG.replace("FOLDER", self.folder + "/$i")
        configs = [self.write(f"{i}.json", config.replace("$i", str(i))) for i in range(2)]
        steps = "".join(f"srun --overlap -n2 -o step.{i} bash {late} {config} &\n"
                        for i, config in enumerate(configs))
        job = self.sbatch(steps + "wait\n", "-N1", "-n2", "-w", "node1")

        def waiting():
            sockets = self.cluster("node", "node1", "cat", "/proc/net/unix")
            return len(re.findall(f"@ddprun.*{job}", sockets))
        self.wait_for(lambda: waiting() == 2, lambda: f"two steps that wait, not {waiting()}")
        self.write("go", "")
        state, out = self.end_of(job)
        self.assertEqual(state, "COMPLETED", out)
        for i in range(2):
            with open(os.path.join(self.folder, f"step.{i}"), encoding="utf-8") as file:
                self.losses_in(file.read())  # each has one world, which has all steps

    @unittest.skipUnless(TRAINER, "this build has no ddp-trainer")
    def test_the_command_to_go_on_leaves_out_what_the_step_fills_in(self):
        config = CONFIG.replace("FOLDER", self.folder).replace(': 4, "name"', ': 9999999, "name"')
        config = config.replace('"logging_steps": 1', '"logging_steps": 99')
        config = self.write("train.json", config)
        job = self.sbatch(f"exec srun {DDPRUN} --nproc_per_node=2 {config}\n", "-N2")
        self.wait_for(lambda: re.search(r"step +99/", self.output(job)), lambda: self.output(job))
        self.cluster("exec", "scancel", "-s", "USR1", job)
        _, out = self.end_of(job)
        command = re.search(r"to go on: ddprun (--nproc_per_node=2 --resume \S+)\n", out)
        self.assertTrue(command, out)
        again = self.srun("-N2", DDPRUN, "--dry_run", *command[1].split())
        self.assertEqual(again.code, 0, again.out)
        self.assertIn("2 agents, one a node", again.out)

    @unittest.skipUnless(os.environ.get("DDPRUN_TORCH_PYTHON"), "no PyTorch")
    def test_workers_of_pytorch_reduce_with_gloo(self):
        script = self.write("all_reduce.py", ALL_REDUCE)
        result = self.srun("-N2", DDPRUN, "--nproc_per_node=2", "--no-python",
                           os.environ["DDPRUN_TORCH_PYTHON"], script)
        self.assertEqual(result.code, 0, result.out)
        self.assertEqual(re.findall(r"SUM (\d+)", result.out), ["10"] * 4, result.out)


class GpuTest(slurm_test_case.SlurmTest):
    NODES = "1"
    GPUS = 2

    def local_ranks(self, *options, env=None):
        place = self.write("place.py", PLACE)
        result = self.srun("-N1", "-n2", *options, DDPRUN, place, env=env)
        self.assertEqual(result.code, 0, result.out)
        return [place["LOCAL_RANK"] for place in result.places()]

    def test_local_rank_is_a_gpu_that_the_task_sees(self):
        self.assertEqual(self.local_ranks("--gpus-per-task=1"), ["0", "0"])
        self.assertEqual(self.local_ranks("--gpus=2", "--gpu-bind=single:1"), ["0", "0"])
        self.assertEqual(self.local_ranks("--gpus-per-node=2"), ["0", "1"])
        # As in a batch script of --gpus-per-task=1.
        batch = {"SLURM_GPUS_PER_TASK": "1"}
        self.assertEqual(self.local_ranks("--gpu-bind=none", env=batch), ["0", "1"])


if __name__ == "__main__":
    slurm_test_case.main()
