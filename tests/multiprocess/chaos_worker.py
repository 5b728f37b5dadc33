"""chaos_worker.sh in Python, with named shared memory that Python's own helper removes."""

import os
import signal
import subprocess
import sys
import time
from multiprocessing import shared_memory

memory = shared_memory.SharedMemory(create=True, size=4096)
child = subprocess.Popen(
    ["sleep", "1000." + sys.argv[1]],
    start_new_session=sys.argv[2] != "plain",
    env={"PATH": os.environ["PATH"]} if sys.argv[2] == "cleared" else None,
    preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
)
env = os.environ
name = f"{env['GROUP_RANK']}.{env['LOCAL_RANK']}.{env['TORCHELASTIC_RESTART_COUNT']}"
path = os.path.join(env["FOLDER"], "pids", name)
with open(path + ".tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid} {env['MASTER_PORT']}\n")
os.rename(path + ".tmp", path)
while not os.path.exists(os.path.join(env["FOLDER"], "finish")):
    time.sleep(0.05)
