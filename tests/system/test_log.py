#!/usr/bin/env python3
"""The log: no daemon waits for a reader, what is lost is told, and a live log does not feed itself."""
import fcntl
import http.client
import json
import os
import re
import signal
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, UnixHTTPConnection, main  # noqa: E402
from dnsask import NOWHERE, dns  # noqa: E402
from waiting import wait_for  # noqa: E402

LOST = re.compile(r"\[WARN\] log: (\d+) lines of this log were lost: its reader did not read")


class Pipe:
    """What a daemon logs to: a pipe of 4 KiB, with an end that blocks, as a service manager makes it."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self.reader, False)
        self.text = ""

    def read(self):
        """All that has come until now."""
        try:
            while data := os.read(self.reader, 1 << 16):
                self.text += data.decode()
        except BlockingIOError:
            pass
        return self.text

    def is_full(self):
        """No more of its writer's lines fit: the kernel has what one page holds."""
        import array
        import termios
        n = array.array("i", [0])
        fcntl.ioctl(self.reader, termios.FIONREAD, n)
        return n[0] > 4096 - 512

    def close(self):
        os.close(self.reader)


def piped(c, **rpcd):
    """A server that logs all to pipes that are not read."""
    node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd=rpcd, log_level="debug")
    pipes = {d: Pipe() for d in node.daemons}
    node.stderr = {d: p.writer for d, p in pipes.items()}
    node.start()
    for p in pipes.values():
        os.close(p.writer)
    return node, pipes


def lost(node, daemon):
    return int(node.stats(daemon)["log_lines_lost"])


def load(node, n=300):
    """Each request is a line or more of rpcd, each reload one of every daemon."""
    for i in range(n):
        node.kv_put("k%d" % i, "v")
        node.kv_put("long/" + "x" * 400, "v")


def test_goes_on():
    """API, DNS and raftd go on while no line is taken, and SIGTERM is obeyed."""
    with Cluster("127.246.1") as c:
        node, pipes = piped(c)
        c.formed([node])

        def filled():
            load(node, 50)
            node.ctl("reload")
            assert dns(node, "nope.service.consul") == NOWHERE
            return lost(node, "rpcd") > 0
        wait_for("rpcd's log has no room", filled)
        term = node.stats("raft")["term"]
        load(node)
        assert dns(node, "n1.node.consul")[1]
        assert node.stats("raft")["term"] == term
        node.stop()                     # each ends with status 0
        for p in pipes.values():
            p.close()


def test_reader_comes_back():
    """What was lost is told in its place, once there is room, without another line; then nothing more is lost."""
    with Cluster("127.246.2") as c:
        node, pipes = piped(c)
        c.formed([node])
        p = pipes["rpcd"]

        def filled():
            load(node, 50)
            return lost(node, "rpcd") > 0
        wait_for("rpcd's log has no room", filled)

        def told():
            found = LOST.findall(p.read())
            return found and sum(map(int, found)) == lost(node, "rpcd")
        wait_for("it tells what was lost", told)
        for line in p.text.splitlines()[:-1]:
            assert re.match(r"^[0-9T:.-]+Z \[(ERR|WARN|INFO|DEBUG)\] \w", line), line
        node.stop()
        assert "stopping" in p.read()
        for p in pipes.values():
            p.close()


def test_audit_trail():
    """Its lines wait in its own queue while the log's reader does not read: none of them is lost."""
    with Cluster("127.246.3") as c:
        node, pipes = piped(c, **{"audit.to": "log"})
        c.formed([node])
        p = pipes["rpcd"]

        def filled():
            load(node, 20)
            return lost(node, "rpcd") > 0
        wait_for("rpcd's log has no room", filled)
        for i in range(100):
            node.kv_put("audited/%d" % i, "v")
        assert int(node.stats("rpcd")["audit_lines_lost"]) == 0

        def all_told():
            p.read()
            return all("audited/%d\"" % i in p.text for i in range(100))
        wait_for("all lines of the trail", all_told)
        names = [json.loads(line.split("[INFO] audit: ", 1)[1])["name"] for line in p.text.splitlines() if "[INFO] audit: " in line]
        assert [n for n in names if n.startswith("audited/")] == ["audited/%d" % i for i in range(100)], names[-120:]
        node.stop()
        for p in pipes.values():
            p.close()


def test_raftd_and_gossipd():
    """A follower of three whose raftd and gossipd cannot log stays a follower and a member."""
    with Cluster("127.246.4") as c:
        nodes = [c.add("n%d" % i, i, raftd={"bootstrap_expect": 3}, log_level="debug") for i in (1, 2, 3)]
        pipes = {d: Pipe() for d in ("raftd", "gossipd")}
        nodes[2].stderr = {d: p.writer for d, p in pipes.items()}
        for n in nodes:
            if n is not nodes[0]:
                n.set_common(retry_join=[nodes[0].addr])
            n.start()
        for p in pipes.values():
            os.close(p.writer)
        c.formed(nodes)

        def filled():
            nodes[2].signal(signal.SIGHUP, "raftd", "gossipd")
            nodes[2].stats("raft")
            return all(p.is_full() for p in pipes.values())
        wait_for("no log has room", filled)
        term = nodes[2].stats("raft")["term"]
        for i in range(100):
            filled()
            nodes[2].kv_put("k%d" % i, "v")
        assert nodes[2].stats("raft")["term"] == term
        assert all(m["Status"] == 1 for m in nodes[0].get("/v1/agent/members").json())
        nodes[2].stop()
        for p in pipes.values():
            p.close()


def test_live_log_is_not_about_itself():
    """At level debug, by the socket and by TCP: there are lines about other requests, and none about the stream that carries them."""
    with Cluster("127.246.5") as c:
        node = c.add("n1", 1, raftd={"bootstrap": True}).start()
        c.formed([node])
        for conn in (UnixHTTPConnection(os.path.join(node.run, "rpcd.sock"), 30), http.client.HTTPConnection(node.addr, 8500, timeout=30)):
            conn.request("GET", "/v1/agent/monitor?loglevel=debug")
            stream, lines = conn.getresponse(), 0
            assert stream.status == 200
            for i in range(50):
                node.kv_put("marker%d" % i, "v")
                while b"/v1/kv/marker%d " % i not in (line := stream.readline()):
                    assert line, "the stream has ended"
                    assert b"option" not in line and b"Failed to push" not in line, line
                    lines += 1
            assert lines < 500, lines
            conn.close()
        archive = os.path.join(c.dir, "out.tar.gz")
        node.ctl("--addr", "unix:" + os.path.join(node.run, "rpcd.sock"), "debug", "--duration", "1s", "--interval", "500ms",
                 "--output", archive)
        with tarfile.open(archive) as t:
            (logs,) = [m for m in t.getmembers() if m.name.endswith("/logs.txt")]
            assert 0 < logs.size < 200000, logs.size


if __name__ == "__main__":
    main(test_goes_on, test_reader_comes_back, test_audit_trail, test_raftd_and_gossipd, test_live_log_is_not_about_itself)
