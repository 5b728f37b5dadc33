"""Runs ddprun on several virtual hosts and looks at what it leaves behind."""

import os
import subprocess
import sys

import harness
import virtual_hosts


class HostsTest(harness.LauncherTest):
    HOSTS = 2

    def setUp(self):
        super().setUp()
        # Private, at the same place on every host.
        self.local = os.path.join(self.folder, "local")
        os.mkdir(self.local)
        self.hosts = virtual_hosts.Hosts(self.HOSTS, private=[self.local])
        self.addCleanup(self.hosts.close)

    def start_on(self, host, *args, program=harness.DDPRUN, **options):
        env = self.env(**options.pop("env", {}))
        process = host.start(
            program, *args, env=env, cwd=self.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, **options,
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def static(self, host_rank, nproc=1):
        return [f"--nnodes={len(self.hosts)}", f"--node_rank={host_rank}",
                f"--nproc_per_node={nproc}", "--master_addr=host0", "--master_port=29500"]

    def c10d(self, nproc=1, conf=""):
        return [f"--nnodes={len(self.hosts)}", f"--nproc_per_node={nproc}", "--rdzv_backend=c10d",
                "--rdzv_endpoint=host0:29500",
                f"--rdzv_conf=join_timeout={harness.DEADLINE_S}{conf}"]

    def start_everywhere(self, flags, *target, **options):
        """One ddprun per host; `flags`: of all, or a function of the host's number."""
        return [
            self.start_on(host, *(flags(i) if callable(flags) else flags), *target, **options)
            for i, host in enumerate(self.hosts)
        ]

    def finish_all(self, nodes, code=0):
        for node in nodes:
            self.finish(node)
        for node in nodes:
            self.assertEqual(node.returncode, code, node.err)
        return nodes


def main():
    try:
        virtual_hosts.as_root_of_own()
        with virtual_hosts.Hosts(2):
            pass
    except virtual_hosts.Impossible as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
    harness.main()
