"""The virtual hosts themselves: apart, joined, and gone afterwards."""

import os
import subprocess
import sys
import tempfile
import unittest
import uuid

import harness
import hosts_test_case
import virtual_hosts

LISTEN = """
import socket, sys
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listens", flush=True)
    connection, peer = server.accept()
    print(peer[0], connection.recv(100).decode())
"""
CONNECT = """
import socket
with socket.create_connection(("host1", 7000)) as connection:
    connection.sendall(socket.gethostname().encode())
"""


class VirtualHosts(unittest.TestCase):
    def test_reach_each_other_by_name_and_nobody_else(self):
        with virtual_hosts.Hosts(2) as hosts:
            listener = hosts[1].start(
                sys.executable, "-c", LISTEN, stdout=subprocess.PIPE, text=True
            )
            self.assertEqual(listener.stdout.readline(), "listens\n")
            hosts[0].run(sys.executable, "-c", CONNECT)
            self.assertEqual(listener.communicate()[0], f"{hosts[0].address} host0\n")
            self.assertEqual(os.listdir("/sys/class/net").count("port0"), 0)
            interfaces = hosts[0].run("ls", "/sys/class/net").split()
            self.assertLessEqual({"eth0", "lo"}, set(interfaces))
            self.assertNotIn("default", hosts[0].run("ip", "route"))

    def test_have_shared_memory_and_private_folders_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, \
                virtual_hosts.Hosts(2, private=[folder]) as hosts:
            for place in ("/dev/shm", folder):
                hosts[0].run("touch", place + "/of_host0")
                self.assertEqual(hosts[0].run("ls", place), "of_host0\n")
                self.assertEqual(hosts[1].run("ls", place), "")
                self.assertFalse(os.path.exists(place + "/of_host0"))

    def test_pass_exit_codes_and_signals(self):
        with virtual_hosts.Hosts(1) as hosts:
            self.assertEqual(hosts[0].start("sh", "-c", "exit 42").wait(), 42)
            sleeper = hosts[0].start("sleep", "1000")
            sleeper.terminate()
            self.assertEqual(sleeper.wait(), -15)

    def test_take_all_their_processes_along_when_their_maker_is_killed(self):
        mark = "mark" + uuid.uuid4().hex
        maker = subprocess.Popen(
            [sys.executable, "-c", "import sys, virtual_hosts\n"
             "hosts = virtual_hosts.Hosts(2)\n"
             "hosts[1].start('sh', '-c', 'setsid sleep 1000 & echo started; sleep 1000')\n"
             "sys.stdin.read()"],
            env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)),
                 "MARK": mark},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with maker:
            self.assertEqual(maker.stdout.readline(), "started\n")
            self.assertGreater(len(harness.processes_with(mark)), 5)
            maker.kill()
        harness.wait_until(lambda: not harness.processes_with(mark), "the hosts' processes to end")


if __name__ == "__main__":
    hosts_test_case.main()
