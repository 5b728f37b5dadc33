"""The backend "ddprun" of torch.distributed, for tensors on the CPU: docs/python.md.

import ddprun.torch
torch.distributed.init_process_group("ddprun")  # or "cpu:ddprun,cuda:nccl"
"""

import atexit
import collections
import pathlib

import torch
import torch.distributed as dist

from .built_for import TORCH

_found = ".".join(torch.__version__.split(".")[:2])
if _found != TORCH:
    raise ImportError(f"ddprun.torch was built for torch {TORCH}, but this Python has torch "
                      f"{torch.__version__}: build it with this torch, by pip wheel "
                      "--no-build-isolation ./python or by cmake -DDDPRUN_TORCH=FOLDER")
torch.ops.load_library(str(pathlib.Path(__file__).with_name("libddprun_torch.so")))

# When Python ends, it ends each thread that asks for its lock, as callbacks of futures do and
# threads that free tensors. PyTorch's code does not survive that: the process would die of SIGABRT.
# So operations that are under way and their callbacks get 2 s, and later ones stay where they are.
atexit.register(torch.ops.ddprun.settle, 2000)

# torch uses the names of groups again. So a group's keys in the store also have the number of
# groups of this name and these ranks that this process has made; it is equal on all of them.
_made = collections.Counter()


def create(options, _backend_options):
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    key = (options.group_id, tuple(ranks))
    attempt = _made[key]
    _made[key] += 1
    group = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    timeout = int(options.timeout.total_seconds() * 1000)
    torch.ops.ddprun.attach(group.boxed(), ranks, attempt, timeout)
    return group._get_backend(torch.device("cpu"))


if not hasattr(dist.Backend, "DDPRUN"):  # the wheel's autoload.py may have been faster
    dist.Backend.register_backend("ddprun", create, extended_api=True, devices=["cpu"])
