"""Whole runs with run.device "cuda" through the real libtorch_cuda, on a stand-in for CUDA and NCCL
(docs/gpu.md): the losses of the CPU, and what is said when a rank fails."""

import os
import pathlib
import signal

import harness
import training

STANDIN = os.environ["STANDIN_FOLDER"]
DEADLINE_OF_RANKS_S = 5
ZERO = ("zero1", "zero2", "zero3")


def started(pid):
    """The time of a process's start, in ticks of the clock since the machine's."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


class OnTheStandIn(training.TrainingTest):
    def env(self, **more):
        # A line for each launch, of all ranks.
        standin = {"STANDIN_LAUNCHES": self.path("launches"), "FAKE_GPUS": "8",
                   "LD_PRELOAD": os.path.join(STANDIN, "libcudart.so.13"),
                   "LD_LIBRARY_PATH": STANDIN,
                   "DDPRUN_CUDA_MODULE": os.path.join(STANDIN, "libstandin_cuda.so")}
        return super().env(**(standin | more))

    def losses_of(self, name, ranks, config):
        config["run"].update(name=name, output_dir="runs/{name}")
        job = self.run_ddprun(f"--nproc_per_node={ranks}", self.write_config(config))
        self.assertEqual(job.returncode, 0, job.err)
        # The stand-in, NCCL's process group and a graph that is not used say so on stderr.
        self.assertEqual(job.err, "")
        losses = self.losses(name)
        self.assertGreater(len(set(losses)), 1, "it learns")
        return losses

    def compare(self, make_config, ranks=1, tolerance=1e-5, mesh="", **sections):
        """The losses on CUDA are those on the CPU."""
        losses = {}
        for device in ("cpu", "cuda"):
            config = make_config(**sections)
            config["run"]["device"] = device
            if device == "cpu":
                config["training"].pop("cuda_graph", None)
            losses[device] = self.losses_of(device + mesh, ranks, config)
        largest = max(abs(one - other) for one, other in zip(*losses.values(), strict=True))
        print(f"{self._testMethodName} {mesh}: largest difference of losses: {largest:.2e}")
        self.assertLess(largest, tolerance)
        self.assertEqual(self.metrics("cuda" + mesh)[0]["device"], "cuda:0")

        with open(self.path("launches")) as file:
            launches = file.read()
        os.remove(file.name)
        if ranks > 1:
            self.assertIn("ncclAllReduce", launches)
        self.assertEqual("graph of" in launches, "cuda_graph" in sections.get("training", {}))
        return launches

    def test_one_rank_of_a_small_model(self):
        self.compare(training.toy_config)

    def test_one_rank_of_a_gpt(self):
        launches = self.compare(training.gpt_config)
        self.assertNotIn("NormTwoOps", launches, "one kernel takes the norms of many gradients")

    def compare_in_bf16(self, make_config, most_launches, **keys):
        """Returns the launches of the last step but one, and looks at the rows of its products."""
        launches = self.compare(make_config, tolerance=5e-2,
                                training={"precision": "bf16", **keys})
        self.assertIn("cublasGemmEx", launches)
        lines = launches.splitlines()
        self.assertEqual([line for line in lines if line.startswith("unaligned")], [])
        updates = [place for place, line in enumerate(lines) if "fused_adamw" in line]
        ends = [place for place in updates if place + 1 not in updates]
        of_step = lines[ends[-2] + 1:ends[-1] + 1]
        print(f"{self._testMethodName}: {len(of_step)} launches")
        self.assertLess(len(of_step), most_launches)
        return of_step

    def assert_before(self, lines, word):
        """A product comes right before the kernel with this word."""
        before = {lines[place - 1] for place, line in enumerate(lines) if word in line}
        self.assertEqual(before, {"cublasGemmEx"}, "nothing copies the scores for their loss")

    def test_one_rank_of_a_gpt_in_bf16(self):
        lines = self.compare_in_bf16(training.gpt_config, 115)
        self.assert_before(lines, "ddprun_losses_Bf16")
        self.assertEqual(sum("ddprun_norm_Bf16" in line for line in lines), 5, "of two layers")
        self.assertEqual(sum("ddprun_norm_gradients_Bf16" in line for line in lines), 5)
        self.assertNotIn("ayer_norm", "".join(lines))

    def test_one_rank_of_a_gpt_without_fused_kernels(self):
        lines = self.compare_in_bf16(training.gpt_config, 155, fused_kernels=False)
        self.assert_before(lines, "oftmax")
        self.assertNotIn("ddprun_", "".join(lines))

    def test_goes_without_fused_kernels(self):
        """A broken NVRTC costs speed, not the run."""
        folder = pathlib.Path(self.path("broken"))
        folder.mkdir()
        (folder / "libnvrtc.so.13").write_text("no library")
        config = training.gpt_config(run={"device": "cuda", "max_steps": 2})
        job = self.run_ddprun(self.write_config(config),
                              env={"LD_LIBRARY_PATH": f"{folder}:{STANDIN}"})
        self.assertEqual(job.returncode, 0, job.err)
        self.assertIn("fused kernels: not used: ", job.out)
        self.assertIn("libnvrtc.so.13", job.out)

    def test_one_rank_of_a_bert_in_bf16(self):
        self.compare_in_bf16(self.bert(steps=4), 132)

    def test_one_rank_of_a_bert(self):
        self.compare(self.bert(steps=4))

    def test_one_rank_of_a_llama(self):
        self.compare(self.llama(steps=4))

    def test_one_rank_with_images(self):
        self.compare(self.fresh({"type": "cnn", "channels": [8, 16], "hidden_size": 32},
                                self.image_data(64, 32), steps=4))

    def test_one_rank_with_batch_norm(self):
        self.compare(self.fresh({"type": "resnet18"}, self.image_data(64, 32), steps=2),
                     tolerance=1e-4)

    def test_a_graph_of_one_rank(self):
        self.compare(training.gpt_config, training={"cuda_graph": True})

    def test_a_graph_of_two_ranks(self):
        self.compare(training.gpt_config, 2, training={"cuda_graph": True},
                     optimizer={"learning_rate_factors": {"wte": 5, "h.0": 0.2}})

    def test_averages_beside_a_graph(self):
        text = {"validation_files": [os.path.join(training.GOLDEN, "text.txt")],
                "max_eval_samples": 16}
        self.compare(training.gpt_config, training={"cuda_graph": True}, data=text,
                     optimizer={"ema_decay": 0.7}, evaluation={"eval_steps": 2})
        for one, other in zip(*(self.losses(run, "validation") for run in ("cpu", "cuda")),
                              strict=True):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def compare_keys(self, ranks, *sections):
        for number, of_run in enumerate(sections):
            tolerance = 1e-3 if "16" in str(of_run) else 1e-5
            with self.subTest(**of_run):
                self.compare(training.gpt_config, ranks, tolerance, mesh=str(number), **of_run)

    def test_keys_of_one_rank(self):
        self.compare_keys(
            1,
            *({"training": keys} for keys in (
                {"label_smoothing": 0.1}, {"label_smoothing": 0.1, "precision": "bf16"},
                {"precision": "fp16"}, {"gradient_checkpointing": True}, {"lora_r": 4},
                {"lora_r": 4, "precision": "bf16"}, {"max_norm_jump": 2},
                {"max_grad_value": 0.001}, {"max_grad_norm": 0}, {"freeze": ["h.0"]})),
            {"optimizer": {"type": "sgd", "momentum": 0.9, "nesterov": True}},
            {"report": {"state_hashes": True}}, {"strategy": {"check_finite": True}},
            {"scheduler": {"range_test": [1e-5, 1e-2]}})

    def test_keys_of_two_ranks(self):
        free = {"training": {"max_grad_norm": 0}}
        self.compare_keys(
            2,
            *({"strategy": keys} for keys in (
                {"comm_hook": "bf16"}, {"comm_hook": "fp16"},
                {"comm_hook": "post_local_sgd", "post_local_sgd_start_step": 2,
                 "post_local_sgd_period": 2},
                {"overlap": "none"}, {"find_unused_parameters": True}, {"static_graph": True},
                {"bucket_cap_mb": "auto"})),
            {"strategy": {"overlap": "step"}, **free}, {"strategy": {"overlap": "both"}, **free},
            {"strategy": {"optimizer_in_backward": True}, **free},
            {"strategy": {"type": "zero2"}, "optimizer": {"ema_decay": 0.5}},
            {"strategy": {"type": "zero3"}, "training": {"precision": "bf16"}},
            {"training": {"virtual_ranks": 4}})

    def test_commands_take_the_device(self):
        """They write what they write on the CPU."""
        self.train(self.bert(steps=2)())
        self.script("other.tsv", "text\tlabel\nw1 w2 w3\ta\nw4 w5 w6 w7\tb\n")
        for command in ("predict", "evaluate --json"):
            name, *flags = command.split()
            (one, *_), (other, *_) = (
                self.use(name, "gpt", "other.tsv", *flags, f"--device={device}")
                for device in ("cpu", "cuda"))
            for key in {"loss", "accuracy"} & one.keys():
                self.assertAlmostEqual(one[key], other[key], delta=1e-6)
            self.assertEqual(one.get("class"), other.get("class"))
        os.remove(self.path("launches"))
        texts = [self.written_by("generate", os.path.join(training.GOLDEN, "gpt_init"),
                                 "--prompt=The", "--max-new-tokens=20", f"--device={device}")
                 for device in ("cpu", "cuda")]
        self.assertEqual(*texts)
        self.assertTrue(os.path.exists(self.path("launches")), "the device has computed")

    def test_ddp_of_two_ranks(self):
        self.compare(training.gpt_config, 2, strategy={"type": "ddp", "bucket_cap_mb": 0.02,
                                                       "first_bucket_mb": 0.01})

    def test_ddp_of_four_ranks(self):
        self.compare(training.toy_config, 4)

    def test_ddp_of_eight_ranks(self):
        self.compare(training.toy_config, 8)

    def test_zero1(self):
        self.compare(training.gpt_config, 2, strategy={"type": "zero1"})

    def test_zero2(self):
        self.compare(training.gpt_config, 2, strategy={"type": "zero2"})

    def test_zero3(self):
        self.compare(training.gpt_config, 2, strategy={"type": "zero3"})

    def test_tensor_parallel(self):
        self.compare(training.gpt_config, 2, strategy={"type": "tensor_parallel"})

    def test_pipeline(self):
        launches = self.compare(training.gpt_config, 2, strategy={"type": "pipeline"},
                                training={"gradient_accumulation_steps": 2})
        # Activations and gradients do not go through the host.
        self.assertIn("ncclSend", launches)
        self.assertEqual(launches.count("ncclSend"), launches.count("ncclRecv"))

    def compare_meshes(self, ranks, meshes):
        gpt = self.fresh({"type": "gpt", "hidden_size": 32, "num_hidden_layers": 8,
                          "num_attention_heads": 8}, training.gpt_config()["data"], steps=3)
        for number, strategy in enumerate(meshes):
            with self.subTest(ranks=ranks, **strategy):
                self.compare(gpt, ranks, mesh=str(number), strategy=strategy,
                             training={"per_device_train_batch_size": 4,
                                       "gradient_accumulation_steps": 2})

    def test_meshes_of_four_ranks(self):
        self.compare_meshes(4, [
            *({"type": name} for name in (*ZERO, "tensor_parallel", "pipeline")),
            {"type": "zero3", "shard_size": 2},
            {"type": "zero3", "tensor_parallel_size": 2},
            {"type": "tensor_parallel", "tensor_parallel_size": 2},
            {"type": "pipeline", "pipeline_parallel_size": 2, "tensor_parallel_size": 2}])

    def test_meshes_of_eight_ranks(self):
        self.compare_meshes(8, [
            *({"type": name} for name in (*ZERO, "tensor_parallel", "pipeline")),
            {"type": "zero3", "shard_size": 2, "tensor_parallel_size": 2},
            {"type": "zero1", "pipeline_parallel_size": 2},
            {"type": "pipeline", "pipeline_parallel_size": 2, "tensor_parallel_size": 2}])

    def test_goes_on_from_a_checkpoint(self):
        runs = (("all", 6, {}), ("first", 3, {}), ("first", 6, {"resume": "auto"}))
        for name, steps, resume in runs:
            config = training.gpt_config(run={"device": "cuda", "max_steps": steps, **resume},
                                         strategy={"type": "zero1"})
            config["scheduler"] = {"lr_scheduler_type": "constant"}
            losses = self.losses_of(name, 2, config)
            if name == "all":
                whole = losses
        self.assertEqual(losses[-3:], whole[-3:])

    def running(self, *options, **sections):
        """A job of two ranks that does not end by itself, and the pids of its ranks."""
        config = training.gpt_config(run={"device": "cuda", "max_steps": 100000000},
                                     comm={"train_timeout_seconds": DEADLINE_OF_RANKS_S},
                                     **sections)
        job = self.start("--nproc_per_node=2", *options, self.write_config(config))
        while not job.stdout.readline().startswith("step"):
            self.assertIsNone(job.poll(), "training did not begin")
        # The template comes first, then its ranks in their order. Numbers of processes begin anew
        # after the largest one, so the time of the start comes first.
        _, *ranks = sorted((pid for pid in harness.processes_with(self.mark)
                            if os.readlink(f"/proc/{pid}/exe").endswith("ddp-trainer")),
                           key=lambda pid: (started(pid), pid))
        self.assertEqual(len(ranks), 2)
        return job, ranks

    def names_a_rank_that_was_killed(self, rank=1, **sections):
        job, ranks = self.running(**sections)
        os.kill(ranks[rank], signal.SIGKILL)
        self.finish(job)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn(f"Rank {rank}", job.err)
        self.assertIn("SIGKILL", job.err)
        self.assert_nothing_left()

    def names_a_rank_that_hangs(self, rank=1, **sections):
        job, ranks = self.running(**sections)
        os.kill(ranks[rank], signal.SIGSTOP)
        self.finish(job)
        self.assertNotEqual(job.returncode, 0)
        # It is missed in a collective over the host: at once, or after NCCL's watchdog. Or the next
        # stage misses the shape of its message.
        self.assertRegex(job.err, rf"did not come to .* in time: {rank}\.|"
                                  rf"The message from rank {rank} .*did not come")
        self.assert_nothing_left()

    def test_names_a_rank_that_was_killed(self):
        self.names_a_rank_that_was_killed()

    def test_names_a_rank_that_hangs(self):
        self.names_a_rank_that_hangs()

    def test_names_a_stage_that_was_killed(self):
        self.names_a_rank_that_was_killed(rank=0, strategy={"type": "pipeline"})

    def test_names_the_first_stage_if_it_hangs(self):
        self.names_a_rank_that_hangs(rank=0, strategy={"type": "pipeline"})

    def test_names_the_last_stage_if_it_hangs(self):
        self.names_a_rank_that_hangs(rank=1, strategy={"type": "pipeline"})

    def test_ends_a_hang_in_a_graph(self):
        """NCCL's watchdog does not see collectives of graphs, and both hosts still meet."""
        config = training.gpt_config(
            run={"device": "cuda", "max_steps": 100000000}, training={"cuda_graph": True},
            comm={"train_timeout_seconds": DEADLINE_OF_RANKS_S})
        job = self.run_ddprun("--nproc_per_node=2", "--hang_timeout=8", self.write_config(config),
                              env={"STANDIN_NETWORK_BREAKS_AT": "100"})
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("--hang_timeout", job.err)
        self.assertNotIn("Watchdog caught", job.err)
        with open(self.path("launches")) as launches:
            self.assertIn("graph of", launches.read())

    def test_keeps_no_step_whose_gradients_were_not_summed(self):
        # Both ranks lose NCCL's network, and no collective over the host shows it.
        config = training.gpt_config(
            run={"device": "cuda"}, comm={"train_timeout_seconds": DEADLINE_OF_RANKS_S},
            checkpoint={"save_steps": 1})
        job = self.run_ddprun("--nproc_per_node=2", self.write_config(config),
                              env={"STANDIN_NETWORK_BREAKS_AT": "3"})
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("GPU COLLECTIVE FAILED", job.err)
        self.assertEqual([row["step"] for row in self.metrics("gpt") if "loss" in row], [1])
        self.assertLessEqual(set(os.listdir(self.path("runs/gpt/checkpoints"))),
                             {"latest", "step-1"})

    def test_says_that_memory_is_not_enough(self):
        config = training.gpt_config(run={"device": "cuda"})
        job = self.run_ddprun("--nproc_per_node=1", self.write_config(config),
                              env={"STANDIN_MEMORY": str(1 << 20)})
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("OUT OF GPU MEMORY", job.err)

    def test_says_that_the_device_failed(self):
        config = training.gpt_config(run={"device": "cuda"})
        job = self.run_ddprun("--nproc_per_node=1", self.write_config(config),
                              env={"STANDIN_BREAKS_AT": "500"})
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("GPU FAILED", job.err)
        self.assertIn("an illegal memory access was encountered", job.err)


if __name__ == "__main__":
    harness.main()
