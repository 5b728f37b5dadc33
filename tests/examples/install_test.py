"""cmake --install: what it leaves stands alone, and a half build is not installed half."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = os.environ["DDPRUN_SOURCE_DIR"]
INSTALLED = pathlib.Path(os.environ["DDPRUN_INSTALLED"])
BUILD = os.environ["DDPRUN_BUILD"]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_half_build_is_refused_whole_and_says_what_to_do(self):
        build, prefix = self.folder / "build", self.folder / "prefix"
        configured = run("cmake", "-S", SOURCE, "-B", build, "-DDDPRUN_WITH_TRAINER=OFF",
                         "-DDDPRUN_BUILD_TESTS=OFF")
        self.assertEqual(0, configured.returncode, configured.stderr)
        installed = run("cmake", "--install", build, "--prefix", prefix)
        self.assertNotEqual(0, installed.returncode)
        self.assertIn("Not built yet: bin/ddprun", installed.stderr)
        self.assertIn(f"cmake --build {build}", installed.stderr)
        self.assertFalse(prefix.exists())

    def test_each_public_header_compiles_alone(self):
        names = [path.name for path in (INSTALLED / "include/ddprun").glob("*.h")]
        self.assertIn("data_parallel.h", names)
        for name in names:
            (self.folder / f"{name}.cc").write_text(f"#include <ddprun/{name}>\n")
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(headers LANGUAGES CXX)\n"
            "find_package(ddprun REQUIRED)\n"
            f"add_library(headers OBJECT {' '.join(f'{name}.cc' for name in names)})\n"
            "target_link_libraries(headers PRIVATE ddprun::ddprun)\n")
        build = self.folder / "build"
        for command in (["-S", self.folder, "-B", build, f"-DCMAKE_PREFIX_PATH={INSTALLED}"],
                        ["--build", build, "--parallel", "2"]):
            done = subprocess.run(["cmake", *command], capture_output=True, text=True)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def configure_example(self, torch):
        done = run("cmake", "-S", f"{SOURCE}/examples/ddp_program", "-B", self.folder / "build",
                   f"-DCMAKE_PREFIX_PATH={INSTALLED}", f"-DDDPRUN_TORCH={torch}")
        self.assertNotEqual(0, done.returncode)
        return " ".join(done.stderr.split())

    def test_another_libtorch_than_ddprun_was_built_with_is_refused(self):
        torch = self.folder / "torch"
        for name in ("include/ATen/ATen.h", "lib/libtorch_cpu.so", "lib/libc10.so"):
            (torch / name).parent.mkdir(parents=True, exist_ok=True)
            (torch / name).touch()
        (torch / "include/torch/headeronly").mkdir(parents=True)
        (torch / "include/torch/csrc/api/include").mkdir(parents=True)
        (torch / "include/torch/headeronly/version.h").write_text(
            "".join(f"#define TORCH_VERSION_{part} 1\n" for part in ("MAJOR", "MINOR", "PATCH")))
        self.assertIn(f"that of {torch} is 1.1.1", self.configure_example(torch))

    def test_a_folder_without_libtorch_is_named(self):
        self.assertIn(f'DDPRUN_TORCH is "{self.folder}/none"',
                      self.configure_example(self.folder / "none"))

    def test_programs_load_the_installed_libtorch_and_train(self):
        # A folder of its own: programs of the other tests must not load a half written library.
        prefix = self.folder / "prefix"
        for component in ([], ["--component", "torch"]):
            done = run("cmake", "--install", BUILD, "--prefix", prefix, *component)
            self.assertEqual(0, done.returncode, done.stderr)
        libraries = run("ldd", prefix / "bin/ddp-trainer").stdout
        self.assertIn(f"libtorch_cpu.so => {prefix}/", os.path.normpath(
            libraries.replace("bin/../", "")))
        config = prefix / "share/ddprun/configs/seeds/toy.json"
        trained = run(prefix / "bin/ddprun", "--nproc_per_node=2", config, cwd=self.folder)
        self.assertEqual(0, trained.returncode, trained.stderr)
        self.assertTrue((self.folder / "runs/toy/model/model.safetensors").exists())

    def test_messages_are_explained_without_the_sources(self):
        self.assertTrue((INSTALLED / "share/doc/ddprun/docs/errors.md").exists())
        explained = run(INSTALLED / "bin/ddprun", "explain", "worker-failed", cwd="/")
        self.assertTrue(explained.stdout.startswith("worker-failed\n"), explained.stdout)


if __name__ == "__main__":
    unittest.main()
