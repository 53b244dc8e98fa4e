"""Mixed pools of our nodes (gossipd and rpcd) and Serf's real agents, and tables that must agree.

A pool asks every member in the words of its own tools: `serf members` at an agent, `clusterctl members` and
/v1/agent/members at a node of ours.  Where the machine allows it, each test program runs in a network namespace of its own
(namespace() below), so that addresses never collide and a firewall can cut the pool in two.
Standard library only.
"""
import atexit
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import traceback

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TESTS, "system", "lib"))
import ends  # noqa: E402
import netns  # noqa: E402
from cluster import BUILD, Cluster, Node, skip  # noqa: E402
from netns import FarSide, LongCable  # noqa: E402,F401 - passed on to the tests
from tvframe import MSG, Conn  # noqa: E402
from waiting import AGAIN, Timeout, refusal, wait_for  # noqa: E402

SERF = os.environ.get("TV_SERF") or shutil.which("serf")
PORT = 8301			# gossip port of ours, and of Serf's agents unless a test says otherwise
STATUS = {0: "none", 1: "alive", 2: "leaving", 3: "left", 4: "failed"}

# What must be 0 in `clusterctl info gossipd` at the end of a test with friendly members only.
MUST_BE_ZERO = ("packets_dropped_key", "packets_dropped_checksum", "packets_dropped_format", "dropped_message")


# -- time limits, derived from the timing of the profiles -----------------------------------------

SLACK = 15.0			# for a machine that is busy with other things; counts once in each limit


class Limits:
    """How long the protocol may take for what happens in a pool of `count`, in seconds."""

    RECONNECT = 30.0

    def __init__(self, profile, count):
        self.probe = 1.0
        self.suspicion = {"lan": 4, "local": 3}[profile] * max(1.0, math.log10(count)) * self.probe * 6
        self.pushpull = {"lan": 30.0, "local": 15.0}[profile]
        self.to_the_dead = {"lan": 30.0, "local": 15.0}[profile]
        self.round = count * self.probe

    def spread(self):
        """News travel by gossip within a second or two; what gossip missed comes with a full exchange."""
        return 2 * self.pushpull + SLACK

    def detect(self):
        """A dead member is probed by somebody within a round, and suspected as long as a lone accuser has to."""
        return self.round + self.suspicion + self.spread()

    def forget(self):
        """Until a dead member's address may change: it is forgotten when a round of probes ends.  A leave that gossip
        missed ends the same way: its member is found dead at the old address."""
        return self.detect() + self.to_the_dead + 2 * self.round + self.spread()

    def alone(self):
        """As detect(), in a half of the pool: missed probes make its members doubt themselves and probe more rarely."""
        return 2 * self.detect()

    def heal(self):
        """A reconnect to a random failed member each half minute, at each member; then exchanges among the rest."""
        return 3 * self.RECONNECT + self.spread()


def namespace():
    """Goes on in a fresh network namespace with only a loopback device; as we are where that is not allowed."""
    if not SERF:
        skip("serf is not installed")
    netns.enter()


# -- members ----------------------------------------------------------------------------------------


def row(addr, status, tags):
    return (addr, status, tuple(sorted(tags.items())))


def shown(tags):
    """Tags on the wire as our API shows them: our own members' get the names that clients of the API look for
    (rpcd/api/v1/members_json.c); those of others stay as they are."""
    if tags.get("role") not in ("client", "server") or not tags.get("dc") or not tags.get("id"):
        return tags
    out = dict(tags, role="node", vsn="2", vsn_min="2", vsn_max="3")
    if tags["role"] == "server":
        out.update(role="consul", port=tags["raft_port"], wan_join_port=tags["wan_port"], raft_vsn="3")
    return out


class Member:
    """What a test may want of either kind; `expected` of the pool is kept by the pool's methods."""

    tags = {}
    kind = ""

    @property
    def where(self):
        return ("[%s]:%d" if ":" in self.addr else "%s:%d") % (self.addr, self.port)


class Ours(Member):
    """A node of ours, a client unless server=True.  Asked over its unix sockets, whatever network it is in."""

    kind = "ours"

    def __init__(self, pool, name, addr, wrap=(), gossipd=None, server=False, **kw):
        self.pool, self.name, self.addr, self.server = pool, name, addr, server
        self.port, self.wrap, self.kw = kw.get("ports.serf_lan", PORT), list(wrap), kw
        self.gossipd = dict(pool.cluster.gossipd, **(gossipd or {}))
        self.node = self.configured()

    def configured(self):
        node = Node(self.pool.cluster, self.name, self.addr, server=self.server, gossipd=self.gossipd,
                    wrap=self.wrap, rpcd={"http_port": 0}, raftd={"bootstrap_expect": 1}, **self.kw)
        self.pool.cluster.nodes[self.name] = node
        return node

    def start(self, join=None):
        self.tags, self.touched = {}, set()     # tags that were set at run time end with the process
        if join:
            self.kw["retry_join"] = [join.where]
            self.node = self.configured()
        self.node.start()
        return self

    def up(self):
        wait_for(self.name + " answers", self.table)
        return self

    def has_tags(self, tags):
        """All that were set, and none that was removed."""
        return {k: v for k, v in tags.items() if k in self.touched} == self.tags

    def running(self):
        return self.node.running("gossipd")

    def kill(self):
        self.node.kill()

    def stop(self):
        self.node.stop()

    def leave(self):
        self.ctl("leave")
        ends = self.node.wait_end()
        assert not any(ends), "%s: leave ended with %r" % (self.name, ends)

    def join(self, other):
        return self.ctl("join", other.where)

    def force_leave(self, name, prune=False):
        return self.ctl("force-leave", *(["--prune"] if prune else []), name)

    def move(self, addr):
        """The same node, later at another address."""
        self.addr = addr
        self.node = self.configured()

    def set_tags(self, **tags):
        """'' removes a tag.  Only raftd and rpcd set tags on our side, so this is their message."""
        with Conn(os.path.join(self.node.run, "gossipd.sock")) as c:
            assert c.call(MSG.GOSSIP_TAGS, [tags], 20) == [0, ""]
        self.touched.update(tags)
        self.tags = {k: v for k, v in dict(self.tags, **tags).items() if v}

    def command(self, *args):
        return [os.path.join(BUILD, "ctl", "clusterctl"), "--addr", "unix:" + os.path.join(self.node.run, "rpcd.sock")
                ] + list(args)

    def ctl(self, *args, check=True, timeout=60):
        """Runs clusterctl against this node; returns the CompletedProcess (text).  NotYet with status 1, unless check is
        False."""
        p = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=timeout, env=ends.environment(os.environ))
        ends.clean("clusterctl " + " ".join(args), p.stderr)
        if check and p.returncode != 0:
            raise refusal("clusterctl %s: %d\n%s%s" % (" ".join(args), p.returncode, p.stdout, p.stderr), p.returncode in (1, 69, 77))
        return p

    def get(self, path):
        return self.node.get(path, unix=True).json()

    @staticmethod
    def parse(members):
        return {m["Name"]: row(("[%s]:%d" if ":" in m["Addr"] else "%s:%d") % (m["Addr"], m["Port"]),
                               STATUS[m["Status"]], m["Tags"]) for m in members}

    def tables(self):
        """{tool: {name: row}}"""
        return {"clusterctl members": self.parse(json.loads(self.ctl("--json", "members").stdout)),
                "/v1/agent/members": self.table()}

    def table(self):
        return self.parse(self.get("/v1/agent/members"))

    def stats(self, section="gossipd"):
        return self.node.stats(section, unix=True)

    def intents(self):
        """Intents that it still sends."""
        return int(self.stats("serf_lan")["intent_queue"])

    def memory(self, daemon="gossipd"):
        """PSS in KiB."""
        with open("/proc/%d/smaps_rollup" % self.node.pid(daemon)) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))

    def log(self):
        return self.node.log("gossipd")


class Agent(Member):
    """Serf's own agent."""

    kind = "serf"

    def __init__(self, pool, name, addr, port=PORT, tags=None, handler=None, key=None, keyring=None, wrap=(), extra=()):
        self.pool, self.name, self.addr, self.port = pool, name, addr, port
        self.tags, self.handler, self.key, self.extra = dict(tags or {}), handler, key, tuple(extra)
        self.keyring, self.wrap = keyring, list(wrap)
        self.dir = os.path.join(pool.cluster.dir, name)
        os.makedirs(self.dir, exist_ok=True)
        self.proc = None

    @property
    def rpc(self):
        return ("-rpc-addr=[%s]:7373" if ":" in self.addr else "-rpc-addr=%s:7373") % self.addr

    def start(self, join=None):
        assert not self.running(), self.name + " runs"
        cmd = [SERF, "agent", "-node=" + self.name, "-bind=" + self.where, self.rpc, "-profile=" + self.pool.profile,
               "-log-level=debug", "-snapshot=" + os.path.join(self.dir, "snapshot")]
        if self.keyring:
            cmd.append("-keyring-file=" + self.keyring)
        elif self.key:
            cmd.append("-encrypt=" + self.key)
        if self.handler:
            cmd.append("-event-handler=" + self.handler)
        if join:
            cmd.append("-retry-join=" + join.where)
            cmd.append("-retry-interval=1s")
        for k, v in self.tags.items():
            cmd += ["-tag", "%s=%s" % (k, v)]
        with open(os.path.join(self.dir, "serf.log"), "ab") as log:
            self.proc = subprocess.Popen(self.wrap + cmd + list(self.extra), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         start_new_session=True)
        return self

    def has_tags(self, tags):
        return tags == self.tags

    def running(self):
        return self.proc is not None and self.proc.poll() is None

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def up(self):
        wait_for(self.name + " answers", self.table)
        return self

    def leave(self):
        self.cmd("leave")
        assert self.proc.wait(60) == 0

    def join(self, other):
        return self.cmd("join", other.where)

    def force_leave(self, name, prune=False):
        return self.cmd("force-leave", *(["-prune"] if prune else []), name)

    def move(self, addr):
        self.addr = addr

    def set_tags(self, **tags):
        args = []
        for k, v in tags.items():
            args += ["-set", "%s=%s" % (k, v)] if v else ["-delete", k]
            if v:
                self.tags[k] = v
            else:
                self.tags.pop(k, None)
        self.cmd("tags", *args)

    def cmd(self, verb, *args, check=True, timeout=40):
        """Runs `serf VERB` against this agent; returns the CompletedProcess (text).  NotYet with status 1, unless check is
        False."""
        line = self.wrap + [SERF, verb, self.rpc] + list(args)
        p = subprocess.run(line, capture_output=True, text=True, timeout=timeout)
        if check and p.returncode != 0:
            raise refusal("%s: %d\n%s%s" % (" ".join(line), p.returncode, p.stdout, p.stderr), p.returncode in (1, 69, 77))
        return p

    def table(self):
        out = {}
        for m in json.loads(self.cmd("members", "-format=json").stdout)["members"]:
            out[m["name"]] = row(m["addr"], m["status"], shown(m["tags"]))
        return out

    def tables(self):
        return {"serf members": self.table()}

    def intents(self):
        """Intents that it still sends."""
        return int(json.loads(self.cmd("info", "-format=json").stdout)["serf"]["intent_queue"])

    def log(self):
        try:
            with open(os.path.join(self.dir, "serf.log"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""


def brief(text):
    lines = text.splitlines()
    return lines[0] + (" (and %d more)" % (len(lines) - 1) if len(lines) > 1 else "")


# -- a pool ---------------------------------------------------------------------------------------


class Pool:
    """Members, what is expected of each, and the agreement of all that run.

    net is the first three numbers of its addresses; ours get .1 and up, Serf's agents .101 and up.
    """

    def __init__(self, net, encrypted=False, gossipd=None, label="", profile="lan", count=10):
        self.net, self.label, self.encrypted, self.profile = net, label or net, encrypted, profile
        self.limits = Limits(profile, count)
        self.cluster = Cluster(net, keys=encrypted, gossipd=dict({"profile": profile}, **(gossipd or {})))
        self.key = None
        if encrypted:
            with open(self.cluster.keys + "/cluster.key") as f:
                self.key = next(line for line in f if line[0] not in "#\n").strip()
        self.members, self.expected = {}, {}
        atexit.register(self.kill_agents)

    def ours(self, count, first=1, prefix="o", **kw):
        return [self.add(Ours(self, "%s%d" % (prefix, i), "%s.%d" % (self.net, i), **kw))
                for i in range(first, first + count)]

    def agent(self, number, addr=None, prefix="s", **kw):
        kw.setdefault("key", self.key)
        kw["tags"] = dict(kw.get("tags") or {"kind": "serf", "nr": str(number)})
        return self.add(Agent(self, "%s%d" % (prefix, number), addr or "%s.%d" % (self.net, 100 + number), **kw))

    def agents(self, count, first=1, **kw):
        return [self.agent(i, **kw) for i in range(first, first + count)]

    def formed(self, ours, agents):
        """Starts these, all joining the first of ours, and waits until everybody knows everybody."""
        for m in ours:
            m.start(join=ours[0])
        for m in agents:
            m.start(join=ours[0])
        self.up(*ours, *agents)
        self.agree("formed")
        return ours, agents

    def add(self, member):
        self.members[member.name] = member
        return member

    # What a step makes of a member, as all others should show it: the pool's memory of the truth.

    def up(self, *members):
        for m in members:
            self.expected[m.name] = (m.where, "alive")

    def down(self, *members, status="failed"):
        for m in members:
            self.expected[m.name] = (self.expected[m.name][0], status)

    def gone(self, *members):
        for m in members:
            self.expected.pop(m.name, None)

    def running(self):
        return [m for m in self.members.values() if m.running()]

    # -- agreement

    def views(self, members=None):
        """(member, tool) -> table of every running member; a tool that fails shows its complaint instead."""
        out = {}
        for m in members or self.running():
            try:
                for tool, table in m.tables().items():
                    out[m.name, tool] = table
            except (*AGAIN, subprocess.SubprocessError) as e:
                out[m.name, m.kind] = {"error": (str(e).strip()[-300:], "", ())}
        return out

    def verdict(self, views, expected):
        """None when all agree with what is expected and on the tags; else the differences as text."""
        tags, lines, asked = {}, [], {who for who, _ in views}
        for table in views.values():
            for name, (_, _, t) in table.items():
                tags.setdefault(name, {}).setdefault(t, 0)
                tags[name][t] += 1
        for (who, tool), table in sorted(views.items()):
            for name in sorted(set(table) | set(expected)):
                have, want = table.get(name), expected.get(name)
                if (have and have[:2]) != want:
                    lines.append("%s (%s) shows %s as %s, want %s" % (who, tool, name, have and have[:2], want))
        for name, forms in sorted(tags.items()):
            if len(forms) > 1:
                lines.append("tags of %s differ: %s" % (name, forms))
            m = self.members.get(name)
            if len(forms) == 1 and m and name in asked and not m.has_tags(dict(next(iter(forms)))):
                lines.append("tags of %s are %s, want %s" % (name, next(iter(forms)), m.tags))
        return "\n".join(lines) or None

    def agree(self, what, limit=None, members=None, expected=None, judge=None):
        """Waits until every tool at every running member shows what is expected, and the same tags; within `limit`
        seconds.  judge(views) may judge instead: None, or a text that tells what is missing."""
        expected = self.expected if expected is None else expected
        limit = self.limits.spread() if limit is None else limit
        start = time.monotonic()
        tell = start + 5
        while True:
            late = time.monotonic() - start > limit
            text = None if late else self.glance(members, expected)
            if text is None or time.monotonic() > tell:
                views = self.views(members)
                text = judge(views) if judge else self.verdict(views, expected)
            if text is None:
                took = time.monotonic() - start
                print("  [%s] %s: agreed after %.1f s" % (self.label, what, took), flush=True)
                return views
            if time.monotonic() > tell:
                tell += 30
                print("  [%s] %s: not yet, as %s" % (self.label, what, brief(text)), flush=True)
            if late:
                raise Timeout("[%s] %s: no agreement within %.0f s\n%s" % (self.label, what, limit, text))
            time.sleep(0.25)

    def glance(self, members, expected):
        """A cheap look before the thorough one: the members that our nodes' API shows.  None: go on and ask everybody."""
        for m in members or self.running():
            if isinstance(m, Ours):
                try:
                    if {name: r[:2] for name, r in m.table().items()} != expected:
                        return m.name + " shows otherwise"
                except AGAIN:
                    return m.name + " does not answer"
        return None

    def settled(self):
        """Waits until no member sends an intent any more, in two looks: a copy may be on its way between them."""
        def looks():
            return all(m.intents() == 0 for _ in range(2) for m in self.running())
        wait_for("[%s] no intent is sent any more" % self.label, looks, self.limits.spread())

    def clean(self):
        """No running node of ours refused a packet of its friends."""
        for m in self.running():
            if isinstance(m, Ours):
                self.clean_one(m)

    def clean_one(self, m):
        stats = m.stats()
        bad = {k: stats.get(k) for k in MUST_BE_ZERO if stats.get(k) != "0"}
        assert not bad, "%s: %r" % (m.name, bad)

    def __enter__(self):
        return self

    def kill_agents(self):
        for m in self.members.values():
            if isinstance(m, Agent) and m.running():
                m.kill()

    def __exit__(self, kind, *rest):
        self.kill_agents()
        for m in self.members.values():
            if kind is not None and isinstance(m, Agent):
                print("--- %s\n%s" % (m.name, "\n".join(m.log().splitlines()[-15:])), flush=True)
        self.cluster.__exit__(kind, *rest)


def together(*jobs):
    """Runs functions at the same time; the first failure is raised after all ended."""
    errors = []

    def run(job):
        try:
            job()
        except BaseException as e:  # noqa: BLE001 - told to the caller below
            if errors:
                traceback.print_exc()
            errors.append(e)

    threads = [threading.Thread(target=run, args=(j,)) for j in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
