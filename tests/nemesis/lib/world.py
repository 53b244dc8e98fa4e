"""Five servers and a client node, each in a network namespace of its own with a small disk of its own, as root with the
users and the sandbox of production; faults can be made below each of them.

What dies without being told to is a finding, and is started again, as systemd would.
"""
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system", "lib"))
import clockfault  # noqa: E402
import diskfault  # noqa: E402
import ends  # noqa: E402
from aclkit import ON, auth, bootstrap  # noqa: E402
from cluster import DAEMONS, Cluster, rpcd_conf  # noqa: E402
from hub import Hub  # noqa: E402
from waiting import AGAIN, Timeout, wait_for  # noqa: E402

NET = "10.77.0"
SERVERS = 5
DISK = "128m"
# Small, so that logs are cut, and servers that were away need snapshots, all the time.
RAFTD = {"bootstrap_expect": SERVERS, "snapshot_threshold": 400, "snapshot_interval": "2s", "trailing_logs": 300}
BAD_WORDS = re.compile(r"violation|corrupt|assertion|TV_ASSERT|stack smashing|double free|AddressSanitizer|runtime error",
                       re.I)
OUT = "was removed for good"
TELL_AGAIN = 600.0          # seconds until the same daemon's death is told again
LAG = 100                   # entries that a server may be behind at any moment of the load
MUTE = *AGAIN, ValueError, http.client.HTTPException       # of a node that is down, or whose answer was cut short
FORMED = 90.0               # seconds after a heal until all five are voters that have everything


def impossible():
    return diskfault.missing() or clockfault.missing()


class Broken(Exception):
    """The cluster does not get well any more."""


class World:
    token_ttl = 2.0         # seconds, with access control

    def __init__(self, report, acl=False):
        self.report, self.acl, self.ended = report, acl, {}
        self.hub = Hub(NET)
        self.cluster = Cluster(NET, prefix="nemesis-")
        self.lock = threading.RLock()
        self.down, self.excused, self.deaths, self.told = set(), {}, 0, {}
        self.asked_out = set()  # nodes that were asked out, and nobody has seen yet that they are
        self.disks, self.clocks = {}, {}
        join = ["%s.%d" % (NET, i + 1) for i in range(SERVERS)]
        self.servers = [self._node("s%d" % (i + 1), i + 1, True, join) for i in range(SERVERS)]
        self.client = self._node("c1", SERVERS + 1, False, join)
        self.nodes = self.servers + [self.client]
        self.halt = threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)

    def _node(self, name, last, server, join):
        port = self.hub.place(last)
        folder = os.path.join(self.cluster.dir, name + ".faults")
        os.mkdir(folder)
        disk = self.disks[name] = diskfault.DiskFault(os.path.join(folder, "disk"))
        clock = self.clocks[name] = clockfault.ClockFault(os.path.join(folder, "clock"))
        env = dict(disk.env, **clock.env)
        env["LD_PRELOAD"] = diskfault.preload(diskfault.LIBRARY, clockfault.LIBRARY)
        node = self.cluster.add(name, last, server=server, wrap=port.wrap, env=env, retry_join=join,
                                raftd=dict(RAFTD) if server else None, rpcd=self._rpcd(), **(ON if self.acl else {}))
        if server:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=" + DISK, name, node.data], check=True)
        return node

    def _rpcd(self, **keys):
        return dict({"audit.to": "file", "acl.token_ttl": "%ds" % self.token_ttl}, **keys) if self.acl else {}

    def _manage(self):
        """From here on who asks without a token of its own may do everything, and so may the agents."""
        headers = auth(bootstrap(self.servers[0])["SecretID"])
        secret = os.environ["TRIUMVIR_TOKEN"] = headers["X-Consul-Token"]

        def asks(node, ask):
            return lambda *args, **kw: ask(*args, **dict(kw, headers=dict(headers, **(kw.get("headers") or {}))))
        for n in self.nodes:
            n.http = asks(n, n.http)
            n.write("rpcd.conf", rpcd_conf(n.addr, **self._rpcd(**{"acl.tokens.agent": secret})))
            path = os.path.join(n.conf, "rpcd.conf")
            shutil.chown(path, group="_rpcd")            # for a reload it has to read it, and nobody else may
            os.chmod(path, 0o640)
            wait_for("the agent's token", lambda n=n: n.put("/v1/agent/reload", unix=True).ok(200))

    def begin(self):
        for n in self.nodes:
            n.start()
        if self.acl:
            self._manage()
        self.cluster.formed(self.servers, 60)
        wait_for("the client node answers", lambda: (self.client.kv_get("nothing") is None,))
        self.keeper.start()

    # -- daemons -----------------------------------------------------------

    def kill(self, node, *daemons):
        with self.lock:
            which = [d for d in daemons or node.daemons]
            self.down.update((node.name, d) for d in which)
            self.note_end(node, *which)
            node.signal(signal.SIGCONT, *which)
            node.kill(*which)

    def note_end(self, node, *daemons):
        for d in daemons:
            self.ended.setdefault((node.name, d), []).append(time.monotonic())

    def ended_within(self, node, daemon, at, seconds):
        """Was it killed so soon after that?"""
        return any(0 <= end - at <= seconds for end in self.ended.get((node.name, daemon), ()))

    def stop(self, node, *daemons):
        """Orderly; whoever does not end within 30 s is a finding."""
        with self.lock:
            which = [d for d in daemons or node.daemons if node.running(d)]
            self.down.update((node.name, d) for d in which)
            if which:
                node.signal(signal.SIGCONT, *which)
                node.signal(signal.SIGTERM, *which)
        for d in which:
            try:
                status = node.wait_end(d, timeout=30)
            except subprocess.TimeoutExpired:
                if node.name not in self.excused:       # a hanging disk holds it
                    self.report("stop", "%s of %s did not end within 30 s of SIGTERM" % (d, node.name))
                node.kill(d)
                continue
            if status == [1] and node.name in self.excused:
                node.may_end(d, 1)
            elif status != [0]:
                self.report("stop", "after SIGTERM " + str(node.procs[d].complaint()))

    def start(self, node, *daemons):
        with self.lock:
            for d in daemons or node.daemons:
                if not node.running(d):
                    node.start(d)
                self.down.discard((node.name, d))

    def excuse(self, node, on):
        """While a disk is broken, raftd may end."""
        with self.lock:
            self.excused[node.name] = self.excused.get(node.name, 0) + (1 if on else -1)
            if not self.excused[node.name]:
                del self.excused[node.name]

    def _keep(self):
        excused_at = {}
        while not self.halt.wait(0.25):
            for node in self.nodes:
                with self.lock:
                    if node.name in self.excused:
                        excused_at[node.name] = time.monotonic()
                    for d in node.daemons:
                        if (node.name, d) not in self.down and not node.running(d):
                            self._died(node, d, time.monotonic() - excused_at.get(node.name, -100) < 10)

    def _died(self, node, daemon, excused):
        process = node.procs[daemon]
        status = process.returncode
        self.note_end(node, daemon)
        if daemon == "raftd" and excused and status == 1:
            self.deaths += 1
            process.may_end(1)
        elif time.monotonic() - self.told.get((node.name, daemon), -TELL_AGAIN) >= TELL_AGAIN:
            self.told[node.name, daemon] = time.monotonic()
            self.report("death", process.complaint() or "%s of %s ended with %d:\n%s" % (
                daemon, node.name, status, node.log(daemon)[-1500:]))
        else:
            process.complaint()         # told already
        self.halt.wait(0.3)
        node.start(daemon)

    def wipe(self, node, everything):
        """An empty disk: all of it, or only what raftd has there (the node keeps its id)."""
        for name in os.listdir(node.data):
            if everything or name == "raftd":
                path = os.path.join(node.data, name)
                if os.path.isdir(path):
                    shutil.rmtree(path)
                elif name != "filler":           # of a full disk: somebody else's
                    os.unlink(path)

    def renew(self):
        """Who is out by now, after all, returns with an empty disk: as the log of its raftd tells its operator."""
        peers = self.peers() if self.asked_out else None
        for node in [n for n in self.asked_out if peers is not None and n.name not in peers]:
            if OUT in node.log("raftd").rpartition("raftd: triumvir ")[2]:
                self.asked_out.remove(node)
                self.kill(node)
                self.wipe(node, True)
                self.start(node)

    # -- how it is ---------------------------------------------------------

    def leader(self):
        """Whoever says so first; None when nobody does within 3 s.  One whose rpcd is frozen is passed over soon."""
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for n in self.servers:
                try:
                    if n.stats("raft", timeout=1)["state"] == "Leader":
                        return n
                except MUTE:
                    pass
            time.sleep(0.05)
        return None

    def peers(self, nodes=None, query=""):
        """{name: is voter} as a majority knows it, with "?stale" as the first of the nodes does; None: nobody can say."""
        for n in nodes or self.servers:
            try:
                r = n.get("/v1/operator/raft/configuration" + query, timeout=4)
                if r.status == 200:
                    return {s["Node"]: s["Voter"] for s in r.json()["Servers"]}
            except MUTE:
                pass
        return None

    def lag(self):
        """What is missing before all is well, or None."""
        peers = self.peers()
        if peers is None:
            return "nobody knows the configuration"
        missing = [n.name for n in self.servers if not peers.get(n.name)]
        if missing:
            return "no voters: %s (configuration: %s)" % (", ".join(missing), peers)
        applied = {}
        for n in self.servers:
            try:
                applied[n.name] = int(n.stats("raft", timeout=4)["applied_index"])
            except MUTE as e:
                return "%s does not answer: %r" % (n.name, e)
        if max(applied.values()) - min(applied.values()) > LAG:
            return "applied: %s" % applied
        return None

    def whole(self, limit=FORMED):
        """Waits until all servers are voters again; a finding when that takes too long."""
        start = time.monotonic()
        while True:
            lag = self.lag()
            took = time.monotonic() - start
            if lag is None:
                return took
            if took > limit:
                self.report("formed", "not whole %.0f s after the heal: %s" % (took, lag))
                raise Broken("what comes after would say nothing")
            self.renew()
            time.sleep(0.25)

    def same_state(self):
        """All servers hold the same, by stale reads; and what they say of their logs fits together."""
        paths = ["kv/?recurse&"] + (["acl/tokens?", "acl/policies?", "acl/roles?", "session/list?"] if self.acl else [])

        def states():
            return [[n.get("/v1/" + p + "stale", timeout=60).ok(200, 404).body for p in paths] for n in self.servers]

        def agree():
            first, *rest = states()
            return all(r == first for r in rest)
        try:
            wait_for("the same state on all servers", agree, 30)
        except Timeout as e:
            self.report("state", "%s: %s" % (e, [list(map(hash, s)) for s in states()]))
        stats = {}

        def one_term():                  # an election may be under way
            stats.update({n.name: n.stats("raft") for n in self.servers})
            return len({s["term"] for s in stats.values()}) == 1
        try:
            wait_for("one term on all servers", one_term, 30)
        except Timeout as e:
            self.report("state", "%s: %s" % (e, {n: s["term"] for n, s in stats.items()}))
        for name, s in stats.items():
            numbers = [int(s[k]) for k in ("applied_index", "commit_index", "last_log_index")]
            if numbers != sorted(numbers):
                self.report("state", "applied, commit and last index of %s: %r" % (name, numbers))
        return stats

    def bad_lines(self):
        for n in self.nodes:
            for d in DAEMONS:
                lines = [line for line in n.log(d).splitlines() if BAD_WORDS.search(line)]
                if lines:
                    self.report("log", "%s of %s: %d bad lines, first: %s" % (d, n.name, len(lines), lines[0]))

    def close(self, keep):
        self.halt.set()
        if self.keeper.is_alive():
            self.keeper.join(5)
        for n in self.nodes:
            self.disks[n.name].clear()
        for n in self.nodes:
            for d in n.daemons:
                self.down.add((n.name, d))
        for text in ends.finish(self.cluster.ran):
            self.report("stop", text)
            keep = True
        for n in self.nodes:
            if n.server:
                if keep:                 # what is mounted goes with the namespace
                    shutil.copytree(n.data, n.data + ".kept", dirs_exist_ok=True)
                subprocess.run(["umount", "-l", n.data], check=False)
        self.cluster.keep = keep
        self.cluster.close()
        self.hub.close()
