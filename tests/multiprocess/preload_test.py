"""ddprun --preload against the same command without it: the ranks are forked, and nothing else
differs. Needs a Python with torch."""

import _ctypes
import getpass
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

import harness

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload_worker.py")
TORCH_PACKAGE = os.environ.get("DDPRUN_TORCH_PACKAGE")  # the folder of the package ddprun.torch
# What a module writes that is imported: a line for each process that imports it.
NOTES_IMPORT = """
import os
with open(os.environ["FOLDER"] + "/imports", "a") as file:
    file.write(f"{os.getpid()}\\n")
"""


class PreloadTest(harness.LauncherTest):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.script("noted.py", NOTES_IMPORT)
        self.worker = shutil.copy(WORKER, self.path("worker.py"))

    def run_ranks(self, *argv, env=None, **options):
        env = {"PYTHON_EXEC": sys.executable, "USE": "", **(env or {})}
        return self.run_ddprun("--nproc_per_node=2", *argv, env=env, **options)

    def imports(self):
        with open(self.path("imports")) as file:
            return file.read().split()

    def template(self):
        """The pid of the worker template."""
        found = []
        for pid in harness.processes_with(self.mark):
            with open(f"/proc/{pid}/comm") as file:
                if file.read() == "ddprun-template\n":
                    found.append(pid)
        self.assertEqual(len(found), 1)
        return found[0]


class Rank(PreloadTest):
    def assert_same(self, *argv, preload="noted,json", env=None):
        """Runs the worker with and without --preload: the same in all but the random numbers."""
        shown, seeds = [], []
        # The names stand in no path: the worker's facts have many.
        for name, flags in (("by-an-exec", []), ("by-a-fork", ["--preload", preload])):
            with open(self.script("input", "one line\n")) as stdin:
                words = [name if word == "NAME" else word for word in argv]
                job = self.run_ranks(*flags, *words, env=env, stdin=stdin)
            self.assertEqual(job.returncode, 0, job.err)
            self.assertEqual(sorted(job.out.splitlines()), ["rank 0 leaves", "rank 1 leaves"])
            self.assertEqual(job.err, "")
            for rank in range(2):
                with open(self.path(f"{name}.{rank}")) as file:
                    facts, drawn = json.loads(file.read().replace(name, "NAME"))
                shown.append(facts)
                seeds += drawn
            # The ranks share the standard input.
            self.assertIn("one line\n", [shown[-2].pop("stdin"), shown[-1].pop("stdin")])
        self.assertEqual(shown[2], shown[0])
        self.assertEqual(shown[3], shown[1])
        self.assertEqual(len(set(seeds)), len(seeds))
        return shown[3]

    def test_is_as_without_the_flag(self):
        self.script("sitecustomize.py", "import sys; sys.site_of_the_user = True\n")
        os.symlink(self.worker, self.path("link.py"))
        os.mkdir(self.path("folder"))
        shutil.copy(self.worker, self.path("folder/__main__.py"))
        with_path = {"PYTHONPATH": self.folder}
        for argv, env in ((["--numa_binding=exclusive", "worker.py", "show", "NAME", "a b"], None),
                          (["-m", "worker", "show", "NAME"], None),
                          (["--run_path", "worker.py", "show", "NAME"], with_path),
                          (["link.py", "show", "NAME"], {"PYTHONHASHSEED": "1"}),
                          (["folder", "show", "NAME"], with_path)):
            with self.subTest(argv=argv):
                shown = self.assert_same(*argv, env=env)
                self.assertEqual(shown["site"], True if env is with_path else None)

    def test_has_the_threads_and_the_limits_of_a_fresh_start(self):
        shown = self.assert_same(self.worker, "show", "NAME", preload="numpy,torch",
                                 env={"USE": "torch", "OMP_NUM_THREADS": "2"})
        self.assertEqual(shown["torch"][0], 2)

    def test_gets_its_local_rank_as_an_argument(self):
        script = self.script("words.py", "import sys; print(sys.argv[1:])\n")
        long = "long" * 25_000  # longer than a message between the agent and the template
        for flags in ([], ["--preload=json"]):
            job = self.run_ranks(*flags, "--use_env=0", script, "x", "${local_rank}/y", long, long,
                                 long)
            self.assertEqual([line.replace(long, "l") for line in sorted(job.out.splitlines())],
                             [f"['--local-rank={i}', 'x', '{i}/y', 'l', 'l', 'l']"
                              for i in range(2)])

    def test_has_names_in_any_encoding(self):
        script = self.script("bytes.py", "import os, sys\nprint([os.environb[b'ROLE_NAME'], "
                             "os.path.isdir(os.path.dirname(os.environ['TORCHELASTIC_ERROR_FILE'])"
                             "), *map(os.fsencode, sys.argv[1:])])\n")
        name = os.fsdecode(b"r\xe9sum\xe9 \xe2\x82\xac")
        os.mkdir(self.path(name))
        for flags in ([], ["--preload=json"]):
            job = self.run_ranks(*flags, "--nproc_per_node=1", "--use_env=0", "--role", name,
                                 "--log_dir", self.path(name), script, name + "${local_rank}")
            self.assertEqual(job.out, str([os.fsencode(name), True, b"--local-rank=0",
                                           os.fsencode(name + "0")]) + "\n", job.err)

    def test_ends_as_without_the_flag(self):
        ends = {
            "sys.exit(3)": 3, "sys.exit('text')": 1, "sys.exit()": 0, "os._exit(4)": 4,
            "def f(): raise ValueError('no')\nf()": 1, "raise KeyboardInterrupt": 130,
            "os.kill(os.getpid(), 15)": 143, "os.abort()": 134, "import nosuch": 1, "a b": 1,
            "sys.excepthook = lambda *a: print('hook'); 1 / 0": 1, "print('out')": 0,
        }
        for code, status in ends.items():
            script = self.script("end.py", f"import os, sys\n{code}\n")
            with self.subTest(code):
                texts = []
                for flags in ([], ["--preload=json"]):
                    job = self.run_ranks(*flags, "--nproc_per_node=1", script)
                    self.assertEqual(job.returncode, status, job.err)
                    printed = job.out + job.err.partition("-- WORKER FAILED")[0]
                    texts.append(re.sub("0x[0-9a-f]+", "0x", printed))
                self.assertEqual(texts[1], texts[0])

    def test_loses_nothing_at_its_end(self):
        self.script("registry.py", "files = []\ndef add(file):\n    files.append(file)\n")
        script = self.script("leaves.py", """
import atexit, ctypes, os, registry, threading, time
class Late:
    def __del__(self):
        print("deleted", flush=True)
kept, file = Late(), open(os.environ["FOLDER"] + "/unclosed", "w")
file.write("text of Python")
registry.files.append(open(os.environ["FOLDER"] + "/unclosed_in_a_module", "w"))
registry.files[0].write("text in a module")
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
path = os.environ["FOLDER"] + "/unclosed_by_c"
libc.fputs(b"text of C", ctypes.c_void_p(libc.fopen(path.encode(), b"w")))
libc.puts(b"printed by C")
atexit.register(print, "handler", flush=True)
threading.Thread(target=lambda: (time.sleep(0.1), print("thread", flush=True))).start()
""")
        texts = {"unclosed": "text of Python", "unclosed_in_a_module": "text in a module",
                 "unclosed_by_c": "text of C"}
        for flags in ([], ["--preload=registry"]):
            job = self.run_ranks(*flags, "--nproc_per_node=1", script)
            self.assertEqual(job.returncode, 0, job.err)
            self.assertEqual(job.out.splitlines(), ["printed by C", "thread", "handler", "deleted"])
            for name, text in texts.items():
                with open(self.path(name)) as file:
                    self.assertEqual(file.read(), text)
                os.remove(self.path(name))

    def test_ends_while_a_thread_writes_to_a_full_pipe(self):
        self.script("registry.py", "class Registry:\n    files = []\n")
        script = self.script("full.py", """
import io, os, registry, threading, time
reader, writer = os.pipe()
pipe = os.fdopen(writer, "wb")
def fill():
    while True:
        pipe.write(b"x" * 8192)
threading.Thread(target=fill, daemon=True).start()
detached = io.TextIOWrapper(io.BytesIO())
detached.detach()
registry.Registry.files.append(open(os.environ["FOLDER"] + "/kept", "w"))
registry.Registry.files[0].write("text")
time.sleep(0.2)
print("done", flush=True)
""")
        job = self.run_ranks("--preload=registry", "--nproc_per_node=1", script)
        self.assertEqual((job.returncode, job.out, job.err), (0, "done\n", ""))
        with open(self.path("kept")) as file:
            self.assertEqual(file.read(), "text")

    def test_runs_the_exit_handlers_of_c_where_one_may_matter(self):
        other = shutil.copy(_ctypes.__file__, self.path("other.so"))
        for name, code, status in (("plain", "", 0), ("other", f"ctypes.CDLL({other!r})", 134)):
            with self.subTest(name):
                script = self.script("handler.py", "import ctypes\nlibc = ctypes.CDLL(None)\n"
                                     f"libc.on_exit(libc.abort, None)\n{code}\n")
                job = self.run_ranks("--preload=json", "--nproc_per_node=1", script)
                self.assertEqual(job.returncode, status, job.err)

    def test_writes_torchs_error_file(self):
        script = self.script("recorded.py", """
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    raise RuntimeError("for the record")
main()
""")
        job = self.run_ranks("--preload=torch", script)
        self.assertEqual(job.returncode, 1)
        self.assertIn("error.json", job.err)
        self.assertIn("RuntimeError: for the record", job.err)


class Training(PreloadTest):
    def test_is_as_without_the_flag(self):
        lines = {}
        env = {"PYTHONPATH": TORCH_PACKAGE} if TORCH_PACKAGE else {}
        for name, backend, flags in (("fresh", "gloo", []),
                                     ("forked", "gloo", ["--preload=torch"]),
                                     ("ours", "ddprun", ["--preload=torch,ddprun.torch"])):
            if name == "ours" and not TORCH_PACKAGE:
                continue
            job = self.run_ranks(*flags, self.worker, "train", backend, env=env)
            self.assertEqual(job.returncode, 0, job.err)
            lines[name] = sorted(job.out.splitlines())
            shutil.rmtree(os.path.join(self.tmp, f"torchinductor_{getpass.getuser()}"),
                          ignore_errors=True)  # which torch leaves with any launcher
            self.assert_nothing_left()
        self.assertEqual(len(lines["fresh"]), 14)
        self.assertEqual(lines["forked"], lines["fresh"])
        if TORCH_PACKAGE:
            self.assertEqual(lines["ours"], lines["fresh"])


class Restart(PreloadTest):
    SCRIPT = """
import os, sys, time, noted
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
print(f"attempt {attempt} of {rank}", flush=True)
if attempt == "0":
    open(f"{os.environ['FOLDER']}/started.{rank}", "w").close()
    while rank == "0" or not os.path.exists(os.environ["FOLDER"] + "/go"):
        time.sleep(0.01)
    sys.exit(5)
"""

    def test_forks_from_the_same_template(self):
        self.script("go", "")
        script = self.script("a.py", self.SCRIPT)
        job = self.run_ranks("--max_restarts=1", "--preload=noted", script)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(len(self.imports()), 1)
        self.assertIn("attempt 1 of 0", job.out)
        self.assertIn("attempt 1 of 1", job.out)
        self.assert_nothing_left()

    def test_forks_from_another_template_if_that_one_is_gone(self):
        job = self.start("--nproc_per_node=2", "--max_restarts=1", "--preload=noted",
                         self.script("a.py", self.SCRIPT), env={"PYTHON_EXEC": sys.executable})
        for rank in range(2):
            self.wait_for_file(f"started.{rank}")
        pid = self.template()
        os.kill(pid, signal.SIGKILL)
        harness.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the template")
        self.script("go", "")
        self.finish(job)
        self.assertEqual(job.returncode, 0, job.err)
        self.assertEqual(len(set(self.imports())), 2)
        self.assert_nothing_left()


class Refusal(PreloadTest):
    def assert_refused(self, module, *texts, python=sys.executable):
        script = self.script("never.py", "open('ran', 'w')\n")
        job = self.run_ranks("--preload", "json," + module, script, env={"PYTHON_EXEC": python})
        self.assertEqual(job.returncode, 2, job.err)
        for text in (*texts, "More: ddprun explain preload-refused"):
            self.assertIn(text, job.err)
        self.assertNotIn("python_template", job.err)
        self.assertNotIn("sitecustomize", job.err)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assert_nothing_left()

    def test_of_a_module_that_cannot_be_imported(self):
        self.assert_refused("nosuch", "ModuleNotFoundError: No module named 'nosuch'",
                            "cannot import nosuch")
        self.script("broken.py", "def f():\n    raise KeyError('here')\nf()\n")
        self.assert_refused("broken", 'broken.py", line 2, in f', "KeyError: 'here'")
        self.script("leaves.py", "import sys\nsys.exit(0)\n")
        self.assert_refused("leaves", "cannot import leaves")

    def test_of_a_module_that_starts_threads(self):
        self.script("busy.py", "import threading, time\n"
                    "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n")
        self.assert_refused("busy", "MODULE STARTED THREADS", "import of busy")

    def test_of_a_module_that_uses_a_device(self):
        self.script("torch.py", "class cuda:\n    is_initialized = lambda: True\n")
        self.assert_refused("torch", "MODULE USES A DEVICE", "CUDA")

    def test_sees_open_devices(self):
        text = (pathlib.Path(WORKER).parents[2] / "launcher/cli/python_template.py").read_text()
        template = {"__name__": "template"}
        exec(text.partition("\nif __name__")[0], template)
        self.assertIsNone(template["device_in_use"]())
        template["DEVICES"] = (self.path("nvidia"),)
        with open(self.script("nvidia0", "")):
            self.assertEqual(template["device_in_use"](), self.path("nvidia0"))
        self.assertIsNone(template["device_in_use"]())

    def test_of_a_python_without_the_module_site(self):
        for option in ("-E", "-I", "-S"):
            python = self.script("my_python", f'#!/bin/sh\nexec {sys.executable} {option} "$@"\n')
            os.chmod(python, 0o755)
            self.assert_refused("json", "NO TEMPLATE IN THIS PYTHON", python=python)

    def test_of_a_target_that_is_no_script(self):
        for target in ([self.script("a.json", "{}")], ["true"], ["--no_python", "true"]):
            job = self.run_ranks("--preload=json", *target)
            self.assertEqual(job.returncode, 2)
            self.assertIn("is not run as one", job.err)


if __name__ == "__main__":
    unittest.main()
