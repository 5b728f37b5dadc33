"""Hosts with an address, a name and processes of their own, on one machine, joined by a switch.

A host is a set of Linux namespaces (network, host name, IPC, mounts, pids), as a container is.
Nothing of it is named and nothing appears outside of it. Its first process waits for the end of
its input, which comes when this process closes the host or ends, however: then the kernel kills
all processes of the host, and its interfaces, routes and mounts go with the last of them.

The file system is common to all hosts, as a cluster's shared one, but for /dev/shm, /sys, /proc,
/etc/hosts and the folders named in `private`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("unshare", "nsenter", "ip", "tc", "mount", "hostname")
NETWORK = "198.18.0."  # set apart for tests of network equipment by RFC 2544
DEADLINE_S = 60

# Arguments: the host's name, a file for /etc/hosts, private folders. A fresh /sys lists this host's
# interfaces; the control groups are kept for those who ask how much memory there is.
FIRST_PROCESS = """
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
shift 2
mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
mount --rbind /mnt /sys/fs/cgroup
umount -l /mnt
for folder in /dev/shm "$@"; do mount -t tmpfs tmpfs "$folder"; done
ip link set lo up
echo ready
exec env --ignore-signal=CHLD cat > /dev/null  # with CHLD ignored, the kernel reaps orphans
"""


class Impossible(Exception):
    """This machine cannot make such hosts; the text says why."""


def as_root_of_own():
    """For users who are not root: runs this program again as the root of a user namespace, where
    the kernel lets users make those."""
    if os.geteuid() != 0 and shutil.which("unshare"):
        probe = ["unshare", "--user", "--map-root-user", "--mount", "true"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            os.execvp("unshare", [*probe[:3], sys.executable, *sys.argv])


def only_child(pid):
    """The pid of a process's first child, once it has one; None when it ends without."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                children = file.read().split()
            with open(f"/proc/{pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            return None
        if children:
            return int(children[0])
        if state in "ZX":
            return None
        time.sleep(0.002)
    raise AssertionError(f"process {pid} started nothing in {DEADLINE_S} s")


def namespaces(name, *arguments):
    """Starts a host's first process; (Popen of what keeps it, its pid). Raises Impossible."""
    keeper = subprocess.Popen(
        ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--mount-proc",
         "--kill-child", "sh", "-c", FIRST_PROCESS, name, name, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if keeper.stdout.readline() != "ready\n":
        why = keeper.communicate()[1].strip().replace("\n", "; ")
        raise Impossible(f"this machine makes no namespaces for virtual hosts: {why}")
    return keeper, only_child(keeper.pid)


class Process(subprocess.Popen):
    """A process on a host. What Popen calls the process is what entered the host: it waits for
    the process and ends as that does; signals go to the process itself."""

    def send_signal(self, sig):
        child = only_child(self.pid) if self.poll() is None else None
        if child is not None:
            os.kill(child, sig)


class Host:
    """One of a Hosts' hosts."""

    def __init__(self, name, address, keeper, pid):
        self.name = name
        self.address = address
        self._keeper = keeper
        self._pid = pid

    def argv(self, *argv, cwd="/", apart=("net", "uts", "ipc", "mount", "pid")):
        """The command that runs ARGV on this host, to be started by any means. `apart`: in what it
        differs from this process; with less than all, it can itself enter other hosts."""
        enter = [f"--{namespace}" for namespace in apart]
        return ["nsenter", "--target", str(self._pid), *enter,
                "sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *map(str, argv)]

    def start(self, *argv, cwd="/", **options):
        return Process(self.argv(*argv, cwd=cwd), **options)

    def run(self, *argv, cwd="/", **options):
        """Runs a command that must succeed, and returns its output."""
        done = subprocess.run(self.argv(*argv, cwd=cwd), capture_output=True, text=True,
                              check=False, **options)
        if done.returncode != 0:
            raise AssertionError(f"{argv} on {self.name}: {done.stderr}{done.stdout}")
        return done.stdout

    def cut(self):
        """Takes the cable out: packets are lost in both directions, and nobody is told."""
        self.run("ip", "link", "set", "eth0", "down")

    def mend(self):
        self.run("ip", "link", "set", "eth0", "up")

    def power_off(self):
        """Ends all processes of the host, as a power cut does: nobody hears of it."""
        self.cut()
        self.end()

    def end(self):
        """Ends all processes of the host. The kernel closes their connections meanwhile."""
        self._keeper.stdin.close()
        self._keeper.wait()
        self._keeper.stdout.close()
        self._keeper.stderr.close()

    @property
    def on(self):
        return self._keeper.poll() is None


class Hosts:
    """A context manager; hosts[i] is a Host. `mbit`: what each host can send, and be sent, in a
    second, in 10^6 bits with all headers; None: as fast as this machine can."""

    def __init__(self, count=2, mbit=None, private=()):
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing:
            raise Impossible(f"not installed: {' '.join(missing)} (packages iproute2, util-linux, "
                             "mount, hostname)")
        self._folder = tempfile.TemporaryDirectory(prefix="hosts.")
        self.hosts = []
        self._switch = None
        try:
            self._make(count, private)
            if mbit is not None:
                self.shape(mbit)
        except BaseException:
            self.close()
            raise

    def _make(self, count, private):
        names = {f"host{i}": f"{NETWORK}{i + 1}" for i in range(count)}
        hosts_file = os.path.join(self._folder.name, "hosts")
        with open(hosts_file, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address} {name}\n" for name, address in names.items())
        self._switch = Host("switch", "", *namespaces("switch", hosts_file))
        self._switch.run("ip", "link", "add", "bridge", "type", "bridge", "forward_delay", "0")
        self._switch.run("ip", "link", "set", "bridge", "up")
        for i, (name, address) in enumerate(names.items()):
            keeper, pid = namespaces(name, hosts_file, *private)
            self.hosts.append(Host(name, address, keeper, pid))
            self._plug_in(self.hosts[i], f"port{i}", pid)

    def _plug_in(self, host, port, pid):
        # The pid is understood by who runs ip: here, in the network of the switch but not among its
        # processes.
        network = ["nsenter", "--target", str(self._switch._pid), "--net"]
        subprocess.run([*network, "ip", "link", "add", "name", port, "type", "veth", "peer", "name",
                        "eth0", "netns", str(pid)], check=True)
        self._switch.run("ip", "link", "set", port, "master", "bridge", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")

    def shape(self, mbit):
        """A token bucket at both ends of every cable. 256 KiB: several of the 64 KiB segments that
        the kernel hands over at once; the queue of 4 MiB is a switch's."""
        limit = ["tbf", "rate", f"{mbit}mbit", "burst", "256kb", "limit", "4mb"]
        for i, host in enumerate(self.hosts):
            host.run("tc", "qdisc", "replace", "dev", "eth0", "root", *limit)
            self._switch.run("tc", "qdisc", "replace", "dev", f"port{i}", "root", *limit)

    def __getitem__(self, i):
        return self.hosts[i]

    def __len__(self):
        return len(self.hosts)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for host in [*self.hosts, *([self._switch] if self._switch else [])]:
            if host.on:
                host.end()
        self._folder.cleanup()

