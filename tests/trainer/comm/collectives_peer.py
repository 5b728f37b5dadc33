"""Does the same as collectives_main.cc, by torch.distributed with Gloo: writes FILE.<rank>."""

import sys

import torch
import torch.distributed as dist


def values(count, rank, salt):
    return ((torch.arange(count) * 7 + rank * 31 + salt * 13) % 101).float()


def reductions(n, show):
    rank, size = dist.get_rank(), dist.get_world_size()
    ops = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
    for name, op in ops.items():
        tensor = values(n, rank, 1)
        dist.all_reduce(tensor, op)
        show(f"all_reduce {name}", tensor)
        tensor = values(n, rank, 2)
        dist.reduce(tensor, size - 1, op)
        if rank == size - 1:
            show(f"reduce {name}", tensor)
    output = torch.zeros(n)
    dist.reduce_scatter_tensor(output, values(n * size, rank, 3))
    show("reduce_scatter", output)


def copies(n, show):
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        tensor = values(n, rank, 4 + root)
        dist.broadcast(tensor, root)
        show("broadcast", tensor)
        output = torch.zeros(n)
        parts = [values(n, to, 20 + root) for to in range(size)] if rank == root else None
        dist.scatter(output, parts, root)
        show("scatter", output)
        gathered = [torch.zeros(n) for _ in range(size)] if rank == root else None
        dist.gather(values(n, rank, 40 + root), gathered, root)
        if rank == root:
            show("gather", torch.cat(gathered))
    everything = torch.zeros(n * size)
    dist.all_gather_into_tensor(everything, values(n, rank, 60))
    show("all_gather", everything)


def exchanges(n, show):
    rank, size = dist.get_rank(), dist.get_world_size()
    output = torch.zeros(n * size)
    dist.all_to_all_single(output, values(n * size, rank, 61))
    show("all_to_all", output)
    send = [n + rank + 2 * peer for peer in range(size)]
    receive = [n + peer + 2 * rank for peer in range(size)]
    output = torch.zeros(sum(receive))
    dist.all_to_all_single(output, values(sum(send), rank, 62), receive, send)
    show("all_to_all splits", output)
    arrived = torch.zeros(n)
    sending = dist.isend(values(n, rank, 63), (rank + 1) % size, tag=5)
    dist.recv(arrived, (rank - 1) % size, tag=5)
    sending.wait()
    show("send_recv", arrived)
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    with open(f"{sys.argv[1]}.{dist.get_rank()}", "w") as file:

        def show(name, tensor):
            numbers = " ".join(str(value) for value in tensor.long().flatten().tolist())
            file.write(f"{name} {numbers}\n")

        for n in (1, 17, 5000, 300007):
            reductions(n, show)
            copies(n, show)
            exchanges(n, show)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
