"""ddp-checkpoint-speed with PyTorch's ways to save: checkpoint.py SIDE FOLDER BYTES THREADS SAVES
STEP_SECONDS. SIDE: torch.save, dcp.save (torch.distributed.checkpoint), dcp.async_save."""

import json
import os
import pathlib
import resource
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

WIDTH = 2048
BASELINE_STEPS = 12


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory_mib(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0


class Training:
    def __init__(self, size, step_seconds):
        self.state = [torch.rand(WIDTH, WIDTH) for _ in range(max(size // (WIDTH * WIDTH * 4), 3))]
        self.inputs = torch.rand(64, WIDTH)
        for _ in range(2):
            self.step()
        begin = time.perf_counter()
        self.compute()
        computing = time.perf_counter() - begin
        self.update()
        rows = 64 * (step_seconds - (time.perf_counter() - begin - computing)) / computing
        self.inputs = torch.rand(max(int(rows), 1), WIDTH)

    def compute(self):
        for weight in self.state[::3]:
            torch.mm(self.inputs, weight)

    def update(self):
        for tensor in self.state:
            tensor.mul_(0.999)

    def step(self):
        begin = time.perf_counter()
        self.compute()
        self.update()
        return time.perf_counter() - begin

    def named(self):
        return {f"state.{i}": tensor for i, tensor in enumerate(self.state)}


def save(side, state, folder):
    """Begins to save, or saves; returns what tells whether it is done."""
    if side == "torch.save":
        folder.mkdir(parents=True)
        torch.save(state, folder / "state.pt")
    elif side == "dcp.save":
        dcp.save(state, checkpoint_id=folder)
    else:
        return dcp.async_save(state, checkpoint_id=folder)
    return None


def main():
    side, folder, size, threads, saves, step_seconds = sys.argv[1:]
    torch.set_num_threads(int(threads))
    folder = pathlib.Path(folder)
    if side == "dcp.async_save":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    training = Training(int(size), float(step_seconds))
    memory = memory_mib("VmRSS")
    with torch.no_grad():
        for number in range(int(saves)):
            cpu_begin = cpu_seconds()
            step = statistics.median(training.step() for _ in range(BASELINE_STEPS))
            step_cpu = (cpu_seconds() - cpu_begin) / BASELINE_STEPS
            cpu, begin = cpu_seconds(), time.perf_counter()
            saving = save(side, training.named(), folder / f"step-{number}")
            stall = time.perf_counter() - begin
            longest, steps, commit = 0, 0, stall
            while steps == 0 or (saving and not saving.done()):
                taken = training.step()
                longest = max(longest, (taken if steps else time.perf_counter() - begin) - step)
                steps += 1
            window = time.perf_counter() - begin
            if saving:
                saving.result()
                commit = window  # found out between two steps
            print(json.dumps({"step": step, "stall": stall, "longest": longest,
                              "added": 100 * (window / (steps * step) - 1), "commit": commit,
                              "cpu": cpu_seconds() - cpu - steps * step_cpu,
                              "memory": memory_mib("VmHWM") - memory}), flush=True)
            shutil.rmtree(folder / f"step-{number}")
    if dist.is_initialized():
        dist.destroy_process_group()


main()
