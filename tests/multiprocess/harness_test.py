"""The harness finds what a test has left behind, and leaves other programs alone."""

import os
import subprocess
import sys
import uuid

import harness


class SharedMemory(harness.LauncherTest):
    def setUp(self):
        super().setUp()
        self.name = "ddprun_test_" + uuid.uuid4().hex
        self.file = "/dev/shm/" + self.name
        self.addCleanup(lambda: os.path.exists(self.file) and os.remove(self.file))

    def hold(self, script):
        """A program that creates the file and holds it until its input ends."""
        program = subprocess.Popen(
            [sys.executable, "-c", script, self.file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.addCleanup(program.wait)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        self.assertEqual(program.stdout.readline(), b"held\n")
        return program

    def test_a_file_that_nobody_holds_has_been_left(self):
        with open(self.file, "w"):
            pass
        self.assertIn(self.name, self.shared_memory_left())

    def test_an_older_file_has_not_been_left(self):
        with open(self.file, "w"):
            pass
        self.shm_before.add(self.name)
        self.assertNotIn(self.name, self.shared_memory_left())

    def test_a_file_that_a_living_program_has_open_is_its_own_until_it_ends(self):
        program = self.hold(
            "import sys; file = open(sys.argv[1], 'w'); print('held', flush=True); sys.stdin.read()"
        )
        self.assertNotIn(self.name, self.shared_memory_left())
        program.stdin.close()
        program.wait()
        self.assertIn(self.name, self.shared_memory_left())

    def test_a_file_that_a_living_program_has_mapped_is_its_own_until_it_ends(self):
        program = self.hold(
            "import mmap, os, sys\n"
            "file = open(sys.argv[1], 'w+b')\n"
            "file.truncate(4096)\n"
            "memory = mmap.mmap(os.dup(file.fileno()), 4096)\n"
            "os.closerange(3, 64)\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        self.assertNotIn(self.name, self.shared_memory_left())
        program.stdin.close()
        program.wait()
        self.assertIn(self.name, self.shared_memory_left())


if __name__ == "__main__":
    harness.main()
