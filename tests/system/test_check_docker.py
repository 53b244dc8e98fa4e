#!/usr/bin/env python3
"""Docker checks, against a docker that the test plays at a unix socket."""
import grp
import http.server
import json
import os
import pwd
import socket
import socketserver
import struct
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from checking import one, processes, register, rss_kb, the_process, wait_state  # noqa: E402
from cluster import SANITIZERS, Cluster, main  # noqa: E402
from inject import inside, missing  # noqa: E402

GROUP = "games"        # of the socket: one that no daemon of ours is in


def piece(stream, data):
    return struct.pack(">BxxxI", stream, len(data)) + data


class Docker(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def address_string(self):
        return "docker"

    def answer(self, status, value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        s = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        s.asked.append((self.path, body))
        words = self.path.strip("/").split("/")
        try:
            if words[0] == "containers":
                self.create(words[1], body)
            else:
                self.begin(s.execs[int(words[1], 16)])
        except (BrokenPipeError, ConnectionResetError):
            pass

    def create(self, container, body):
        if container == "gone":
            self.answer(404, {"message": "No such container"})
        elif container == "paused":
            self.answer(409, {"message": "is paused"})
        elif container == "broken":
            self.answer(500, {"message": "broken"})
        elif container == "nonsense":
            self.answer(201, {"Id": "../../etc"})
        elif container == "no-json":
            self.answer(201, b"[" * 50000)
        elif container == "large":
            self.answer(201, b" " * (10 << 20))
        else:
            self.server.execs.append((container, body["Cmd"]))
            self.answer(201, {"Id": "%x" % (len(self.server.execs) - 1)})

    def begin(self, what):
        container, cmd = what
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.end_headers()
        self.close_connection = True
        if container == "flood":
            while not self.server.stop.is_set():
                self.wfile.write(piece(1, b"x" * 65536) * 16)
        elif container == "lies":
            self.wfile.write(b"\7" + bytes(100))
        elif container == "slow":
            self.wfile.write(piece(1, b"begun\n"))
            self.server.stop.wait(60)
        else:
            out = piece(1, b"out\n") + piece(2, b"err\n") + piece(1, b"") + piece(1, cmd[-1].encode())
            for i in range(0, len(out), 5):
                self.wfile.write(out[i:i + 5])
                self.wfile.flush()

    def do_GET(self):
        number = int(self.path.split("/")[2], 16)
        container, cmd = self.server.execs[number]
        self.answer(200, {"Running": container == "stays", "ExitCode": int(cmd[0][1:]) if cmd[0].startswith("=") else 0})


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path):
        super().__init__(path, Docker)
        self.execs, self.asked, self.stop = [], [], threading.Event()
        if os.geteuid() == 0:
            os.chown(path, 0, grp.getgrnam(GROUP).gr_gid)
            os.chmod(path, 0o660)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.stop.set()
        self.shutdown()
        self.server_close()


def docker(node, name, container, *args, **keys):
    register(node, name, DockerContainerID=container, Args=list(args), **keys)


def runs():
    with tempfile.TemporaryDirectory() as folder, Cluster("127.97.21") as c:
        os.chmod(folder, 0o755)
        path = folder + "/docker.sock"
        with Server(path) as s:
            node = one(c, enable_script_checks=True, docker_socket=path)
            assert len(processes(node, "monitor")) == 2
            docker(node, "line", "web", "id; echo hi", Shell="/bin/bash")
            docker(node, "plain", "web", "id; echo hi")
            docker(node, "list", "a/b c", "=0", "second")
            docker(node, "warns", "web", "=1", "x")
            docker(node, "bad", "web", "=2", "x", Status="passing")
            docker(node, "tail", "web", "=0", "y" * 1000, OutputMaxSize=10)
            docker(node, "slow", "slow", "=0", "x")
            for name in ("gone", "paused", "broken", "nonsense", "no-json", "large", "lies", "stays", "flood"):
                docker(node, name, name, "=0", "x", Interval="10s", Timeout="30s")
            assert wait_state(node, "line", "passing")[1] == "out\nerr\nid; echo hi"
            assert wait_state(node, "list", "passing")[1] == "out\nerr\nsecond"
            wait_state(node, "plain", "passing")
            assert wait_state(node, "warns", "warning")[1] == "out\nerr\nx"
            wait_state(node, "bad", "critical", "out\nerr\nx")
            assert wait_state(node, "tail", "passing")[1] == "Captured 10 of 1008 bytes\n...\nyyyyyyyyyy"
            assert wait_state(node, "slow", "critical", "begun")[1] == "Timed out (2s) running check\n\nbegun\n"
            for name, text in (
                    ("gone", 'create exec failed for unknown container "gone"'),
                    ("paused", 'create exec failed since container "paused" is paused or stopped'),
                    ("broken", 'create exec failed for container "broken" with status 500: {"message": "broken"}'),
                    ("nonsense", 'create exec failed for container "nonsense": the answer names no exec'),
                    ("no-json", 'create exec failed for container "no-json": the answer names no exec'),
                    ("large", "docker's answer makes no sense, or is longer than 64 KiB"),
                    ("lies", "docker's answer makes no sense, or is longer than 64 MiB"),
                    ("flood", "docker's answer makes no sense, or is longer than 64 MiB"),
                    ("stays", 'inspect exec failed for container "stays": the program has closed its output, and still runs')):
                assert wait_state(node, name, "critical", text)[1] == text
            creates = {path: body["Cmd"] for path, body in s.asked if path.startswith("/containers/a")}
            assert creates == {"/containers/a%2Fb%20c/exec": ["=0", "second"]}, creates
            lines = [body["Cmd"] for path, body in s.asked if path == "/containers/web/exec" and len(body["Cmd"]) == 3]
            assert ["/bin/bash", "-c", "id; echo hi"] in lines and ["/bin/sh", "-c", "id; echo hi"] in lines, lines
            pid = the_process(node, "docker")
            if not SANITIZERS:
                assert rss_kb(pid) < 64 << 10, "%d KB" % rss_kb(pid)
            walls(node, pid, c)
            assert the_process(node, "docker") == pid and int(node.stats("rpcd")["check_process_deaths"]) == 0
        # Docker has gone.
        wait_state(node, "line", "critical", "docker at " + path + ": ")


def walls(node, pid, c):
    """It is in the group of the socket, it alone; and reaches nothing else."""
    if os.geteuid() != 0 or missing() is not None:
        return
    with open("/proc/%d/status" % pid) as f:
        status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
    assert status["Uid"].split() == [str(pwd.getpwnam("_check").pw_uid)] * 4, status
    assert status["Groups"].split() == [str(grp.getgrnam(GROUP).gr_gid)], status
    assert int(status["CapEff"], 16) == 0 and status["Seccomp"].strip() == "2"

    def address(path):
        return struct.pack("=H", socket.AF_UNIX) + path.encode() + b"\0"
    fd = inside(pid, ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0))[0]
    assert fd >= 0, fd
    tries = {
        "open the server key": ("openat", -100, (c.keys + "/server.key").encode() + b"\0", 0, 0),
        "open rpcd's folder": ("openat", -100, (node.data + "/rpcd").encode() + b"\0", 0, 0),
        "open /etc/passwd": ("openat", -100, b"/etc/passwd\0", 0, 0),
        "dial": ("socket", socket.AF_INET, socket.SOCK_STREAM, 0),
        "run a program": ("execve", b"/bin/true\0", 0, 0),
        "signal raftd": ("kill", node.pid("raftd"), 9),
    }
    for daemon in node.daemons:
        path = address("%s/%s.sock" % (node.run, daemon))
        tries["connect to " + daemon] = ("connect", fd, path, len(path))
    results = inside(pid, *tries.values(), ("close", fd))
    failed = ["%s (result %d)" % (n, r) for n, r in zip(tries, results) if r >= 0]
    assert not failed, "rpcd: check docker may: " + "; ".join(failed)


def off():
    with Cluster("127.97.22") as c:
        node = one(c, enable_script_checks=True)
        docker(node, "d", "web", "id", Status="passing")
        wait_state(node, "d", "critical", "Docker checks are off on this agent: docker_socket in rpcd.conf names the socket of docker")
        assert processes(node, "docker") == []
    with Cluster("127.97.23") as c:
        node = one(c, docker_socket="/no/such/socket")
        answer = node.put("/v1/agent/check/register", json.dumps(
            {"Name": "d", "DockerContainerID": "web", "Args": ["id"], "Interval": "1s"}))
        assert answer.status == 500 and answer.text.startswith("Scripts are disabled on this agent from remote calls"), answer
        assert "docker_socket /no/such/socket: No such file" in node.log("rpcd")


if __name__ == "__main__":
    main(runs, off)
