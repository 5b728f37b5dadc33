"""torchrun without its two seconds of import: forked from a process that has imported it once.

Each job runs torch.distributed.run.main in a process of its own, which is all that the command
torchrun does (or torch.distributed.launch.main). torchrun_test.py runs the command itself.

    torchrun_peer.py DESCRIPTOR    the process that forks; DESCRIPTOR is a socket to the test
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys

server = None  # socket to the process that forks, once there is one


def start(argv, env, cwd, files, module="torch.distributed.run"):
    """Starts `torchrun ARGV` with FILES as stdin, stdout, stderr: (pid, socket of its status)."""
    global server
    if server is None:
        server = start_server()
    ours, theirs = socket.socketpair()
    request = json.dumps({"argv": argv, "env": env, "cwd": cwd, "module": module}).encode()
    descriptors = [file.fileno() for file in files] + [theirs.fileno()]
    socket.send_fds(server, [request], descriptors)
    theirs.close()
    return json.loads(ours.makefile().readline()), ours


def start_server():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    process = subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()

    def stop():
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


def serve(requests):
    """Forks a process per request; returns in the job's process, with its request."""
    import torch.distributed.elastic.rendezvous.c10d_rendezvous_backend  # noqa: F401
    import torch.distributed.elastic.rendezvous.static_tcp_rendezvous  # noqa: F401
    import torch.distributed.launch
    import torch.distributed.run

    # The keepers below need no burying; they wait for the jobs themselves.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            sys.exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid != 0:
        keep(pid, descriptors)
    request = json.loads(message)
    os.setsid()
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["torchrun", *request["argv"]]
    return sys.modules[request["module"]].main


def keep(pid, descriptors):
    """Tells the test the job's pid and, when it has ended, its status."""
    for descriptor in descriptors[:3]:
        os.close(descriptor)
    answers = socket.socket(fileno=descriptors[3])
    answers.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    try:
        answers.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    except BrokenPipeError:
        pass  # the test gave up
    os._exit(0)


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1])))())
