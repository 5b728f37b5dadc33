"""Completes command lines of ddprun in a real bash and a real zsh, and lints the man page."""

import os
import pathlib
import subprocess
import tempfile
import unittest

DDPRUN = os.environ["DDPRUN_PROGRAM"]
TIMEOUT_S = 60


def printed(*args):
    return subprocess.run([DDPRUN, *args], capture_output=True, text=True, check=True).stdout


def bash_complete(line):
    """Returns the completions that bash offers with the cursor at the end of the line."""
    # As bash splits with "=" in COMP_WORDBREAKS.
    words = line.replace("=", " = ").split(" ")
    words = [word for word in words[:-1] if word] + [words[-1]]
    script = (
        'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ddprun; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    with tempfile.NamedTemporaryFile("w", suffix=".bash") as file:
        file.write(printed("--print_completion", "bash"))
        file.flush()
        job = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", file.name, *words],
            capture_output=True,
            text=True,
            check=True,
        )
    return set(job.stdout.split())


class BashTest(unittest.TestCase):
    def test_offers_the_flags_in_the_spelling_that_was_begun(self):
        self.assertEqual(
            bash_complete("ddprun --rdzv_"),
            {"--rdzv_backend", "--rdzv_endpoint", "--rdzv_id", "--rdzv_conf"},
        )
        self.assertEqual(bash_complete("ddprun --nproc-p"), {"--nproc-per-node"})

    def test_offers_the_values_of_a_flag_behind_a_blank_or_an_equals_sign(self):
        for line in ("ddprun --label ", "ddprun --label="):
            self.assertEqual(bash_complete(line), {"auto", "always", "never"})
        self.assertEqual(bash_complete("ddprun -m --rdzv-backend=c"), {"c10d"})

    def test_offers_files_once_the_target_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "data.txt")
            path.touch()
            self.assertEqual(bash_complete(f"ddprun -n 2 train.py {folder}/d"), {str(path)})
            self.assertEqual(bash_complete("ddprun train.py --lab"), set())


ZSH_SESSION = r"""
zmodload zsh/zpty
zpty session zsh -f -i
zpty -w session "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; print -r RE''ADY"
zpty -r session seen '*READY*'
zpty -w -n session "$2"$'\t'
zpty -r session seen "*$3*"
zpty -d session
"""


def zsh_completes(line, end):
    """Returns once zsh has made of the line and a tab one that ends so; fails after a minute."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "_ddprun").write_text(printed("--print_completion", "zsh"))
        subprocess.run(
            ["zsh", "-f", "-c", ZSH_SESSION, "zsh", folder, line, end],
            env={**os.environ, "TERM": "dumb", "HOME": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            timeout=TIMEOUT_S,
        )


class ZshTest(unittest.TestCase):
    def test_completes_flags_and_their_values(self):
        zsh_completes("ddprun --rdzv_b", "--rdzv_backend")
        zsh_completes("ddprun -n 2 --label=al", "--label=always")


class ManPageTest(unittest.TestCase):
    def test_is_without_warnings(self):
        job = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "style"],
            input=printed("--print_man_page"),
            capture_output=True,
            text=True,
        )
        self.assertEqual(job.stdout, "")

    def test_names_every_flag_of_the_help(self):
        page = printed("--print_man_page").replace("\\-", "-")
        for word in printed("--help").split():
            if word.startswith("--") and "=" not in word and word != "--lr":
                self.assertIn(word.rstrip(",;"), page)


if __name__ == "__main__":
    unittest.main()
