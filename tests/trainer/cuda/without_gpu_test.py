"""Whole runs on a machine without a GPU: a CPU's run knows nothing of CUDA, and asked for a GPU it
says what is missing. A stand-in for the driver's library (tests/base/fake_nvml.cc) has GPUs."""

import glob
import os
import re
import subprocess
import sys

import harness
import training

TRAINER = os.environ["DDPRUN_TRAINER_PROGRAM"]
DRIVER = {"LD_LIBRARY_PATH": os.environ["FAKE_NVML"]}


def has_gpu():
    return any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev"))


class WithoutGpu(training.TrainingTest):
    def config(self, device, **run):
        run = {"device": device, "output_dir": "runs/{name}", "max_steps": 3, **run}
        return self.write_config(training.toy_config(run=run))

    def refused(self, *ddprun, **env):
        job = self.run_ddprun(*ddprun, self.config("cuda"), env=env)
        self.assertEqual(job.returncode, 2, job.err)
        self.assertIn('run.device "cpu"', job.err)
        return job.err

    def test_devices_of_one_process_are_looked_for_as_well(self):
        strategy = {"type": "dp", "devices": ["cuda:0", "cuda:1"]}
        config = self.write_config(training.toy_config(strategy=strategy))
        for env, what in (({}, "NVIDIA's driver is not there"), (DRIVER, "CUDA sees no GPU")):
            job = self.run_ddprun("--nproc_per_node=1", config, env=env)
            self.assertEqual(job.returncode, 2, job.err)
            self.assertIn(what, job.err)
        job = self.run_ddprun("--nproc_per_node=1", config)
        self.assertIn("-- strategy.devices", job.err)
        self.assertIn('"cpu" in strategy.devices', job.err)

    def loaded(self, device, ranks, **env):
        """Per process what the dynamic loader was asked for, in its own words."""
        env = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": self.path("loader"), **env}
        config = self.config(device, name=device)
        job = self.run_ddprun(f"--nproc_per_node={ranks}", config, env=env)
        self.assertEqual(job.returncode, 0, job.err)
        lines = []
        for path in glob.glob(self.path("loader.*")):
            with open(path, errors="replace") as file:
                lines += [line for line in file if re.match(r" *\d+:\s+file=", line)]
            os.remove(path)
        return job, lines

    def test_run_on_the_cpu_loads_nothing_of_cuda(self):
        listed = subprocess.run(
            [TRAINER], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}, text=True,
            stdout=subprocess.PIPE, check=True).stdout
        for device in ("cpu", "auto"):
            _, lines = self.loaded(device, 2)
            self.assertTrue(any("libtorch_cpu.so" in line for line in lines))
            for text in (listed, "".join(lines)):
                for library in ("ddprun_cuda", "torch_cuda", "c10_cuda", "nccl", "cudnn"):
                    self.assertNotIn(library, text)

    def test_names_what_is_missing(self):
        self.assertIn("NVIDIA's driver is not there", self.refused())
        self.assertIn("Driver/library version mismatch",
                      self.refused(**DRIVER, FAKE_NVML_ERROR="18"))
        self.assertIn("580.65.06, serves CUDA up to 12.4",
                      self.refused(**DRIVER, FAKE_CUDA="12040"))
        self.assertIn("NO CUDA MODULE", self.refused(**DRIVER, DDPRUN_CUDA_MODULE=""))
        self.assertIn("cannot open shared object file",
                      self.refused(**DRIVER, DDPRUN_CUDA_MODULE="/nowhere/module.so"))

    def test_a_driver_whose_gpus_cuda_does_not_see(self):
        error = self.refused("--nproc_per_node=2", **DRIVER)
        self.assertIn("CUDA sees no GPU", error)

    def test_auto_trains_on_the_cpu_with_the_module_in_the_process(self):
        self.train(training.toy_config(run={"name": "plain", "device": "cpu", "max_steps": 3}), 2)
        job, lines = self.loaded("auto", 2, **DRIVER)
        self.assertIn("there are GPUs, but training is on the CPU", job.out + job.err)
        self.assertEqual(self.losses("auto"), self.losses("plain"))
        # Opened once, by the template; CUDA's runtime begins to work in the workers that are forked
        # from it. (Libraries that only look whether the driver has a function do so when loaded.)
        opened = {line.split(":")[0] for line in lines if "libddprun_cuda.so" in line}
        asked = {line.split(":")[0] for line in lines
                 if re.search(r"file=libcuda\.so.* loaded by .*libcudart\.so", line)}
        self.assertEqual(len(opened), 1, opened)
        self.assertEqual(len(asked), 2, asked)
        self.assertTrue(opened.isdisjoint(asked), (opened, asked))


if __name__ == "__main__":
    if has_gpu():
        print("SKIPPED: this machine has a GPU")
        sys.exit(77)
    harness.main()
