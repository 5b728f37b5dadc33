#!/usr/bin/env python3
"""Runs one fuzzer for a bounded time from its seeds: run_fuzzer.py PROGRAM NAME SECONDS FOLDER.

An input that breaks something is kept as FOLDER/found/NAME-*; running PROGRAM with it shows the
fault again.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    program, name, seconds, folder = sys.argv[1:]
    found = pathlib.Path(folder) / "found"
    found.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as seeds:
        subprocess.run([sys.executable, ROOT / "fuzz/make_seeds.py", seeds], check=True)
        run = subprocess.run(
            [program, f"{seeds}/{name}", f"-max_total_time={seconds}", "-max_len=2048",
             "-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1",
             f"-artifact_prefix={found}/{name}-"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False)
    print(run.stdout[-4000:])
    if run.returncode != 0:
        sys.exit(f"{name}: see above; the input is in {found}")
    executed = re.search(r"number_of_executed_units:\s*(\d+)", run.stdout)
    # A fuzzer that stands still finds nothing.
    if not executed or int(executed[1]) < 100:
        sys.exit(f"{name}: executed too few inputs")


if __name__ == "__main__":
    main()
