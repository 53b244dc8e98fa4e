"""raftd alone: several raftd processes with a gossipd of our own making, for tests of consensus without gossip.

    with RaftCluster(3) as c:          # 127.3.0.1 .. 127.3.0.3
        c.start_all(expect=3)
        leader = c.wait_leader()
        leader.put("key", b"value")

Standard library only.  Operation and message numbers come from the headers.
"""
import atexit
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ends  # noqa: E402
import preloads  # noqa: E402
import tvframe  # noqa: E402
from cluster import ensure_users, moved  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import PATIENCE, refusal, wait_for  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.environ.get("TV_BUILD", TOP)
ALIVE, LEAVING, LEFT, FAILED = 1, 2, 3, 4
JOIN, UPDATE, LEAVE, FAIL, REAP = 0, 1, 2, 3, 4
READ_DEFAULT, READ_CONSISTENT, READ_STALE = 0, 1, 2
KV_SET, KV_CAS, KV_LOCK, KV_UNLOCK, KV_DELETE = 0, 1, 2, 3, 4


def _load_ops():
    text = open(os.path.join(TOP, "common", "record", "ops.h"), encoding="utf-8").read()
    return {name: int(code) for code, name in re.findall(r"^\s*X\(\s*(\d+),\s*(\w+)\s*,", text, re.M)}


OP = type("OP", (), _load_ops())


def _load_errors():
    text = open(os.path.join(TOP, "common", "base", "err.h"), encoding="utf-8").read()
    return {name: int(code) for name, code in re.findall(r"^\s*TV_(E\w+)\s*=\s*-(\d+)", text, re.M)}


ERR = type("ERR", (), _load_errors())
# Errors of a server that may answer the same question later: who leads changes, or nobody does.
FOR_NOW = ERR.ENOTLEADER, ERR.ENOLEADER, ERR.EUNKNOWN, ERR.EAGAIN, ERR.ETIMEOUT, ERR.EUNREACH


class Ended(AssertionError):
    """A raftd that should run does not: no use in waiting for it."""


class FakeGossip:
    """gossipd.sock of one node: tells its raftd the members that the test sets."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.members = {}
        self.channels = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o666)           # raftd runs as a user of its own
        self.listener.listen(8)
        self.closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _send(self, sock, kind, body):
        raw = tvframe.pack(body)
        sock.sendall(tvframe.HEAD.pack(len(raw), kind, 0, 0) + raw)

    def _serve(self, sock):
        raw = b""
        try:
            self._send(sock, MSG.HELLO, [1, "gossipd", "test", ""])
            while True:
                piece = sock.recv(65536)
                if not piece:
                    return
                raw += piece
                while len(raw) >= 16:
                    size, kind, _, _ = tvframe.HEAD.unpack_from(raw)
                    if len(raw) < 16 + size:
                        break
                    raw = raw[16 + size:]
                    if kind == MSG.GOSSIP_WATCH:
                        with self.lock:
                            for member in self.members.values():
                                self._send(sock, MSG.GOSSIP_MEMBER, [0, JOIN, member])
                            self._send(sock, MSG.GOSSIP_SYNCED, [])
                            self.channels.append(sock)
        except OSError:
            pass

    def tell(self, event, member):
        with self.lock:
            self.members[member[0]] = member
            if event == REAP:
                del self.members[member[0]]
            for sock in list(self.channels):
                try:
                    self._send(sock, MSG.GOSSIP_MEMBER, [0, event, member])
                except OSError:
                    self.channels.remove(sock)

    def close(self):
        self.listener.close()
        with self.lock:
            for sock in self.channels:
                try:
                    sock.shutdown(socket.SHUT_RDWR)     # a thread reads from it: close() alone ends nothing
                except OSError:
                    pass
                sock.close()
            self.channels = []


class Node:
    def __init__(self, cluster, number, name=None):
        self.cluster, self.number = cluster, number
        self.name = name or "n%d" % number
        self.ip = "%s.%d" % (cluster.net, number)
        self.advertise = self.ip        # where the others find it; differs when something stands in between
        self.dir = os.path.join(cluster.dir, self.name)
        self.log_path = os.path.join(self.dir, "log")
        self.program = os.path.join(BUILD, "raftd", "raftd")    # of its next start
        self.process = None
        self.conn = None
        self.gossip = None
        self.tags = {}
        self.env = {}                   # beside the test's own, when it starts
        os.makedirs(os.path.join(self.dir, "conf"))
        os.makedirs(os.path.join(self.dir, "run"))
        os.makedirs(os.path.join(self.dir, "data"))
        os.chmod(self.dir, 0o755)

    # -- the process --
    def configure(self, **options):
        with open(os.path.join(self.dir, "conf", "cluster.conf"), "w") as f:
            f.write('node_name = "%s"\nserver = true\nbind = "%s"\nadvertise = "%s"\n'
                    % (self.name, self.ip, self.advertise))
            f.write('data_dir = "%s/data"\nrun_dir = "%s/run"\nsandbox = "%s"\n'
                    % (self.dir, self.dir, self.cluster.sandbox))
            f.write('raft_port = %d\n' % self.cluster.port)
            f.write('cluster_key = "%s/cluster.key"\nserver_key = "%s/server.key"\nserver_pub = "%s/server.pub"\n'
                    % ((self.cluster.keys,) * 3))
        with open(os.path.join(self.dir, "conf", "raftd.conf"), "w") as f:
            for key, value in options.items():
                f.write("%s = %s\n" % (key, str(value).lower() if isinstance(value, bool) else value))
        self.tags = {"role": "server", "dc": "dc1", "raft_port": str(self.cluster.port), "build": "test"}
        if options.get("bootstrap_expect"):
            self.tags["expect"] = str(options["bootstrap_expect"])

    def start(self, file_bytes_max=None):
        """Until its state is open.  file_bytes_max: writes beyond that offset of any file fail."""
        self.start_serving(file_bytes_max)
        wait_for("the state of %s is open" % self.name, lambda: self.info("state").get("opening", "done") == "done")

    def start_serving(self, file_bytes_max=None):
        """Until it answers, though its state may still be being opened."""
        self.start_only(file_bytes_max)
        wait_for("raftd.sock of %s" % self.name, self.connect)

    def start_only(self, file_bytes_max=None):
        """Without waiting for it to answer."""
        if self.gossip is None:
            self.gossip = FakeGossip(os.path.join(self.dir, "run", "gossipd.sock"))
        args = [self.program, "-c", os.path.join(self.dir, "conf")]
        if os.environ.get("TV_DEBUG"):
            args.append("-d")
        # SIGXFSZ stays ignored, so that such writes fail instead of killing the process.
        limit = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max,) * 2)) if file_bytes_max else None
        with open(self.log_path, "ab") as log:
            self.process = ends.Daemon("raftd of " + self.name, self.log_path, args, stdout=log, stderr=subprocess.STDOUT,
                                       restore_signals=False, preexec_fn=limit,
                                       env=ends.environment(preloads.raftd(self.dir + "/data", dict(os.environ, **self.env))))
        self.cluster.ran.append(self.process)

    @property
    def sock_path(self):
        return os.path.join(self.dir, "run", "raftd.sock")

    def connect(self):
        if self.process.poll() is not None:
            raise Ended("raftd of %s ended with %s:\n%s" % (self.name, self.process.returncode, self.log()))
        self.disconnect()
        self.conn = Conn(self.sock_path)
        return self.conn

    def disconnect(self):
        if self.conn:
            self.conn.close()
        self.conn = None

    def stop(self, how=signal.SIGTERM):
        """Ends the process and returns its exit status, which close() judges."""
        self.disconnect()
        if self.process is None:
            return None
        self.process.send_signal(how)
        status = self.process.wait(PATIENCE)
        self.process = None
        return status

    def may_end(self, *statuses):
        """Its raftd, as it runs now, may end by itself with one of these instead of 0."""
        self.process.may_end(*statuses)
        return self

    def expect_end(self, status, timeout=PATIENCE):
        """Waits until its raftd ends by itself, which has to be with this status."""
        self.may_end(status)
        got = self.process.wait(timeout)
        assert got == status, "raftd of %s ended with %d, not %d:\n%s" % (self.name, got, status, self.log()[-2000:])
        self.disconnect()
        self.process = None

    def kill(self):
        return self.stop(signal.SIGKILL)

    def log(self):
        return open(self.log_path, errors="replace").read()

    def wait_log(self, text, timeout=PATIENCE):
        wait_for("%s logs %r" % (self.name, text), lambda: text in self.log(), timeout)

    @property
    def id(self):
        return open(os.path.join(self.dir, "data", "node-id")).read().strip()

    def member(self, status=ALIVE):
        tags = dict(self.tags, id=self.id)
        return [self.name, socket.inet_aton(self.advertise), 8301, status, tags, 1, 5, 2, 2, 5, 4]

    # -- questions --
    def call(self, kind, body, timeout=30.0):
        conn = self.conn or self.connect()
        try:
            return conn.call(kind, body, timeout)
        except (tvframe.Closed, OSError):
            self.conn = None
            raise

    def op(self, code, args, mode=READ_DEFAULT, index=0, wait_ms=0, timeout=30.0):
        """(err, text, index, value)"""
        err, text, at, _known, _contact, value = self.call(
            MSG.OP, [code, "", mode, index, wait_ms, 0, "", args], timeout)
        return err, text, at, value

    def put(self, key, value):
        return self.op(OP.KV_APPLY, [KV_SET, key, 0, value, 0, "", 0])

    def asked(self, code, args, mode=READ_DEFAULT):
        """The value of an answer; NotYet, if it was refused for now."""
        err, text, _, value = self.op(code, args, mode)
        if err != 0:
            raise refusal("%s: error %d: %s" % (self.name, err, text), err in FOR_NOW)
        return value

    def get(self, key, mode=READ_DEFAULT):
        """The value of a key, or None; or NotYet."""
        value = self.asked(OP.KV_GET, [key, ""], mode)
        return value[0][3] if value else None

    def info(self, section="raft"):
        return self.call(MSG.INFO, [])[section]

    def servers(self):
        """Raft configuration as this server knows it: {name: is voter}."""
        return {s[1]: bool(s[5]) for s in self.asked(OP.RAFT_CONFIGURATION, [], READ_STALE)[0]}


class RaftCluster:
    def __init__(self, count, net="127.3.0", port=8300, keys=False, sandbox="best-effort", **options):
        ensure_users()
        self.net, self.port, self.sandbox = moved(net), port, sandbox
        self.dir = tempfile.mkdtemp(prefix="tvraft")
        os.chmod(self.dir, 0o755)
        self.keys = os.path.join(self.dir, "keys")
        self.options = options
        if keys:
            self._make_keys()
        self.nodes = []
        self.ran = []                   # every raftd that was started
        self.closed = False
        atexit.register(self.close)
        for number in range(1, count + 1):
            self.add()

    def _make_keys(self):
        os.mkdir(self.keys)
        subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "keygen", self.keys], check=True,
                       stdout=subprocess.DEVNULL)

    def add(self, name=None):
        node = Node(self, len(self.nodes) + 1, name)
        node.configure(**self.options)
        self.nodes.append(node)
        return node

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            for node in self.nodes:
                if os.path.exists(node.log_path):
                    sys.stderr.write("==== log of %s ====\n%s\n" % (node.name, node.log()[-6000:]))
        self.close()

    def end_all(self):
        """Stops every raftd.  How one ended fails the test here, unless the test fails already."""
        wrong = ends.finish(self.ran)
        if wrong and sys.exc_info()[0] is None:
            raise ends.BadEnd("\n".join(wrong))
        for text in wrong:
            print("also: " + text, file=sys.stderr, flush=True)

    def close(self):
        if self.closed:
            return
        self.closed = True
        for node in self.nodes:
            node.disconnect()
        try:
            self.end_all()
        finally:
            for node in self.nodes:
                if node.gossip is not None:
                    node.gossip.close()
            shutil.rmtree(self.dir, ignore_errors=True)

    def start_all(self):
        for node in self.nodes:
            node.start()
        self.introduce()

    def tell_all(self, event, member):
        for node in self.nodes:
            if node.gossip is not None:
                node.gossip.tell(event, member)

    def introduce(self, *nodes):
        """Everybody learns that these are alive."""
        for node in nodes or self.nodes:
            self.tell_all(JOIN, node.member())
        for node in nodes:
            for other in self.nodes:
                if other.gossip is not None and other is not node:
                    node.gossip.tell(JOIN, other.member())

    def alive(self):
        return [n for n in self.nodes if n.process is not None and n.process.poll() is None]

    def leader(self):
        """The one that leads and is known as leader by a majority of those that run; or None."""
        leaders = []
        for node in self.alive():
            try:
                if node.info()["state"] == "Leader":
                    leaders.append(node)
            except (OSError, tvframe.Closed, Ended):        # it may end just now
                pass
        return leaders[0] if len(leaders) == 1 else None

    def wait_leader(self, timeout=PATIENCE):
        return self._put("wait-leader", b"x", timeout)

    def _put(self, key, value, timeout=PATIENCE):
        def written():
            node = self.leader()
            return node if node and node.put(key, value)[0] == 0 else None
        return wait_for("a leader that takes a write of " + key, written, timeout)

    def put(self, key, value):
        """Through whoever leads: what was refused because leadership moved is tried again."""
        self._put(key, value)

    def wait_equal(self, timeout=PATIENCE):
        """All running servers have applied the same index."""
        def equal():
            applied = {n.info()["applied_index"] for n in self.alive()}
            return len(applied) == 1
        wait_for("equal applied indexes", equal, timeout)


def renewed_until_another_ends(node, session, ttl=2):
    """"kept" or "lost"; None when this test was too late with a renewal, which proves nothing."""
    asked = [time.monotonic()]
    kept, other = (node.asked(OP.SESSION_CREATE, session)[0] for _ in range(2))

    def renew():
        before, now = asked[0], time.monotonic()
        if not node.asked(OP.SESSION_RENEW, [kept, ""]):
            return "lost" if time.monotonic() - before < ttl else "late"
        asked[0] = now
        return "" if node.asked(OP.SESSION_INFO, [other, ""]) else "kept"
    verdict = wait_for("the other ends", renew, interval=0.1)
    return None if verdict == "late" else verdict
