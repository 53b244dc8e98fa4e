#!/usr/bin/env python3
"""User events and queries between our nodes and Serf's agents: what one says, all hear once, whoever it is."""
import base64
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from pool import Agent, Pool, namespace, together  # noqa: E402
from cluster import main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.104.0").rpartition(".")[0]
COUNT = 3			# of each kind
ROUNDS = 4
BIG = 470			# bytes of payload; with the name it stays below Serf's limit of 512
ANSWER = 900			# and 1024 for an answer, all included

# Serf's handlers get the payload as input and the rest in the environment; a query's answer is what they print.
HANDLER = """#!/bin/sh
case $SERF_EVENT in
user) echo "$SERF_USER_EVENT $SERF_USER_LTIME $(base64 -w0)" >>%(file)s ;;
query) case $SERF_QUERY_NAME in
	large) head -c %(answer)d /dev/zero | tr '\\0' x ;;
	*) echo "$SERF_SELF_NAME heard $(cat)" ;;
	esac ;;
esac
"""


class Ear:
    """What a member hears: (name, ltime, payload) of each event, in order."""

    def __init__(self, m):
        self.m = m
        self.file = os.path.join(m.pool.cluster.dir, m.name + ".heard")
        self.procs, self.mark, self.lives = [], "", 0
        open(self.file, "a").close()
        if isinstance(m, Agent):
            m.handler = os.path.join(m.dir, "handler")
            with open(m.handler, "w") as f:
                f.write(HANDLER % {"file": self.file, "answer": ANSWER})
            os.chmod(m.handler, 0o755)

    def listen(self):
        """Ours: clusterctl follows the events, and answers queries.  Returns when it hears, for what came before it does not."""
        if isinstance(self.m, Agent):
            return
        self.lives += 1
        self.mark = "listening-%s-%d" % (self.m.name, self.lives)
        large = "head -c %d /dev/zero | tr '\\0' x" % ANSWER
        say = "echo \"%s heard $(cat)\"" % self.m.name
        out = open(self.file, "a")
        for args in (("--json", "event", "watch"), ("query", "answer", "deploy", "--exec", say),
                     ("query", "answer", "large", "--exec", large)):
            self.procs.append(subprocess.Popen(self.m.command(*args), stdin=subprocess.DEVNULL,
                                               stdout=out if "watch" in args else subprocess.DEVNULL,
                                               stderr=open(self.file + ".err", "a")))
        out.close()
        wait_for(self.m.name + " listens", self.hears)

    def hears(self):
        fire(self.m, self.mark)
        with open(self.file + ".err") as f:
            answering = f.read().count("Answering queries")
        return answering == 2 * self.lives and self.mark in {e[0] for e in self.heard()}

    def heard(self):
        out = []
        with open(self.file) as f:
            for line in f:
                if not line.endswith("\n"):
                    break                       # the rest of it is on its way
                if isinstance(self.m, Agent):
                    name, ltime, payload = (line.rstrip("\n") + "  ").split(" ")[:3]
                    text = base64.b64decode(payload).decode()
                    out.append((name, int(ltime), text[:-1] if text.endswith("\n") else text))     # Serf appends one
                else:
                    e = json.loads(line)
                    out.append((e["Name"], e["LTime"], base64.b64decode(e["Payload"] or "").decode()))
        return out

    def close(self):
        for p in self.procs:
            p.terminate()
            p.wait()
        self.procs = []


def fire(m, name, payload=""):
    if isinstance(m, Agent):
        m.cmd("event", "-coalesce=false", name, payload)
    else:
        m.ctl("event", "fire", name, payload)


def hear(pool, ears, names):
    """Waits until each of ears heard each of names; then nobody may have heard one twice, or otherwise than the rest."""
    for ear in ears:
        wait_for("%s hears %s" % (ear.m.name, sorted(names)), lambda: names <= {e[0] for e in ear.heard()},
                 pool.limits.spread())
    want = None
    for ear in ears:
        mine = sorted(e for e in ear.heard() if e[0] in names)
        want = want or mine
        twice = [e[0] for a, e in zip(mine, mine[1:]) if a[0] == e[0]]
        assert mine == want and not twice, "%s heard twice %s, and otherwise than %s %s" % (
            ear.m.name, twice, ears[0].m.name, sorted(set(mine) ^ set(want)))
    return {e[0]: e[2] for e in want}


def events(pool, ears):
    said = {}
    for i in range(ROUNDS):
        for ear in ears:
            said["e-%s-%d" % (ear.m.name, i)] = ("x" * BIG if i == 1 else "" if i == 2 else "löad\n %d" % i, ear.m)
    for name, (payload, m) in said.items():
        fire(m, name, payload)
    got = hear(pool, ears, set(said))
    want = {name: payload for name, (payload, _) in said.items()}
    assert got == want, sorted(set(got.items()) ^ set(want.items()))


def too_long(pool, ears):
    """Refused where it is fired, by both, and heard by nobody: the marker fired after it is."""
    agent, ours = ears[-1].m, ears[0].m
    p = agent.cmd("event", "toolong", "y" * 600, check=False)
    assert p.returncode != 0, p.stdout
    p = ours.ctl("event", "fire", "toolong", "y" * 600, check=False)
    assert p.returncode == 1 and "512" in p.stderr, (p.returncode, p.stderr)
    fire(ours, "after-long", "")
    hear(pool, ears, {"after-long"})
    assert all("toolong" not in [e[0] for e in ear.heard()] for ear in ears)


def restarts(pool, ears):
    """A restarted member, and one that is new, hear what comes and nothing that was."""
    o, s = ears[COUNT - 1], ears[-1]
    o.close()
    for ear in (o, s):
        ear.m.kill()
        os.truncate(ear.file, 0)
    pool.down(o.m, s.m)
    pool.agree("two are killed", pool.limits.detect())
    fire(ears[0].m, "while-away", "")
    hear(pool, [e for e in ears if e not in (o, s)], {"while-away"})
    fresh = Ear(pool.agent(COUNT + 1))
    for ear in (o, s, fresh):
        ear.m.start(join=ears[0].m)
        pool.up(ear.m)
    o.m.up()
    o.listen()
    ears.append(fresh)
    pool.agree("they return, and one is new")
    for ear in ears:
        fire(ear.m, "back-" + ear.m.name, "")
    marks = {"back-" + ear.m.name for ear in ears}
    hear(pool, ears, marks)
    for ear in (o, s, fresh):
        new = marks | {e.mark for e in ears} | {"while-away"}           # that one it may get with its first exchange
        old = {e[0] for e in ear.heard()} - new
        assert not old, "%s heard again %s" % (ear.m.name, old)


# -- queries ----------------------------------------------------------------------------------------


def ask(m, name, payload, **opts):
    """(acks, {node: answer}); opts: nodes, tags, ack, relay, timeout."""
    serf = isinstance(m, Agent)
    args = []
    for n in opts.get("nodes", ()):
        args += ["-node=" + n] if serf else ["--node", n]
    for t in opts.get("tags", ()):
        args += ["-tag", t] if serf else ["--tag", t]
    if not opts.get("ack", True):
        args += ["-no-ack"] if serf else ["--no-ack"]
    if opts.get("relay"):
        args += ["-relay-factor=%d" % opts["relay"]] if serf else ["--relay", str(opts["relay"])]
    args += ["-timeout=3s"] if serf else ["--timeout", "3s"]
    if serf:
        answer = json.loads(m.cmd("query", "-format=json", *args, name, payload).stdout)
        return sorted(answer["Acks"] or []), answer["Responses"] or {}
    answer = json.loads(m.ctl("--json", "query", *args, name, payload).stdout)
    return sorted(answer["Acks"] or []), {
        r["From"]: base64.b64decode(r["Payload"]).decode() for r in answer["Responses"]}


def heard_by(names, payload):
    return {n: ("%s heard %s" % (n, payload)).strip() for n in names}


def asks(m, name, payload, acks, answers, **opts):
    """Everybody who should answers, and nobody else; a query that missed a member is asked again: gossip is best effort."""
    heard = []

    def asked():
        acked, said = ask(m, name, payload, **opts)
        heard.append((acked, {n: a.strip() for n, a in said.items()}))
        return heard[-1] == (sorted(acks), answers)
    wait_for("all answer %s of %s" % (name, m.name), asked)
    for acked, said in heard:
        assert set(acked) <= set(acks) and set(said.items()) <= set(answers.items()), "got %s, want %s" % (
            (acked, said), (sorted(acks), answers))


def queries(pool, ears):
    everybody = sorted(e.m.name for e in ears)
    agents = sorted(e.m.name for e in ears if isinstance(e.m, Agent))
    some = ["o2", "s2"]
    for m in (ears[0].m, ears[COUNT].m):
        asks(m, "deploy", "now", everybody, heard_by(everybody, "now"))
        asks(m, "deploy", "", [], heard_by(everybody, ""), ack=False)
        asks(m, "deploy", "a", some, heard_by(some, "a"), nodes=some)
        asks(m, "deploy", "b", agents, heard_by(agents, "b"), tags=["kind=^se.f$"])
        asks(m, "deploy", "c", ["o1"], heard_by(["o1"], "c"), tags=["role=cli"], nodes=["o1", "s1"])
        asks(m, "deploy", "d", [], {}, tags=["kind=nobody"])
        asks(m, "deploy", "e", everybody, heard_by(everybody, "e"), relay=2)
        asks(m, "large", "f", everybody, {n: "x" * ANSWER for n in everybody}, relay=1)
        asks(m, "unknown-to-ours", "g", everybody, heard_by(agents, "g"))
        asks(m, "deploy", "h" * 600, ["o3", "s3"], heard_by(["o3", "s3"], "h" * 600), nodes=["o3", "s3"])
    p = ears[COUNT].m.cmd("query", "deploy", "i" * 1100, check=False)
    assert p.returncode != 0, p.stdout
    p = ears[0].m.ctl("query", "deploy", "i" * 1100, check=False)
    assert p.returncode == 1 and "1024" in p.stderr, (p.returncode, p.stderr)


def life(net, encrypted):
    with Pool(net, encrypted, label="encrypted" if encrypted else "plain", count=2 * COUNT + 1) as pool:
        ears = [Ear(m) for m in pool.ours(COUNT) + pool.agents(COUNT)]
        try:
            pool.formed([e.m for e in ears[:COUNT]], [e.m for e in ears[COUNT:]])
            for ear in ears:
                ear.listen()
            for part in (events, too_long, queries, restarts):
                part(pool, ears)
                print("  [%s] %s" % (pool.label, part.__name__), flush=True)
            pool.clean()
        finally:
            for ear in ears:
                ear.close()


def events_and_queries():
    together(lambda: life(NET + ".1", False), lambda: life(NET + ".2", True))


if __name__ == "__main__":
    namespace()
    main(events_and_queries)
