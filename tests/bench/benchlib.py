"""What the benchmarks have in common: processes' costs, load generators, clusters of ours and of etcd.

Standard library only; tests/system/lib/cluster.py starts our own servers.
"""
import atexit
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "lib"))
from cluster import BUILD, Cluster  # noqa: E402
from tlskit import tls  # noqa: E402
from waiting import wait_for  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
NET = os.environ.get("TV_NET", "127.27.1")
MANY = {"limits.http_max_conns_per_client": 20000, "limits.http_max_conns": 20000}

signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))      # servers are stopped at exit


def cpu_s(pid):
    """(user, system) seconds of a process with all its threads."""
    with open("/proc/%d/stat" % pid) as f:
        field = f.read().rpartition(")")[2].split()
    return int(field[11]) / TICKS, int(field[12]) / TICKS


def pss_kib(pid):
    with open("/proc/%d/smaps_rollup" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))


def generator(name):
    return os.path.join(BUILD, "tests", "bench", name)


def load(program, mode, clients, targets, seconds=None, keys=100000, extra=()):
    """Runs a load generator; its report as a dict.  targets: "IP:PORT"."""
    p = subprocess.run([generator(program), "-j", "-c", str(clients), "-k", str(keys)] +
                       (["-s", str(seconds)] if seconds else []) + list(extra) + [mode] + list(targets),
                       capture_output=True, text=True)
    if p.returncode != 0:
        raise RuntimeError("%s %s: %s" % (program, mode, p.stderr.strip() or p.stdout.strip()))
    return json.loads(p.stdout)


def progress(text):
    """One line that is overwritten, on a terminal only.  "" clears it."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()


def certificates(cluster, addrs):
    """rpcd.conf's keys for HTTPS with certificates of a CA that is made for it; and the file of that CA."""
    folder = os.path.join(cluster.dir, "tls")
    os.mkdir(folder)
    tls(folder, "ca", "create")
    tls(folder, "cert", "create", "--server", *["--additional-ipaddress=" + a for a in addrs])
    cert, key = (os.path.join(folder, "dc1-server-consul-0%s.pem" % part) for part in ("", "-key"))
    if os.geteuid() == 0:
        shutil.chown(key, "root", "_keys")
    os.chmod(key, 0o640)
    return ({"https_port": 8501, "tls.https.cert_file": cert, "tls.https.key_file": key},
            os.path.join(folder, "consul-agent-ca.pem"))


class Ours:
    """Three servers of ours with keys: links between the servers are encrypted.  https: on port 8501, by the CA in .ca."""

    program = "bench_http"
    modes = {"put": "put", "fill": "fill", "get": "get"}        # by default a read is linearizable

    def __init__(self, net=NET, rpcd=None, raftd=None, build=BUILD, name="triumvir", https=False):
        self.name, self.cluster, self.ca = name, Cluster(net, build=build), None
        sealed = {}
        if https:
            sealed, self.ca = certificates(self.cluster, ["%s.%d" % (net, i) for i in (1, 2, 3)])
        self.servers = self.cluster.servers(3, rpcd=dict(MANY, **sealed, **(rpcd or {})), raftd=raftd or {})
        self.cluster.formed(self.servers)

    def places(self):
        """{"leader": IP:PORT, "follower": IP:PORT}"""
        leader = self.cluster.leader(self.servers)
        follower = next(n for n in self.servers if n is not leader)
        return {"leader": leader.addr + ":8500", "follower": follower.addr + ":8500"}

    def processes(self):
        """label -> pids of what a label's memory and time are counted together."""
        return {d: [n.pid(d) for n in self.servers] for d in self.servers[0].daemons}

    def close(self):
        self.cluster.close()


class Etcd:
    """Three etcd servers on loopback, without TLS."""

    name, program = "etcd", "bench_etcd"
    modes = {"put": "put", "fill": "fill", "get": "get"}

    @staticmethod
    def missing():
        """Why etcd cannot be measured here, or None."""
        if not shutil.which("etcd"):
            return "etcd is not installed (Debian: etcd-server)"
        if not os.path.exists(generator("bench_etcd")):
            return "bench_etcd was not built (Debian: libnghttp2-dev, then configure again)"
        return None

    def __init__(self, net=NET):
        self.dir = tempfile.mkdtemp(prefix="tv-etcd-", dir="/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
        self.addrs = ["%s.%d" % (net, 101 + i) for i in range(3)]
        self.procs = []
        atexit.register(self.close)
        peers = ",".join("e%d=http://%s:2380" % (i, a) for i, a in enumerate(self.addrs))
        for i, a in enumerate(self.addrs):
            self.procs.append(subprocess.Popen(
                ["etcd", "--name", "e%d" % i, "--data-dir", os.path.join(self.dir, "e%d" % i),
                 "--listen-peer-urls", "http://%s:2380" % a, "--initial-advertise-peer-urls", "http://%s:2380" % a,
                 "--listen-client-urls", "http://%s:2379" % a, "--advertise-client-urls", "http://%s:2379" % a,
                 "--initial-cluster", peers, "--initial-cluster-state", "new", "--initial-cluster-token", self.dir,
                 "--quota-backend-bytes", str(8 << 30), "--logger", "zap", "--log-level", "error"],
                stdout=open(os.path.join(self.dir, "e%d.log" % i), "ab"), stderr=subprocess.STDOUT,
                start_new_session=True))
        wait_for("etcd has a leader", lambda: self.leader() is not None, 60)

    def _status(self, addr):
        c = http.client.HTTPConnection(addr, 2379, timeout=5)
        try:
            c.request("POST", "/v3/maintenance/status", body="{}")
            return json.loads(c.getresponse().read())
        finally:
            c.close()

    def leader(self):
        for a in self.addrs:
            s = self._status(a)
            if s.get("leader") and s["leader"] == s["header"]["member_id"]:
                return a
        return None

    def places(self):
        leader = wait_for("etcd has a leader", self.leader)
        follower = next(a for a in self.addrs if a != leader)
        return {"leader": leader + ":2379", "follower": follower + ":2379"}

    def processes(self):
        return {"etcd": [p.pid for p in self.procs]}

    def close(self):
        for p in self.procs:
            p.terminate()
        for p in self.procs:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.procs = []
        shutil.rmtree(self.dir, ignore_errors=True)


class Url:
    """A server with Consul's API that somebody else runs.  pids: of its processes, if they are on this machine."""

    program = "bench_http"
    modes = {"put": "put", "fill": "fill", "get": "consistent"}

    def __init__(self, url, pids=()):
        import socket
        import urllib.parse
        at = urllib.parse.urlsplit(url if "//" in url else "http://" + url)
        self.name, self.pids = at.netloc, list(pids)
        self.target = "%s:%d" % (socket.getaddrinfo(at.hostname, None, socket.AF_INET)[0][4][0], at.port or 8500)

    def places(self):
        return {"leader": self.target, "follower": self.target}

    def processes(self):
        return {self.name: self.pids} if self.pids else {}

    def close(self):
        pass
