#!/usr/bin/env python3
"""The library leaves no port taken: not after close(), and not for a program that runs the same test beside this one."""
import os
import socket
import subprocess
import sys

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
sys.path.insert(0, LIB)
from cluster import main  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402

HERE = "127.0.0.1"
PORT = "CHECK_PORTS"        # set: this is the program beside, which needs that one
TIMES = 50                  # each a race with a thread that waits in the socket
def free_port():
    with socket.create_server((HERE, 0)) as s:
        return s.getsockname()[1]


def closed_is_free(make):
    port = free_port()
    for _ in range(TIMES):
        make(port).close()
        socket.create_server((HERE, port)).close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((HERE, port))


def needs_the_port():
    with socket.create_server((HERE, int(os.environ[PORT]))):
        print("listening", flush=True)


def beside_each_other():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"],
                                           capture_output=True).returncode != 0:
        print("SKIP: network namespaces need root")
        return
    port = free_port()
    with socket.create_server((HERE, port)):
        p = subprocess.run([sys.executable, __file__], env=dict(os.environ, **{PORT: str(port)}), capture_output=True, text=True)
        assert p.returncode == 0 and p.stdout.startswith("listening\n"), (p.stdout, p.stderr)


if PORT in os.environ:
    main(needs_the_port)
closed_is_free(lambda port: Relay(HERE, HERE, port))
closed_is_free(lambda port: Tap(HERE, HERE, port))
beside_each_other()
print("3 passed, 0 failed")
