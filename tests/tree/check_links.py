"""check_links.py PROGRAM NAME...: fails if PROGRAM loads a library that begins with a NAME."""

import subprocess
import sys

program, *forbidden = sys.argv[1:]
listing = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
libraries = [line.split()[0].rsplit("/", 1)[-1] for line in listing.splitlines()]
if not any(name.startswith("libc.so") for name in libraries):
    sys.exit(f"ldd did not list {program}'s libraries:\n{listing}")
found = [name for name in libraries if name.startswith(tuple(forbidden))]
if found:
    sys.exit(f"{program} loads {', '.join(found)}")
print(f"{program} loads {', '.join(libraries)}")
