"""Clients with tokens of their own, and who gives and takes their rights meanwhile.  What is wrong is judged in rights.py.

Groups of keys, services and sessions are the scopes: some identities have them alone, some share them.  Values end in the name of the
token that they were written with; a token has a new name each time it is made anew.
"""
import collections
import itertools
import json
import math
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system", "lib"))
import rights  # noqa: E402
from aclkit import auth  # noqa: E402
from clients import GROUPS, PREFIX, Everybody  # noqa: E402
from rights import READ, WRITE, Token  # noqa: E402
from waiting import wait_for  # noqa: E402

WARDENS, EACH = 3, 3        # who changes rights, and identities of each
SESSION = ("session", 0)
SCOPES = [(kind, g) for kind in ("key", "service") for g in range(GROUPS)] + [SESSION]
DEAD_MAX = 40               # tokens that are gone and are shown all the same
DEAD_SHARE = 0.04
SESSION_SHARE = 0.03
STALE = 30.0                # seconds: acl.token_ttl by default, which stale reads may be late too
REMEMBERED = 200000         # writes, for the trail
LOST_TRAIL = 30.0           # seconds that a line may wait in a daemon, which can be killed then, frozen before
NO_ANSWER = (OSError, ValueError)


def rules(granted):
    """The text of a policy."""
    out = []
    for (kind, g), level in sorted(granted.items()):
        name = {"key": "%s%d/" % (PREFIX, g), "service": "svc-%d-" % g, "session": ""}[kind]
        out.append('%s_prefix "%s" { policy = "%s" }\n' % (kind, name, level))
    return "".join(out)


def union(policies):
    """What several policies give together."""
    out = {}
    for granted in policies:
        for scope, level in granted.items():
            out[scope] = WRITE if WRITE in (level, out.get(scope)) else READ
    return out


class Guard(Everybody):
    def __init__(self, world, report, history, seed):
        self.world, self.report, self.history, self.seed = world, report, history, seed
        self.lock = threading.Lock()
        self.live, self.dead = {}, collections.deque(maxlen=DEAD_MAX)       # identity -> token
        self.by_accessor, self.counts = {}, collections.Counter()
        self.asked, self.acked = collections.OrderedDict(), collections.deque(maxlen=REMEMBERED)
        self.sessions = {}                              # name -> (token, start)
        self.threads = [Warden(self, i) for i in range(WARDENS)] + [Registrar(self)]

    def start(self):
        *wardens, registrar = self.threads
        for t in wardens:
            t.start()
        wait_for("tokens", lambda: len(self.live) == WARDENS * EACH)
        registrar.start()

    def stop(self):
        for t in self.threads:
            t.halt.set()
        for t in self.threads:
            t.join(60)
            if t.broken or t.is_alive():
                self.report("rights", "%s: %r" % (t.name, t.broken or "does not end"))

    def finding(self, text):
        if text:
            self.report("rights", text)

    # -- of clients ---------------------------------------------------------

    def pick(self, rng, group, level):
        return self.pick_for(rng, ("key", group), level)

    def pick_for(self, rng, scope, level):
        """Mostly one that has the right now; some that have not, and some that are gone."""
        with self.lock:
            live, dead = list(self.live.values()), list(self.dead)
        if dead and rng.random() < DEAD_SHARE:
            return rng.choice(dead)
        now = time.monotonic()
        able = [t for t in live if t.may(scope, level, now)] if rng.random() < 0.9 else []
        return rng.choice(able or live or dead)

    def headers(self, token):
        return auth(token.secret)

    def mark(self, token):
        return "-" + token.name

    def tried(self, window, group, token, op, who):
        node, name = who.partition("@")[2], op.key or window.prefix(window.number, group)
        with self.lock:
            if op.arg is not None:
                window.writers[op.arg] = (token, op.start)
            self.asked.setdefault((node, name), set()).add(token.accessor)
            if len(self.asked) > REMEMBERED:
                self.asked.popitem(last=False)

    def wrote(self, window, group, token, op, got):
        scope = ("key", group)
        if got.status == 200:
            self.counts["allowed"] += 1
            self.finding(rights.done(token, scope, op.start, op.end))
            if op.result:
                self.acked.append((got.who.partition("@")[2], op.key or window.prefix(window.number, group), token.accessor, op.end))
        elif got.status == 403:
            self.counts["denied"] += 1
            self.finding(rights.denied(token, scope, WRITE, got.start, got.end))
        else:
            with self.lock:
                window.rights.append((group, op, token))

    def read(self, window, group, token, got, found, stale):
        scope, writers = ("key", group), []
        hidden = got.status == 403
        for _, _, value in found:
            with self.lock:
                by = window.writers.get(value)
            if by:                                       # else the judge tells that nobody wrote it
                writers.append(by[1])
                text = rights.done(by[0], scope, by[1], got.end)
                if text:
                    window.writers.pop(value, None)      # it is told once
                    self.finding("%s; %s showed it" % (text, got.who))
        if hidden and not stale:
            self.counts["hidden"] += 1
            self.finding(rights.denied(token, scope, READ, got.start, got.end))
        if found:
            self.counts["shown"] += 1
            start = got.start
            if stale:
                known = got.headers.get("X-Consul-KnownLeader") == "true"
                contact = int(got.headers.get("X-Consul-LastContact", 0)) / 1000 if known else None
                start = rights.stale_start(start, writers, contact, STALE)
            self.finding(rights.shown(token, scope, start, got.end))
        # A list of nothing: is nothing there, or nothing to be seen?
        return got.status in (200, 404) and (found or not token.lacks(scope, READ, *((got.start, got.end) if not stale else (-math.inf,))))

    def more(self, client):
        """Sessions: whose name is who asked for it."""
        rng = client.random
        if rng.random() >= SESSION_SHARE:
            return False
        token = self.pick_for(rng, SESSION, WRITE)
        with self.lock:
            name = "session-%d-%s" % (len(self.sessions), token.name)
            self.sessions[name] = None
        body = json.dumps({"Name": name, "TTL": "60s", "NodeChecks": []})

        def before(_, start):
            self.sessions[name] = (token, start)
        got = client.ask("PUT", "session/create", body, token=token, before=before)
        if got.status == 200:
            self.counts["session"] += 1
            self.finding(rights.done(token, SESSION, got.start, got.end))
            again = self.pick_for(rng, SESSION, WRITE)
            gone = client.ask("PUT", "session/destroy/" + json.loads(got.body)["ID"], token=again)
            if gone.status == 403:
                self.finding(rights.denied(again, SESSION, WRITE, gone.start, gone.end))
        elif got.status == 403:
            self.finding(rights.denied(token, SESSION, WRITE, got.start, got.end))
        elif got.status is not None:
            self.history.refuse(got.status, got.text)
        return True

    # -- of the judge -------------------------------------------------------

    def sift(self, window):
        """What was of unknown outcome and can never have been allowed was not done: whoever shows it is wrong."""
        for group, op, token in window.rights:
            if not token.may(("key", group), WRITE, op.start):
                ops = window.ops.get(group, [])
                ops[:] = [o for o in ops if o is not op]
                if op.arg is not None:
                    window.failed.setdefault(group, set()).add(op.arg)
        window.rights, window.writers = [], {}           # they do not travel to the process that judges

    # -- at the end ---------------------------------------------------------

    def end(self):
        """All is well and nobody else asks for anything: rights are exactly what they are, everywhere."""
        self.exactly()
        self.threads[-1].settled()
        self.who_has_sessions()
        self.trails()

    def exactly(self):
        time.sleep(self.world.token_ttl + 1)
        for node in self.world.nodes:
            for token in list(self.live.values()) + list(self.dead)[-5:]:
                scope = random.choice(SCOPES)
                now = time.monotonic()
                if scope[0] == "service":
                    r = node.put("/v1/agent/service/register", {"Name": "svc-%d-last-%s" % (scope[1], token.name), "Check": {
                        "TTL": "10m"}}, headers=auth(token.secret))
                elif scope[0] == "key":
                    r = node.put("/v1/kv/%s%d/last" % (PREFIX, scope[1]), token.name, headers=auth(token.secret))
                else:
                    r = node.put("/v1/session/create", {"TTL": "60s", "NodeChecks": []}, headers=auth(token.secret))
                end = time.monotonic()
                if r.status == 200:
                    self.finding(rights.done(token, scope, now, end))
                elif r.status == 403:
                    self.finding(rights.denied(token, scope, WRITE, now, end))
                else:
                    self.report("rights", "%s at %s when all is well: %r" % (scope, node.name, r))

    def who_has_sessions(self):
        now = time.monotonic()
        for s in self.world.client.get("/v1/session/list").ok().json():
            if self.sessions.get(s["Name"]):
                token, start = self.sessions[s["Name"]]
                self.finding(rights.done(token, SESSION, start, now))

    def trails(self):
        """Each line about a key names one who asked for it there; of what was acknowledged at a node that was not killed since,
        there is a line."""
        seen = collections.Counter()
        for node in self.world.nodes:
            for line in trail_lines(node):
                if line.get("operation") != "KVS.Apply" or line.get("outcome") != "ok":
                    continue
                asked = self.asked.get((node.name, line["name"]))
                if asked is not None:
                    self.counts["trail"] += 1
                    seen[node.name, line["name"], line["accessor"]] += 1
                    if line["accessor"] == "unknown":    # nobody could tell of the token when the line was written
                        self.counts["trail of unknown"] += 1
                    else:
                        self.finding(rights.trail(line, asked))
        node, missing = self.world.client, collections.Counter()
        for name, key, accessor, at in self.acked:
            if name == node.name and not self.world.ended_within(node, "rpcd", at, LOST_TRAIL):
                missing[name, key, accessor] += 1
        lost = [k for k, n in missing.items() if seen[k] + seen[k[0], k[1], "unknown"] < n]
        if lost:
            self.report("rights", "%d writes were acknowledged by %s, and are not in its audit trail: %s" % (
                len(lost), node.name, lost[:5]))

    def summary(self):
        return "rights: %s; %d tokens were made, %d services registered" % (
            " ".join("%s %d" % c for c in sorted(self.counts.items())), len(self.by_accessor), self.threads[-1].count)


def trail_lines(node):
    folder = os.path.join(node.data, "rpcd")
    for file in sorted(os.listdir(folder)):
        if file.startswith("audit.log"):
            with open(os.path.join(folder, file), "rb") as f:
                for text in f:
                    try:
                        yield json.loads(text)
                    except ValueError:           # cut by a kill, or by a full disk
                        continue


class Worker(threading.Thread):
    def __init__(self, guard, name):
        super().__init__(daemon=True, name=name)
        self.guard, self.random = guard, random.Random("%s/%s" % (guard.seed, name))
        self.halt, self.broken = threading.Event(), None

    def ask(self, method, path, body=None, node=None, **kw):
        """(status, answer or text), (None, ...) without an answer; as who may do everything, or with other headers."""
        node = node or self.random.choice(self.guard.world.nodes)
        try:
            r = node.http(method, "/v1/" + path, body, timeout=4, **kw)
            return r.status, (json.loads(r.body) if r.status == 200 and r.body else r.text)
        except NO_ANSWER as e:
            return None, repr(e)
        except Exception as e:                           # noqa: BLE001 - http.client has many
            if type(e).__module__ != "http.client":
                raise
            return None, repr(e)

    def must(self, *args, **kw):
        """Until it is done, whatever comes of each try; None: the run is over."""
        while not self.halt.is_set():
            status, answer = self.ask(*args, **kw)
            if status == 200:
                return answer
            self.halt.wait(0.2)
        return None

    def run(self):
        try:
            while not self.halt.is_set():
                self.turn()
        except Exception as e:                           # noqa: BLE001 - the run fails with it
            self.broken = e


class Identity:
    """Two policies, linked or not, by the token itself or by a role; and the token."""

    def __init__(self, letter, by_role):
        self.letter, self.by_role = letter, by_role
        self.made = itertools.count(1)
        self.policies, self.linked, self.role, self.token = [], set(), None, None

    def rights(self):
        return union(self.policies[i]["granted"] for i in self.linked)

    def links(self):
        return [{"ID": self.policies[i]["ID"]} for i in sorted(self.linked)]


class Warden(Worker):
    """Gives and takes the rights of a few identities.  What it does not know the outcome of it leaves alone for good: the token
    is deleted, and the identity begins again."""

    def __init__(self, guard, number):
        super().__init__(guard, "warden-%d" % number)
        self.identities = [Identity("ABCDEFGHIJKLMNOP"[number * EACH + i], i % 2 == 1) for i in range(EACH)]

    def some_rights(self):
        out = {s: self.random.choice((READ, WRITE, WRITE)) for s in SCOPES if self.random.random() < 0.55}
        return {s: WRITE if s[0] != "key" else level for s, level in out.items()}

    def turn(self):
        one = self.random.choice([i for i in self.identities if i.token is None] or self.identities)
        if one.token is None:
            self.begin(one)
        else:
            dice = self.random.random()
            (self.change_policy if dice < 0.4 else self.change_links if dice < 0.75 else self.delete_policy if dice < 0.85
             else self.renew)(one)
        self.halt.wait(self.random.uniform(0, 1.0))

    def begin(self, one):
        """With new objects throughout."""
        one.policies, one.role, one.linked = [], None, {0, 1} if self.random.random() < 0.5 else {self.random.randrange(2)}
        for _ in range(2):
            if not self.new_policy(one, len(one.policies)):
                return
        if one.by_role:
            one.role = self.must("PUT", "acl/role", {"Name": self.name(one), "Policies": one.links()})
            if one.role is None:
                return
        self.new_token(one)

    def name(self, one):
        return "%s-%d-%d" % (one.letter, next(one.made), time.monotonic_ns())

    def new_policy(self, one, at):
        granted = self.some_rights()
        p = None
        while p is None and not self.halt.is_set():      # a lost one keeps its name
            status, p = self.ask("PUT", "acl/policy", {"Name": self.name(one), "Rules": rules(granted)})
            if status != 200:
                p = None
                self.halt.wait(0.2)
        if p is not None:
            p["granted"] = granted
            one.policies[at:at + 1] = [p]
        return p is not None

    def new_token(self, one):
        """Nobody knows the secret of one whose making has no answer."""
        body = {"Roles": [{"ID": one.role["ID"]}]} if one.role else {"Policies": one.links()}
        token = Token("%s.%d" % (one.letter, next(one.made)))
        while not self.halt.is_set():
            start = time.monotonic()
            status, t = self.ask("PUT", "acl/token", body)
            if status == 200:
                token.asked(start, one.rights())
                token.answered(time.monotonic())
                token.secret, token.accessor = t["SecretID"], t["AccessorID"]
                with self.guard.lock:
                    one.token = token
                    self.guard.live[one.letter] = token
                    self.guard.by_accessor[token.accessor] = token.name
                return
            self.halt.wait(0.2)

    def change(self, one, after, method, path, body=None):
        """after: rights then.  False when nobody knows what came of it."""
        one.token.asked(time.monotonic(), after)
        status, _ = self.ask(method, path, body)
        if status == 200:
            one.token.answered(time.monotonic())
            self.guard.counts["changes"] += 1
            return True
        self.guard.counts["lost changes"] += 1
        self.drop(one)
        return False

    def change_policy(self, one):
        at, granted = self.random.randrange(2), self.some_rights()
        if self.random.random() < 0.3:
            granted = {}
        p = one.policies[at]
        p["granted"] = granted                           # whether it was done is not known before the answer
        self.change(one, one.rights(), "PUT", "acl/policy/" + p["ID"], {"Name": p["Name"], "Rules": rules(granted)})

    def link(self, one):
        if one.role:
            body = {"ID": one.role["ID"], "Name": one.role["Name"], "Policies": one.links()}
            return self.change(one, one.rights(), "PUT", "acl/role/" + one.role["ID"], body)
        body = {"AccessorID": one.token.accessor, "SecretID": one.token.secret, "Policies": one.links()}
        return self.change(one, one.rights(), "PUT", "acl/token/" + one.token.accessor, body)

    def change_links(self, one):
        one.linked = self.random.choice([s for s in (set(), {0}, {1}, {0, 1}, {0, 1}) if s != one.linked])
        self.link(one)

    def delete_policy(self, one):
        at = self.random.randrange(2)
        was, one.linked = one.linked, one.linked - {at}
        if not self.change(one, one.rights(), "DELETE", "acl/policy/" + one.policies[at]["ID"]):
            return
        if self.new_policy(one, at) and at in was:       # what is linked is gone with it
            one.linked = was
            self.link(one)

    def renew(self, one):
        """The secret is revoked; the same rights come back with another one."""
        if self.drop(one) and not self.halt.is_set():
            self.new_token(one)

    def drop(self, one):
        token, one.token = one.token, None
        token.asked(time.monotonic(), {})                # it is shown on until it is known to be gone
        if self.must("DELETE", "acl/token/" + token.accessor) is None:
            return False
        token.answered(time.monotonic())
        with self.guard.lock:
            del self.guard.live[one.letter]
            self.guard.dead.append(token)
        return True


class Registrar(Worker):
    """Registers services through agents, with tokens that may have the right to them or not."""
    KEEP = 40
    PAUSE = 0.3
    SETTLE = 150.0          # seconds: an agent tries again what was denied

    def __init__(self, guard):
        super().__init__(guard, "registrar")
        self.count, self.all = 0, collections.OrderedDict()     # name -> (token, scope, start, node, taken)
        self.looked = 0.0

    def turn(self):
        node = self.guard.world.client if self.random.random() < 0.7 else self.random.choice(self.guard.world.nodes)
        scope = ("service", self.random.randrange(GROUPS))
        token = self.guard.pick_for(self.random, scope, WRITE)
        name = "svc-%d-%d-%s" % (scope[1], self.count, token.name)
        self.count += 1
        start = time.monotonic()
        self.all[name] = (token, scope, start, node, False)
        status, _ = self.ask("PUT", "agent/service/register", {"Name": name, "Port": 80}, node=node, headers=auth(token.secret))
        self.all[name] = (token, scope, start, node, status == 200)
        while len(self.all) > self.KEEP:
            name, (token, scope, start, node, taken) = self.all.popitem(last=False)
            self.ask("PUT", "agent/service/deregister/" + name, node=node)
        if time.monotonic() - self.looked > 5:
            self.looked = time.monotonic()
            status, there = self.ask("GET", "catalog/services")
            if status == 200:
                self.who_has(there)
        self.halt.wait(self.PAUSE)

    def who_has(self, there):
        now = time.monotonic()
        for name in there:
            if name in self.all:
                token, scope, start, _, _ = self.all[name]
                self.guard.finding(rights.done(token, scope, start, now))
                self.guard.counts["services seen"] += 1

    def settled(self):
        """What an agent took and its token had the right to all the time is there; what it never had the right to is not."""
        client = self.guard.world.client
        for name, (token, scope, start, node, taken) in list(self.all.items()):
            if node is client and taken and not token.lacks(scope, WRITE, start):
                end = time.monotonic() + self.SETTLE
                while client.get("/v1/catalog/service/" + name).ok().json() == []:
                    if time.monotonic() > end:
                        self.guard.report("rights", "%s, registered by %s at %.4f, is not in the catalog %.0f s after the last fault" % (
                            name, token, start, self.SETTLE))
                        break
                    time.sleep(0.5)
        self.who_has(client.get("/v1/catalog/services").ok().json())
