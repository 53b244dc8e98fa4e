#!/usr/bin/env python3
"""One encrypted pool of gossipd and Serf's own agents (package serf); skipped where it is not installed."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import Cluster, main, skip, wait_for  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402

NET = os.environ.get("TV_NET", "127.4.1")
SERF = os.environ.get("TV_SERF") or shutil.which("serf")
ALIVE, LEFT, FAILED = 1, 3, 4
PORT = 8301


def ask(node, kind, body):
    with Conn(os.path.join(node.run, "gossipd.sock")) as c:
        return c.call(kind, body, 30)


def statuses(node):
    out = {}
    with Conn(os.path.join(node.run, "gossipd.sock")) as c:
        c.send(MSG.GOSSIP_WATCH, [])
        for f in c.frames(10):
            if f.type == MSG.GOSSIP_SYNCED:
                break
            pool, _, m = f.body
            if pool == 0:
                out[m[0]] = m[3]
    return out


class Agent:
    def __init__(self, cluster, name, last, key):
        addr = "%s.%d" % (NET, last)
        self.rpc = "-rpc-addr=%s:7373" % addr
        self.log = open(os.path.join(cluster.dir, name + ".log"), "ab")
        self.proc = subprocess.Popen(
            [SERF, "agent", "-node=" + name, "-bind=%s:%d" % (addr, PORT), self.rpc, "-encrypt=" + key, "-profile=local",
             "-join=%s.1:%d" % (NET, PORT), "-tag", "kind=serf"], stdout=self.log, stderr=self.log)

    def members(self):
        p = subprocess.run([SERF, "members", "-format=json", self.rpc], capture_output=True, text=True, timeout=20)
        return {m["name"]: m["status"] for m in json.loads(p.stdout)["members"]} if p.returncode == 0 else {}

    def leave(self):
        subprocess.run([SERF, "leave", self.rpc], check=True, capture_output=True, timeout=30)

    def kill(self):
        self.proc.kill()
        self.proc.wait()
        self.log.close()


def one_pool():
    if not SERF:
        skip("serf is not installed")
    with Cluster(NET, gossipd={"profile": "local"}) as cl:
        key = next(line for line in open(cl.keys + "/cluster.key") if line[0] not in "#\n").strip()
        a = cl.add("a", 1, server=False).start("gossipd")
        b = cl.add("b", 2, server=False, retry_join=[NET + ".1"]).start("gossipd")
        wait_for("two of ours", lambda: statuses(a) == {"a": ALIVE, "b": ALIVE})
        s1, s2 = Agent(cl, "s1", 21, key), Agent(cl, "s2", 22, key)
        try:
            both_ways(a, b, s1, s2, cl, key)
        finally:
            s1.kill()
            s2.kill()


def both_ways(a, b, s1, s2, cl, key):
    names = ("a", "b", "s1", "s2")
    for n in (a, b):
        wait_for(n.name + " knows all", lambda: statuses(n) == {x: ALIVE for x in names})
    wait_for("serf knows all", lambda: s1.members() == {x: "alive" for x in names})
    b.kill("gossipd")
    wait_for("serf sees b failed", lambda: s1.members()["b"] == "failed", 60)
    b.start("gossipd")
    wait_for("serf sees b again", lambda: s1.members()["b"] == "alive", 60)
    assert ask(b, MSG.GOSSIP_LEAVE, []) == [0, ""]
    assert b.wait_end("gossipd") == [0]
    wait_for("serf sees b left", lambda: s1.members()["b"] == "left", 60)
    s2.leave()
    wait_for("s2 left", lambda: statuses(a)["s2"] == LEFT, 60)
    s3 = Agent(cl, "s3", 23, key)
    wait_for("s3 came", lambda: statuses(a).get("s3") == ALIVE)
    s3.kill()
    wait_for("s3 failed", lambda: statuses(a)["s3"] == FAILED, 60)
    assert ask(a, MSG.GOSSIP_FORCE_LEAVE, ["s3", False]) == [0, ""]
    wait_for("serf sees s3 left", lambda: s1.members()["s3"] == "left", 60)
    info = ask(a, MSG.INFO, [])["gossipd"]
    assert info["packets_dropped_key"] == info["packets_dropped_format"] == info["dropped_message"] == "0", info


main(one_pool)
