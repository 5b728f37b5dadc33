"""PyTorch over the network: ddprun on one host, torchrun on the other, Gloo between them."""

import os
import sys

import hosts_test_case

BIN = os.path.dirname(sys.executable)
# The sum of all ranks' numbers, and where the other host's end of Gloo's connections is.
WORKER = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
with open("/proc/net/tcp") as file:
    peers = {line.split()[2].split(":")[0] for line in list(file)[1:] if line.split()[3] == "01"}
print(dist.get_rank(), value.item(), sorted(peers - {"0100007F"}))
dist.barrier()
dist.destroy_process_group()
"""


def as_kernel_writes(address):
    return "".join(f"{int(byte):02X}" for byte in reversed(address.split(".")))


class MixedHosts(hosts_test_case.HostsTest):
    def test_sum_over_the_network_under_ddprun_and_torchrun(self):
        worker = self.script("worker.py", WORKER)
        env = {"OMP_NUM_THREADS": "1", "PATH": BIN + ":" + os.environ["PATH"]}
        nodes = [
            self.start_on(self.hosts[0], *self.static(0), worker, env=env),
            self.start_on(self.hosts[1], *self.static(1), worker, env=env,
                          program=os.path.join(BIN, "torchrun")),
        ]
        self.finish_all(nodes)
        for rank, node in enumerate(nodes):
            other = as_kernel_writes(self.hosts[1 - rank].address)
            self.assertEqual(node.out.split(" ")[:2], [str(rank), "3.0"])
            self.assertIn(other, node.out)


if __name__ == "__main__":
    hosts_test_case.main()
