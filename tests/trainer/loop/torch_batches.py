"""The batches that the ranks of a job read, for a peer in PyTorch that trains in one process."""

import itertools

from torch.utils.data import DistributedSampler


def whole_batches(samples, ranks, batch, seed):
    """Yields for each step, without end, the places of the samples of all ranks, rank by rank.
    `batch` is the number of samples of a rank in a step."""
    for epoch in itertools.count():
        shares = []
        for rank in range(ranks):
            sampler = DistributedSampler(range(samples), num_replicas=ranks, rank=rank, seed=seed)
            sampler.set_epoch(epoch)
            shares.append(list(sampler))
        for begin in range(0, len(shares[0]), batch):
            yield [i for share in shares for i in share[begin:begin + batch]]
