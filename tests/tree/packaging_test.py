"""The ways to get ddprun alone: one version, and packages that hold all of it."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = None  # a configured and built tree, from the command line


def read(path):
    return (ROOT / path).read_text()


class Wheel(unittest.TestCase):
    def test_its_version_is_that_of_the_project(self):
        provider = read("pyproject.toml").split("[[tool.dynamic-metadata]]")[1]
        regex = re.search(r"^regex = '(.*)'$", provider, re.MULTILINE)[1]
        found = re.search(regex, read("CMakeLists.txt"), re.MULTILINE)
        printed = subprocess.run([BUILD / "bin/ddprun", "--version"], check=True,
                                 capture_output=True, text=True).stdout
        self.assertEqual(f"ddprun {found['value']}", printed.splitlines()[0])


class Needs(unittest.TestCase):
    def test_readme_cmake_and_setup_name_the_same_libraries(self):
        installed = re.search(r'APT_LAUNCHER="([^"]*)"', read("scripts/setup.sh"))[1].split()
        libraries = {name for name in installed if name.endswith("-dev")}
        self.assertEqual(libraries, set(re.findall(r"lib\S+-dev|\w+-json3-dev",
                                                   read("cmake/LauncherNeeds.cmake"))))
        line = re.search(r"apt-get install g\+\+ (.*-dev.*)", read("README.md"))[1]
        self.assertEqual(libraries, set(line.split()))


class Package(unittest.TestCase):
    def test_it_holds_the_program_and_what_explains_it(self):
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["cpack", "-G", "TGZ", "--config", BUILD / "CPackConfig.cmake", "-B", folder],
                capture_output=True, text=True)
            self.assertEqual(0, packed.returncode, packed.stdout + packed.stderr)
            [package] = pathlib.Path(folder).glob("*.tar.gz")
            with tarfile.open(package) as archive:
                names = {name.split("/", 1)[-1] for name in archive.getnames()}
                [program] = [name for name in archive.getnames() if name.endswith("bin/ddprun")]
                archive.extract(program, folder)
            # The template of --preload is in the program: it needs no other file of the package.
            script = pathlib.Path(folder) / "script.py"
            script.write_text("import sys\nprint('colorsys' in sys.modules)\n")
            ran = subprocess.run([pathlib.Path(folder) / program, "--preload=colorsys", script],
                                 capture_output=True, text=True,
                                 env={**os.environ, "PYTHON_EXEC": sys.executable})
            self.assertEqual((0, "True\n"), (ran.returncode, ran.stdout), ran.stderr)
        wanted = {"bin/ddprun", "share/man/man1/ddprun.1",
                  "share/bash-completion/completions/ddprun", "share/zsh/site-functions/_ddprun"}
        wanted |= {f"share/doc/ddprun/{name}" for name in
                   ("README.md", "LICENSE", "CHANGELOG.md", "docs/errors.md",
                    "docs/report_file.schema.json")}
        self.assertEqual(set(), wanted - names)
        headers = {f"include/ddprun/{path.name}" for path in (ROOT / "include/ddprun").glob("*.h")}
        with_trainer = "DDPRUN_WITH_TRAINER:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
        self.assertEqual(headers if with_trainer else set(),
                         {name for name in names if name.endswith((".h", ".hpp"))})


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop())
    unittest.main()
