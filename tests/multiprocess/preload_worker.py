"""The script of preload_test.py: writes what a rank is to FOLDER/NAME.RANK, and trains with torch.

Usage: preload_worker.py show NAME | preload_worker.py train BACKEND
"""

import atexit
import gc
import inspect
import json
import multiprocessing
import os
import pickle
import random
import resource
import signal
import sys
import threading


class Point:
    """A class of __main__ for pickle and for processes that are spawned."""

    def __init__(self, x):
        self.x = x


def descriptors():
    """Where the open descriptors lead, without the numbers of pipes."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}").split(":[")[0])
        except OSError:
            continue
    return sorted(found)


def show(name):
    main = sys.modules["__main__"]
    with open("/proc/self/cmdline") as file:
        command = file.read()
    of_one_job = ("DDPRUN_", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "TORCH_NCCL_DEBUG_INFO")
    shown = {
        "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path,
        "flags": repr(sys.flags),
        "main": sorted(main.__dict__), "name": __name__, "doc": __doc__, "stdin": sys.stdin.read(),
        "file": __file__, "spec": getattr(main.__spec__, "name", None), "package": __package__,
        "loader": type(main.__loader__).__name__, "cached": main.__dict__.get("__cached__"),
        "stack": [(frame.filename, frame.function) for frame in inspect.stack()],
        "env": {k: v for k, v in os.environ.items() if not k.startswith(of_one_job)},
        "env_names": sorted(os.environ), "cwd": os.getcwd(), "command": command,
        "thread": threading.main_thread().native_id == os.getpid(),
        "threads": len(os.listdir("/proc/self/task")), "alive": threading.active_count(),
        "handlers": [repr(signal.getsignal(one)) for one in signal.valid_signals()],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "descriptors": descriptors(),
        "inherited": os.get_inheritable(int(os.environ["DDPRUN_NODE_MEMORY_FD"])),
        "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "leads": os.getsid(0) == os.getpid(),
        "streams": [(s.name, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines)
                    for s in (sys.stdin, sys.stdout, sys.stderr)],
        "parent": repr(multiprocessing.parent_process()), "cpus": sorted(os.sched_getaffinity(0)),
        "site": getattr(sys, "site_of_the_user", None), "enabled": gc.isenabled(),
        "pickled": pickle.loads(pickle.dumps(Point(3))).x,
    }
    with open("/proc/self/comm") as file:
        shown["comm"] = file.read()
    if "torch" in os.environ.get("USE", ""):
        import numpy
        import torch
        numpy.ones((300, 300)) @ numpy.ones((300, 300))  # OpenBLAS uses its threads
        shown["torch"] = [torch.get_num_threads(), torch.get_num_interop_threads(),
                          len(os.listdir("/proc/self/task")), torch.__config__.parallel_info()]
        seeds = [torch.initial_seed(), float(numpy.random.rand())]
    else:
        seeds = []
    seeds += [random.random(), os.urandom(4).hex(), multiprocessing.current_process().authkey.hex()]
    rank = os.environ["RANK"]
    with open(os.path.join(os.environ["FOLDER"], f"{name}.{rank}"), "w") as file:
        json.dump([shown, seeds], file)
    atexit.register(lambda: print(f"rank {rank} leaves", flush=True))


def square(point, queue):
    queue.put((point.x * point.x, os.environ["RANK"]))


def train(backend):
    import torch
    import torch.distributed as dist
    if backend == "ddprun":
        import ddprun.torch  # noqa: F401, registers the backend
    dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 2))
    sampler = torch.utils.data.DistributedSampler(data)
    for inputs, targets in torch.utils.data.DataLoader(data, 4, sampler=sampler, num_workers=2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        print(f"rank {rank} loss {loss.item():.9f}", flush=True)
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=square, args=(Point(7), queue))
        process.start()
        print(f"rank {rank} {method} {queue.get()}", flush=True)
        process.join()
    gathered = [None, None]
    dist.all_gather_object(gathered, Point(rank))
    print(f"rank {rank} gathers {[point.x for point in gathered]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    {"show": show, "train": train}[sys.argv[1]](sys.argv[2])
    if sys.argv[2] == "gloo":
        # PyTorch's Gloo thread may still free a tensor or a callback, with Python's lock. If Python
        # ends meanwhile, it ends that thread, and with it the process: by SIGABRT.
        os._exit(0)
