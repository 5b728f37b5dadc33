"""One rank of collectives_test.py: each collective once, its result checked."""

import torch
import torch.distributed as dist


def ones(value):
    return torch.full((3,), float(value))


def same(tensor, value):
    assert torch.equal(tensor, ones(value)), (tensor, value)


def reductions(rank, size, total):
    tensor = ones(rank)
    dist.all_reduce(tensor)
    same(tensor, total)
    tensor = ones(rank)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    same(tensor, size - 1)
    tensor = ones(rank)
    dist.reduce(tensor, dst=1)
    if rank == 1:
        same(tensor, total)
    output = ones(0)
    dist.reduce_scatter(output, [ones(rank + part) for part in range(size)])
    same(output, total + size * rank)


def copies(rank, size):
    tensor = ones(rank)
    dist.broadcast(tensor, src=2)
    same(tensor, 2)
    gathered = [ones(0) for _ in range(size)]
    dist.all_gather(gathered, ones(rank))
    for source, tensor in enumerate(gathered):
        same(tensor, source)
    gathered = [ones(0) for _ in range(size)] if rank == 0 else None
    dist.gather(ones(rank), gathered, dst=0)
    for source, tensor in enumerate(gathered or []):
        same(tensor, source)
    output = ones(0)
    dist.scatter(output, [ones(10 * part) for part in range(size)] if rank == 3 else None, src=3)
    same(output, 10 * rank)
    exchanged = torch.zeros(size)
    dist.all_to_all_single(exchanged, torch.arange(size) + 100.0 * rank)
    assert torch.equal(exchanged, 100.0 * torch.arange(size) + rank), exchanged


def messages(rank, size):
    incoming = ones(0)
    receiving = dist.irecv(incoming, src=(rank - 1) % size)
    dist.send(ones(rank), dst=(rank + 1) % size)
    receiving.wait()
    same(incoming, (rank - 1) % size)


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": other} for other in range(size)], gathered
    received = [f"from {rank}"]
    dist.broadcast_object_list(received, src=4)
    assert received == ["from 4"], received
    part = [None]
    dist.scatter_object_list(part, list(range(size)) if rank == 0 else None, src=0)
    assert part == [rank], part


def groups(rank, size):
    odd = list(range(1, size, 2))
    group = dist.new_group(odd)
    if rank in odd:
        tensor = ones(rank)
        dist.all_reduce(tensor, group=group)
        same(tensor, sum(odd))
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    reductions(rank, size, sum(range(size)))
    copies(rank, size)
    messages(rank, size)
    objects(rank, size)
    groups(rank, size)
    dist.monitored_barrier()
    dist.destroy_process_group()
    print(f"rank {rank} did all", flush=True)


main()
