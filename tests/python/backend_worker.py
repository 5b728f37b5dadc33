"""One rank of backend_test.py: the backend "ddprun" against Gloo, case by case.

Usage: backend_worker.py CASE...
"""

import datetime
import os
import pathlib
import resource
import signal
import sys
import threading
import time

import ddprun.torch  # registers the backend
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16,
         torch.int32, torch.int64, torch.uint8, torch.bool]
SHAPES = [(), (0,), (1,), (7, 3), (5000,), (300, 1001)]


def values(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2 if dtype == torch.bool else 4, shape, generator=generator).to(dtype)


def operations(dtype):
    yield from ["SUM", "MAX", "MIN", "PRODUCT"]
    if not dtype.is_floating_point:
        yield from ["BAND", "BOR", "BXOR"]


def expected(inputs, name):
    """The reduction in rank order. Small whole numbers, so that every order gives equal bits."""
    combine = {"SUM": lambda a, b: a | b if a.dtype == torch.bool else a + b,
               "PRODUCT": lambda a, b: a & b if a.dtype == torch.bool else a * b,
               "MAX": torch.maximum, "MIN": torch.minimum, "BAND": torch.bitwise_and,
               "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}[name]
    total = inputs[0].clone()
    for one in inputs[1:]:
        total = combine(total, one)
    return total


def same(found, wanted, what):
    assert found.dtype == wanted.dtype and torch.equal(found, wanted), (what, found, wanted)


def reductions(rank, size, _gloo):
    for dtype in TYPES:
        for shape in SHAPES:
            inputs = [values(shape, dtype, 100 + r) for r in range(size)]
            for name in operations(dtype):
                wanted = expected(inputs, name)
                op = getattr(dist.ReduceOp, name)
                tensor = inputs[rank].clone()
                dist.all_reduce(tensor, op=op)
                same(tensor, wanted, (name, dtype, shape))
                tensor = inputs[rank].clone()
                dist.reduce(tensor, dst=size - 1, op=op)
                if rank == size - 1:
                    same(tensor, wanted, ("reduce", name, dtype, shape))
    strided = torch.arange(60.).reshape(6, 10).t().add(rank)  # made alike, so not contiguous
    strided = torch.empty_strided((10, 6), (1, 10)).copy_(strided)
    dist.all_reduce(strided)
    total = sum(torch.arange(60.).reshape(6, 10).t() + r for r in range(size))
    same(strided, total, "strides")


def premultiplied(rank, size, gloo):
    """NCCL's PREMUL_SUM, by a number and by a tensor. Only results are written."""
    if not hasattr(dist, "_make_nccl_premul_sum"):  # a torch without CUDA
        return
    own = values((4 * size,), torch.float32, rank) + 1
    for factor in (0.25, torch.tensor([0.25])):
        op = dist._make_nccl_premul_sum(factor)
        dist.all_reduce(wanted := own * 0.25, group=gloo)
        dist.all_reduce(found := own.clone(), op=op)
        same(found, wanted, "all_reduce")
        kept = own.clone()
        dist.reduce(kept, dst=1, op=op)
        same(kept, wanted if rank == 1 else own, "reduce")
        mine = wanted[4 * rank:4 * rank + 4]
        for scatter, given in ((dist.reduce_scatter_tensor, own),
                               (dist.reduce_scatter, list(own.chunk(size)))):
            scatter(part := torch.empty(4), given, op=op)
            same(part, mine, scatter.__name__)
        same(own, values((4 * size,), torch.float32, rank) + 1, "the input")

    def sharded(model):
        fully_shard(model, mesh=DeviceMesh.from_group(dist.group.WORLD, "cpu"))
        model.set_gradient_divide_factor(2.0 * size)
        return model

    def halved(model):
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient / 2)
        return ddp_over(gloo)(model)
    torch.testing.assert_close(train(sharded, rank), train(halved, rank))


def floats(rank, size, gloo):
    """Random numbers, for which the orders of summing differ a little."""
    for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
        generator = torch.Generator().manual_seed(rank)
        own = torch.randn(20_001, generator=generator).to(dtype)
        near = {"rtol": 8 * torch.finfo(dtype).eps, "atol": 8 * torch.finfo(dtype).eps}
        for name in ["SUM", "MAX", "MIN", "PRODUCT"]:
            mine, theirs = own.clone(), own.clone()
            dist.all_reduce(mine, op=getattr(dist.ReduceOp, name))
            dist.all_reduce(theirs, op=getattr(dist.ReduceOp, name), group=gloo)
            torch.testing.assert_close(mine, theirs, **near)
        dist.all_reduce(theirs := own.clone(), group=gloo)
        dist.all_reduce(mine := own.clone(), op=dist.ReduceOp.AVG)
        torch.testing.assert_close(mine, theirs / size, **near)
        several = [own[:7].clone(), own[7:].clone()]
        both = functional.all_reduce_coalesced(several, "sum", dist.group.WORLD)
        torch.testing.assert_close(torch.cat(list(both)), theirs, **near)
        parts = functional.reduce_scatter_tensor_coalesced(
            [own[:8 * size], own[:4 * size]], "sum", [0, 0], dist.group.WORLD)
        for part, width in zip(parts, (8, 4), strict=True):
            wanted = theirs[rank * width:(rank + 1) * width]
            torch.testing.assert_close(part + 0, wanted, **near)
    taken = [(source + rank) % 3 for source in range(size)]
    given = [(rank + target) % 3 for target in range(size)]
    results = []
    for group in (None, gloo):
        result = torch.zeros(sum(taken))
        dist.all_to_all_single(result, torch.arange(sum(given)) + 10.0 * rank, taken, given,
                               group=group)
        results.append(result)
    same(*results, "all_to_all with splits")


def copies(rank, size, gloo):
    for dtype in [one for one in TYPES if one != torch.int16]:  # which Gloo refuses
        for shape in SHAPES:
            own = values(shape, dtype, 7 + rank)
            results = {}
            for group in (None, gloo):
                everything = [torch.empty_like(own) for _ in range(size)]
                dist.all_gather(everything, own, group=group)
                sent = own.clone()
                dist.broadcast(sent, src=size - 1, group=group)
                part = torch.empty_like(own)
                parts = [own.clone() for _ in range(size)] if rank == 0 else None
                dist.scatter(part, parts, src=0, group=group)
                gathered = [torch.empty_like(own) for _ in range(size)] if rank == 0 else None
                dist.gather(own, gathered, dst=0, group=group)
                results[group] = [*everything, sent, part, *(gathered or [])]
            for mine, theirs in zip(results[None], results[gloo], strict=True):
                same(mine, theirs, (dtype, shape))
    leaf = torch.nn.Parameter(torch.full((4, 4), float(rank)))
    dist.broadcast(leaf.t(), src=0)
    assert leaf.eq(0).all()
    out = torch.empty(3)
    dist.reduce_scatter_tensor(out, torch.arange(3. * size))
    same(out, size * torch.arange(3. * size)[3 * rank:3 * rank + 3], "reduce_scatter")
    out = torch.zeros(size)
    dist.all_to_all_single(out, torch.arange(size) + 100.0 * rank)
    same(out, 100.0 * torch.arange(size) + rank, "all_to_all")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    incoming = torch.empty(5)
    receiving = dist.irecv(incoming, src=(rank - 1) % size)
    dist.send(torch.full((5,), float(rank)), dst=(rank + 1) % size)
    receiving.wait()
    assert incoming.eq((rank - 1) % size).all()


def groups(rank, size, _gloo):
    for i in range(150):
        ranks = list(range(size)) if i % 2 else list(range(size))[:2]
        group = dist.new_group(ranks, backend="ddprun")
        if rank in ranks:
            tensor = torch.ones(4)
            works = [dist.all_reduce(tensor, group=group, async_op=True) for _ in range(3)]
            for work in works:
                work.wait(datetime.timedelta(seconds=60))
            assert tensor.eq(len(ranks) ** 3).all(), tensor
            if i % 3 == 0:
                dist.destroy_process_group(group)


def few_groups(rank, size, _gloo):
    """Each group of several hosts has connections of its own."""
    for i in range(12):
        ranks = [[0, 2], [1, 3], [0, 1], list(range(size))][i % 4]
        group = dist.new_group(ranks, backend="ddprun")
        if rank in ranks:
            tensor = torch.full((1000,), float(rank))
            dist.all_reduce(tensor, group=group)
            assert tensor.eq(sum(ranks)).all(), tensor


def destroyed_in_use(_rank, _size, gloo):
    """A thread uses each group while another destroys it."""
    for _ in range(20):
        group = dist.new_group(backend="ddprun")
        ended = []

        def work():
            try:
                while True:
                    dist.all_reduce(torch.ones(1000), group=group)
            except (dist.DistBackendError, ValueError) as error:  # ValueError: torch has no group
                ended.append(str(error))
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.02)
        dist.destroy_process_group(group)
        thread.join()
        assert ended
        dist.barrier(group=gloo)


def layouts(rank, size, _gloo):
    """Tensors whose elements share memory (with which Gloo writes beyond it), or lie in another
    order."""
    tensor = torch.full((1, 3), float(rank + 1)).expand(4, 3)
    dist.all_reduce(tensor)
    same(tensor, torch.full((4, 3), size * (size + 1) / 2), "all_reduce")
    dist.broadcast(tensor, 1)
    same(tensor, torch.full((4, 3), size * (size + 1) / 2), "broadcast")
    inputs = torch.arange(3. * size).reshape(3, size).t()
    output = torch.zeros(1, 3)
    dist.reduce_scatter_tensor(output, inputs)
    same(output, size * inputs[rank:rank + 1], "reduce_scatter")
    splits = [-1, 5, *[0] * (size - 2)]
    expect_error(lambda: dist.all_to_all_single(torch.zeros(4), torch.zeros(4), splits, splits),
                 "splits")


def again(_rank, size, _gloo):
    for _ in range(3):
        dist.destroy_process_group()
        dist.init_process_group("cpu:ddprun")
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.eq(size).all()


def train(wrap, rank):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5))
    model = wrap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 10, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


def ddp_over(group):
    return lambda model: torch.nn.parallel.DistributedDataParallel(model, process_group=group)


def ddp(rank, _size, gloo):
    torch.testing.assert_close(train(ddp_over(None), rank), train(ddp_over(gloo), rank))

    def compressed(group):
        """Its hook waits for collectives in callbacks of others."""
        def wrap(model):
            model = ddp_over(group)(model)
            state = powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2)
            model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
            return model
        return wrap
    torch.testing.assert_close(train(compressed(dist.group.WORLD), rank),
                               train(compressed(gloo), rank), rtol=1e-4, atol=1e-5)


def fsdp(rank, _size, gloo):
    def sharded(model):
        mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
        for layer in model:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    torch.testing.assert_close(train(sharded, rank), train(ddp_over(gloo), rank))


def nested(_rank, size, _gloo):
    """A callback that waits for a collective, in the way of torch's PowerSGD hook."""
    def inner(future):
        tensor = future.value()[0]
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]
    for _ in range(20):
        work = dist.all_reduce(torch.ones(5), async_op=True)
        assert work.get_future().then(inner).wait().eq(size * size).all()


def fork(rank, size, _gloo):
    tensor = torch.full((100_000,), float(rank))
    dist.all_reduce(tensor)
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(tensor)
        except dist.DistBackendError:
            dist.destroy_process_group()
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dist.all_reduce(tensor)
    assert tensor.eq(size * size * (size - 1) / 2).all()


def expect_error(call, *texts):
    try:
        call()
    except dist.DistBackendError as error:
        for text in texts:
            assert text in str(error), (text, str(error))
        return
    raise AssertionError("no error")


def mismatch(rank, _size, gloo):
    shape = 5 if rank == 0 else 6
    expect_error(lambda: dist.all_reduce(torch.ones(shape)), "MISMATCHED COLLECTIVES", "all_reduce")
    dist.barrier(group=gloo)
    group = dist.new_group(backend="ddprun")
    other = torch.ones(6, dtype=torch.int32 if rank == 1 else torch.float32)
    expect_error(lambda: dist.all_reduce(other, group=group), "MISMATCHED COLLECTIVES", "int32",
                 "float32")


def missing(rank, size, gloo):
    group = dist.new_group(backend="ddprun", timeout=datetime.timedelta(seconds=2))
    if rank != size - 1:
        expect_error(lambda: dist.all_reduce(torch.ones(3), group=group), "COLLECTIVE TIMED OUT",
                     f"in time: {size - 1}")
    dist.barrier(group=gloo)


def missing_at_start(rank, size, gloo):
    limit = datetime.timedelta(seconds=2)
    if rank != size - 1:
        expect_error(lambda: dist.new_group(backend="ddprun", timeout=limit), "RANKS DID NOT COME",
                     f"start of the group: {size - 1}")
    dist.barrier(group=gloo)
    os._exit(0)  # the ranks have made different numbers of groups


def failed_start(rank, size, gloo):
    """Rank 1 may not map the memory of one more group."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    if rank == 1:
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (8 << 30), limits[1]))
    expect_error(lambda: dist.new_group(backend="ddprun"), "Rank 1 could not join", "ulimit -v")
    dist.barrier(group=gloo)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=dist.new_group(backend="ddprun"))
    assert tensor.eq(size).all()


def late(rank, size, gloo):
    """wait(timeout) ends while the collective goes on."""
    tensor = torch.ones(3)
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        expect_error(lambda: work.wait(datetime.timedelta(milliseconds=300)), "ALLREDUCE",
                     "not done after the 300 ms")
        work.get_future()
    dist.barrier(group=gloo)
    if rank != 0:
        work = dist.all_reduce(tensor, async_op=True)
    work.wait(datetime.timedelta(seconds=60))
    assert tensor.eq(size).all()
    if rank == 0:
        receive = dist.irecv(tensor, src=1)
        expect_error(lambda: receive.wait(datetime.timedelta(milliseconds=300)),
                     "MESSAGE TIMED OUT", "rank 1")


def two_backends(_rank, size, _gloo):
    """The other one would be NCCL, which needs a GPU."""
    dist.destroy_process_group()
    dist.init_process_group("cpu:ddprun,cuda:gloo")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.eq(size).all()
    assert dist.group.WORLD._get_backend(torch.device("cpu")).name() == "ddprun"


def lost(source, name):
    expect_error(lambda: dist.recv(torch.ones(3), src=source), "RANK LOST", f"Rank {name} ended")


def killed(rank, size, _gloo):
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "RANK LOST", f"Rank {size - 1} ended")
    print(f"noticed after {time.monotonic() - begin:.2f} s", flush=True)
    lost(size - 1, size - 1)
    lost(None, size - 1)
    os._exit(0)


def killed_far(rank, size, _gloo):
    """Rank 3 ends. The other host hears it of rank 2, or its connection to rank 3 breaks."""
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "LOST", f"ank {size - 1}")
    os._exit(0)


def host_killed(rank, _size, _gloo):
    dist.barrier()
    if rank >= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "CONNECTION TO A RANK LOST",
                 f"rank {rank + 2}")
    os._exit(0)


def cut_off(rank, _size, _gloo):
    """The cable of ranks 2 and 3 is taken out before the operation, so that its data gets lost."""
    dist.barrier()
    folder = os.environ["CUT_FOLDER"]
    with open(f"{folder}/ready{rank}", "w"):
        pass
    while not os.path.exists(f"{folder}/cut"):
        time.sleep(0.1)
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "CONNECTION TO A RANK LOST",
                 f"rank {(rank + 2) % 4}", "nothing was heard from its host for 30 s")
    os._exit(0)


def hang(rank, _size, _gloo):
    """Rank 1 does not come."""
    if rank == 1:
        time.sleep(3600)
    group = dist.new_group([0, 2], backend="ddprun")
    if group != dist.GroupMember.NON_GROUP_MEMBER:
        dist.all_reduce(torch.ones(3), group=group)
    dist.all_reduce(torch.ones(1000))


def left(rank, size, _gloo):
    """A rank that left in order does not end a receive from any of the others."""
    if rank == 1:
        dist.destroy_process_group()
    elif rank == 2:
        lost(1, 1)
        dist.send(torch.full((3,), 7.0), dst=0)
    elif rank == 0:
        tensor = torch.zeros(3)
        assert dist.recv(tensor) == 2 and tensor.eq(7).all()
        dist.send(tensor, dst=3)
    else:
        dist.recv(torch.zeros(3), src=0)  # not earlier: this rank ends without leaving in order
    os._exit(0)


def main():
    dist.init_process_group("ddprun", timeout=datetime.timedelta(seconds=120))
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    for case in sys.argv[1:]:
        globals()[case](rank, size, gloo)
        print(f"rank {rank} did {case}", flush=True)
    dist.destroy_process_group()


main()
