"""The worker template of ddprun --preload: imports modules once on a node, then forks the ranks.

ddprun runs this text as `PYTHON -u -c TEXT MODULES PYTHON -u TARGET...`; the words from the second
PYTHON on are the command of a rank. The text runs twice. As the main program it executes the
command of a rank, with itself as the module sitecustomize in front of PYTHONPATH. Python imports
that module before it opens the script. Then it imports MODULES and serves ddprun; the messages are
described in launcher/agent/template_client.h. In a rank the import of sitecustomize ends, and
Python starts the script as always: nothing of the template is on the script's stack.
"""

import ctypes
import json
import os
import re
import sys

VARIABLE = "DDPRUN_PRELOAD"  # from the first run to the second
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
PR_SET_PDEATHSIG = 1
DESCRIPTORS = 5  # of a rank: standard streams, node memory, flight recorder
# Libraries that write nothing when a process ends: they only give back what ends with it.
PLAIN_PACKAGES = ("torch", "nvidia", "triton", "numpy", "ddprun")
PLAIN_LIBRARIES = re.compile(
    r"(ld|lib(c|m|mvec|dl|pthread|rt|util|resolv|nss_\w+|gcc_s|stdc\+\+|gomp|python3[\d.]*|z|"
    r"expat|ffi|ssl|crypto|bz2|lzma|zstd|uuid|sqlite3|mpdec)[.-])")
libc = ctypes.PyDLL(None)  # keeps Python's lock, so that a fork by it has nothing to restore


def stop(title, what, hint, status=2, page="preload-refused"):
    """Ends the template with a message in the form of ddprun's."""
    rule = "-" * (87 - len(title) - len("--preload"))
    sys.stderr.write(f"-- {title} {rule} --preload\n{what}\n{hint}\nMore: ddprun explain {page}\n")
    os._exit(status)


def first_folder(words):
    """The folder that Python puts in front of sys.path to run these words; None means none."""
    import zipfile
    if getattr(sys.flags, "safe_path", False):
        return None
    if words[0] in ("-m", "-c"):
        return os.getcwd() if words[0] == "-m" else ""
    path = os.path.realpath(words[0])
    whole = os.path.isdir(path) or zipfile.is_zipfile(path)
    return path if whole else os.path.dirname(path)


def execute_rank_command():
    import tempfile
    import zipfile
    modules, words = sys.argv[1].split(","), sys.argv[4:]
    if sys.flags.ignore_environment or sys.flags.no_site:
        stop("NO TEMPLATE IN THIS PYTHON", f"{sys.argv[2]} runs Python with -E, -I or -S, and the "
             "worker template needs PYTHONPATH and the module site.",
             "Change the program that PYTHON_EXEC names, or leave --preload out.")
    with open("/proc/self/cmdline", "rb") as file:
        command = file.read().split(b"\0")
    options = command[1:command.index(b"-u")]  # of a program that starts Python, as PYTHON_EXEC may
    archive = tempfile.TemporaryFile()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("sitecustomize.py", command[command.index(b"-c") + 1])
    archive.flush()
    os.set_inheritable(archive.fileno(), True)
    before = os.environ.get("PYTHONPATH")
    os.environ[VARIABLE] = json.dumps([archive.fileno(), modules, first_folder(words), before])
    path = [f"/proc/self/fd/{archive.fileno()}", *([before] if before else [])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    # The first word as it was given: from it Python finds its own folders.
    os.execv(sys.executable, [command[0], *options, b"-u", *map(os.fsencode, words)])


def hand_over_to_sitecustomize(archive, python_path):
    """Removes this module from the path, and imports the sitecustomize that it hides, if any."""
    import site
    entry = f"/proc/self/fd/{archive}"
    sys.path.remove(entry)
    sys.path_importer_cache.pop(entry, None)
    os.close(archive)
    del os.environ["PYTHONPATH"]
    if python_path is not None:
        os.environ["PYTHONPATH"] = python_path
    own = sys.modules.pop("sitecustomize")
    site.execsitecustomize()
    sys.modules.setdefault("sitecustomize", own)  # the import of this module looks for it


def threads():
    return len(os.listdir("/proc/self/task")) - 1


def end_threads_that_a_fork_ends():
    """OpenBLAS starts threads when it is loaded. It ends them before a fork, and starts them again
    when it needs them: after this fork they are gone."""
    import time
    leave = libc._exit
    child = libc.fork()
    if child == 0:
        leave(0)
    if child > 0:
        os.waitpid(child, 0)
    until = time.monotonic() + 1  # the kernel removes a thread a moment after its end
    while threads() and time.monotonic() < until:
        time.sleep(0.001)


def device_in_use():
    for fd in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:  # the descriptor of the folder itself
            continue
        if path.startswith(DEVICES):
            return path
    torch = sys.modules.get("torch")
    return "CUDA" if torch is not None and torch.cuda.is_initialized() else None


def check(name):
    """Refuses what a fork would break: threads, which exist in the template only, and devices."""
    remedy = f"Leave {name} out of --preload: the script then imports it in each rank."
    if threads():
        end_threads_that_a_fork_ends()
    if threads():
        stop("MODULE STARTED THREADS", f"The import of {name} has started threads, and {threads()} "
             "of them run on. A forked rank would not have them.", remedy)
    device = device_in_use()
    if device is not None:
        stop("MODULE USES A DEVICE", f"The import of {name} has opened a device: {device}. A "
             "forked rank could not use it.", remedy)


def preload(modules, folder):
    import traceback
    if folder is not None:
        sys.path.insert(0, folder)
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            traceback.print_exception(type(error), error, error.__traceback__.tb_next)
            stop("MODULE NOT IMPORTED", f"{sys.executable} cannot import {name}, which --preload "
                 "names. The traceback stands above.",
                 f"Correct the name, name another Python in PYTHON_EXEC, or leave {name} out of "
                 "--preload.")
        check(name)
    if folder in sys.path:
        sys.path.remove(folder)


def freeze():
    """Keeps the collector from the objects that exist now, so that it does not copy the pages that
    the ranks share. The module __main__ stays as in a fresh start: the script fills it, and at its
    end the collector frees what it holds."""
    import gc
    gc.collect()
    gc.freeze()
    main = sys.modules["__main__"]
    for thawed in (main, vars(main)):
        libc.PyObject_GC_UnTrack(ctypes.py_object(thawed))
        libc.PyObject_GC_Track(ctypes.py_object(thawed))


def flush_files():
    """Writes what open files of a rank hold. Python does it where it deletes a file, and at the end
    of a rank it deletes nothing that only a module of the template refers to. Not for pipes: their
    reader, or a thread that writes to one, may make this rank wait."""
    import gc
    import io
    import stat
    buffered = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    for file in gc.get_objects():
        try:
            if issubclass(type(file), buffered) and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.flush()
        except Exception:
            continue  # it is closed, or leads to no file; for a full disk Python has no word either


def is_plain(path):
    """Whether the library is Python's, of PLAIN_PACKAGES or of PLAIN_LIBRARIES."""
    _, site, package = path.replace("/dist-", "/site-").partition("/site-packages/")
    if site:
        return package.replace(".libs", "").split("/")[0] in PLAIN_PACKAGES
    return "/lib-dynload/" in path or PLAIN_LIBRARIES.match(os.path.basename(path)) is not None


def end_after_python():
    """Lets a rank end as soon as Python has ended, without the exit handlers of C libraries. Those
    of torch remove its operators one by one: 0.2 s, for memory that the kernel frees at once. With
    any other library in the process all handlers run: it may write a file in one."""
    with open("/proc/self/maps") as file:
        paths = {line.rstrip("\n").split(None, 5)[-1] for line in file}
    if all(is_plain(path) for path in paths if path.startswith("/") and ".so" in path):
        libc.on_exit(libc._exit, None)  # the handler added last runs first
        libc.on_exit(libc.fcloseall, None)


def receive(agent):
    """Returns a message and its descriptors. The message is None when ddprun has closed its end."""
    import array
    import socket
    try:
        text, control, flags, _ = agent.recvmsg(1 << 20, socket.CMSG_SPACE(4 * DESCRIPTORS),
                                                socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None, []
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise OSError("a message from ddprun, or its descriptors, did not arrive whole")
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[:len(data) // 4 * 4])
    return json.loads(text) if text else None, list(fds)


def begin_rank(gate, sessions, parent):
    """The first steps of a rank, until it is the child of the agent."""
    import signal
    os.setsid()
    os.write(sessions[1], b"\0")
    for fd in (*sessions, gate[1]):
        os.close(fd)
    os.read(gate[0], 1)  # nothing comes: the gate opens when all have closed its other end
    os.close(gate[0])
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # the agent, or the template, has died
        os._exit(1)


def fork_ranks(orders, agent, gate, sessions, parent):
    """Runs in a process between template and ranks, which ends at once, so that the ranks become
    children of the agent. Returns in the ranks only: the order."""
    import signal
    # The agent may signal a rank as soon as it knows of it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pids = []
    for order in orders:
        try:
            pid = os.fork()
        except OSError:
            for begun in pids:  # else the gate would open for them
                os.kill(begun, signal.SIGKILL)
            raise
        if pid == 0:
            begin_rank(gate, sessions, parent)
            return order
        pids.append(pid)
    # The agent signals process groups: it must not learn of a rank that has none yet.
    os.close(sessions[1])
    for _ in pids:
        os.read(sessions[0], 1)
    agent.send(json.dumps({"pids": pids}).encode())
    os._exit(0)


def fork_group(orders, agent, parent):
    """Returns None in the template, and in a rank its order."""
    sys.stdout.flush()
    sys.stderr.flush()
    libc.fflush(None)  # else each rank prints what a library of the template has not yet written
    gate, sessions = os.pipe(), os.pipe()
    between = os.fork()
    if between == 0:
        try:
            order = fork_ranks(orders, agent, gate, sessions, parent)
        except OSError as error:
            print(f"ddprun's worker template cannot fork a rank: {error}", file=sys.stderr)
            os._exit(1)
        for other in orders:
            if other is not order:
                for fd in other["fds"]:
                    os.close(fd)
        return order
    os.close(sessions[1])
    status = os.waitpid(between, 0)[1]
    for fd in (sessions[0], *gate, *(fd for order in orders for fd in order["fds"])):
        os.close(fd)
    if status != 0:
        raise OSError("the process that forks the ranks has failed")
    return None


def renew_modules():
    """Gives a rank random numbers of its own, as Python's module random does at each fork, and
    threading the number of the thread."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


def take_over(order):
    """Gives this process the streams, the variables, the CPUs and the arguments of its rank."""
    for number, fd in enumerate(order["fds"][:3]):
        os.dup2(fd, number)
        os.close(fd)
    for name in order["unset"]:
        os.environb.pop(name.encode("latin-1"), None)
    for name, value in order["env"].items():
        os.environb[name.encode("latin-1")] = value.encode("latin-1")
    names = ("DDPRUN_NODE_MEMORY_FD", "DDPRUN_FLIGHT_RECORDER_FD")
    for name, fd in zip(names, order["fds"][3:]):
        os.set_inheritable(fd, True)
        if name in os.environ:
            os.environ[name] = str(fd)  # the agent's number becomes the one here
    if "DDPRUN_CPUS" in os.environ:
        parts = [part.partition("-") for part in os.environ["DDPRUN_CPUS"].split(",")]
        os.sched_setaffinity(0, {cpu for first, _, last in parts
                                 for cpu in range(int(first), int(last or first) + 1)})
    for from_end, word in order["argv"]:  # the number of the local rank stands in a word
        if from_end < len(sys.argv):
            sys.argv[-from_end] = os.fsdecode(word.encode("latin-1"))
    renew_modules()


def set_name(name):
    """Sets the name that ps and top show."""
    with open("/proc/self/comm", "w") as file:
        file.write(name)


def serve():
    """Imports the modules and forks ranks. Returns in a rank, with the signal mask to restore."""
    import atexit
    import resource
    import signal
    import socket
    archive, modules, folder, python_path = json.loads(os.environ.pop(VARIABLE))
    hand_over_to_sitecustomize(archive, python_path)
    agent = socket.socket(fileno=int(os.environ.pop("DDPRUN_TEMPLATE_FD")))
    agent.set_inheritable(False)
    agent.settimeout(None)
    with open("/proc/self/comm") as file:
        name = file.read().rstrip("\n")
    set_name("ddprun-template")
    for function in (end_after_python, flush_files):  # before the modules': the first runs last
        atexit.register(function)
    preload(modules, folder)
    freeze()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))  # all ranks' descriptors
    agent.send(b'{"ready":true}')
    orders = []
    while True:
        message, fds = receive(agent)
        if message is None:
            atexit._run_exitfuncs()
            os._exit(0)
        if "fork" in message:
            orders.append({**message["fork"], "fds": fds})
            continue
        order = fork_group(orders, agent, message["go"]["agent_pid"])
        orders = []
        if order is not None:
            break
    agent.close()
    set_name(name)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    take_over(order)
    return mask


def main():
    import signal
    try:
        mask = serve()
    except OSError as error:
        stop("WORKER TEMPLATE FAILED", f"The worker template had an error of the system: {error}",
             "See the limits of processes and files: ulimit -u, ulimit -n.", 1, "template-failed")
    except BaseException:  # must not reach Python, which would go on and run the script
        import traceback
        traceback.print_exc()
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


if __name__ == "__main__":
    execute_rank_command()
else:
    main()
