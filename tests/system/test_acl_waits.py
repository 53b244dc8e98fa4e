#!/usr/bin/env python3
"""What becomes of those who wait, and of those who ask elsewhere, when a token goes, expires, or loses a right: at a leader, at a
follower and at a client node."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import DENIED, NOT_FOUND, ON, READ_ALL, auth, formed, servers_with_clock  # noqa: E402
from clockfault import ClockFault, missing  # noqa: E402
from cluster import CALM, Cluster, main, skip  # noqa: E402
from raftcluster import ERR  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from oprows import Asker  # noqa: E402
from waiting import wait_for  # noqa: E402

AWAY = 57                       # seconds that the clock is behind while a token is made that lives for 60


class Waiter(threading.Thread):
    """A blocking query on its own connection."""

    def __init__(self, node, secret, path, index):
        super().__init__(daemon=True)
        self.node, self.secret, self.answer = node, secret, None
        self.path = "%s%sindex=%d&wait=300s" % (path, "&" if "?" in path else "?", index)
        self.start()

    def run(self):
        self.answer = self.node.get(self.path, headers=auth(self.secret), timeout=360)

    def end(self, timeout=60):
        self.join(timeout)
        assert not self.is_alive(), "%s at %s waits on" % (self.path, self.node.name)
        return self.answer


def told(node, section):
    with Conn(os.path.join(node.run, "raftd.sock")) as conn:
        return conn.call(MSG.INFO, [])[section]


def watches(servers):
    return sum(int(told(s, "state")["watches"]) for s in servers if s.running("raftd"))


class World:
    """One cluster for all cases: three servers and a client, whose clock the test sets."""

    def __init__(self, net):
        self.c = Cluster(net)
        self.clock = ClockFault(os.path.join(self.c.dir, "clock"))
        self.servers = servers_with_clock(self.c, self.clock, 3, raftd=CALM, **ON)
        self.client = self.c.client("c1", 4, self.servers[0], **ON)
        self.acl, self.leader = formed(self.c, self.servers)
        self.follower = next(s for s in self.servers if s is not self.leader)
        self.acl.http("PUT", "/v1/kv/waited/key", b"1").ok()
        self.acl.http("PUT", "/v1/catalog/register", {"Node": "far", "Address": "10.0.0.9", "Service": {"Service": "web"}}).ok()
        for node in self.nodes:
            wait_for("%s answers" % node.name, lambda n=node: n.get(
                "/v1/kv/waited/key", headers=auth(self.acl.secret)).ok(200).status == 200)

    @property
    def nodes(self):
        return self.leader, self.follower, self.client

    def index(self, path):
        return self.acl.http("GET", path).ok(200).index

    def wait(self, secret, paths, nodes=None):
        """Waiters for each of these paths at each node, that have begun to wait at raftd."""
        at = {p: self.index(p) for p in paths}
        before = watches(self.servers)
        out = [Waiter(n, secret, p, at[p]) for n in nodes or self.nodes for p in paths]
        wait_for("they wait", lambda: watches(self.servers) >= before + len(out))
        return out

    def expiring(self, *rules):
        """A token that expires about three seconds from now."""
        self.clock.jump(-AWAY)
        token = self.acl.make(*rules, ExpirationTTL="60s")
        self.clock.jump(0)
        return token


WORLD = []


def world():
    if missing():
        skip(missing())
    if not WORLD:
        WORLD.append(World("127.241.2"))
    return WORLD[0]


PATHS = ("/v1/kv/waited/key", "/v1/kv/waited/?recurse", "/v1/kv/waited/?keys", "/v1/health/service/web", "/v1/catalog/nodes",
         "/v1/session/list")


def test_deleted_while_it_waits():
    """Each of its queries ends with 403, wherever it waits."""
    w = world()
    token = w.acl.make(READ_ALL)
    waiters = w.wait(token["SecretID"], PATHS)
    w.acl.delete(token)
    for x in waiters:
        a = x.end()
        assert (a.status, a.text) == (403, NOT_FOUND), (x.path, x.node.name, a)


def test_expired_while_it_waits():
    w = world()
    token = w.expiring(READ_ALL)
    begin = time.monotonic()
    waiters = w.wait(token["SecretID"], PATHS)
    for x in waiters:
        a = x.end()
        assert (a.status, a.text) == (403, NOT_FOUND), (x.path, x.node.name, a)
    assert time.monotonic() - begin < 30, "it lived for %.0f s" % (time.monotonic() - begin)


def test_a_right_that_was_lost():
    """Of one record: refused at once.  A list goes on waiting, and what comes then is not in it."""
    w = world()
    policy = w.acl.policy(READ_ALL)
    secret = w.acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": policy["ID"]}]})["SecretID"]
    one, lists = w.wait(secret, PATHS[:1]), w.wait(secret, PATHS[1:2] + PATHS[3:5])
    w.acl.change_policy(policy, 'event "none" { policy = "read" }')
    for x in one:
        a = x.end()
        assert (a.status, a.text) == (403, DENIED), (x.node.name, a)
    w.acl.http("PUT", "/v1/kv/waited/more", b"hidden").ok()
    w.acl.http("PUT", "/v1/catalog/register", {"Node": "hidden", "Address": "10.0.0.8", "Service": {"Service": "web"}}).ok()
    for x in lists:
        a = x.end()
        assert a.status in (200, 404) and a.text in ("", "[]"), (x.path, x.node.name, a)
    w.acl.http("DELETE", "/v1/kv/waited/more").ok()


def test_a_right_that_was_won():
    """A list that was empty for want of a right is answered as soon as there is one, though nothing in it has changed."""
    w = world()
    policy = w.acl.policy('event "none" { policy = "read" }')
    secret = w.acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": policy["ID"]}]})["SecretID"]
    lists = w.wait(secret, PATHS[1:2])
    w.acl.change_policy(policy, READ_ALL)
    for x in lists:
        assert "waited/key" in x.end().text, (x.node.name, x.answer)


def test_others_are_left_alone():
    """While 200 tokens come and go, a query whose token is untouched is not looked at again, and ends as ever."""
    w = world()
    secrets = [w.acl.token(READ_ALL) for _ in range(5)]
    keys = ["/v1/kv/many/%d" % i for i in range(20)]    # rpcd asks once for all who wait for the same with the same token
    for k in keys:
        w.acl.http("PUT", k, b"1").ok()
    waiters = [x for s in secrets for x in w.wait(s, keys, [w.leader])]
    before = told(w.leader, "raftd")
    made = [w.acl.ask("PUT", "/v1/acl/token", {"Description": "another"}) for _ in range(200)]
    for token in made[:100]:
        w.acl.delete(token)
    after = told(w.leader, "raftd")
    reads = sum(int(after[k]) - int(before[k]) for k in ("state_reads", "state_lists"))
    print("     %d looks at the state for 300 changes, %d wait" % (reads, len(waiters)), flush=True)
    assert reads < 2 * 300, "%d looks: those who wait were woken" % reads
    assert not [x for x in waiters if not x.is_alive()]
    for k in keys:
        w.acl.http("PUT", k, b"2").ok()
    for x in waiters:
        assert x.end().status == 200, x.answer


def test_refused_elsewhere_at_once():
    """What was revoked at one node is refused at each other one by the next read that is not stale."""
    w = world()
    ways = [(a, b) for a in w.nodes for b in w.nodes]
    for i, (here, there) in enumerate(ways * 8):
        token = w.acl.make(READ_ALL)
        a = there.get("/v1/kv/waited/key", headers=auth(token["SecretID"]))
        assert a.status == 200, (i, there.name, a)
        a = here.delete("/v1/acl/token/" + token["AccessorID"], headers=auth(w.acl.secret))
        assert a.status == 200, (i, here.name, a)
        path = ("/v1/kv/waited/key", "/v1/kv/waited/key?consistent", "/v1/catalog/nodes")[i % 3]
        a = there.get(path, headers=auth(token["SecretID"]))
        assert (a.status, a.text) == (403, NOT_FOUND), (i, here.name, there.name, a)
        a = there.put("/v1/kv/waited/other", b"x", headers=auth(token["SecretID"]))
        assert (a.status, a.text) == (403, NOT_FOUND), (i, here.name, there.name, a)


def test_stale_reads_follow():
    """A server that lags may still know a token; it forgets it as soon as it hears of it."""
    w = world()
    token = w.acl.make(READ_ALL)
    for s in w.servers:
        wait_for("%s knows the token" % s.name, lambda s=s: s.get(
            "/v1/kv/waited/key?stale", headers=auth(token["SecretID"])).status == 200)
    w.acl.delete(token)
    for s in w.servers:
        wait_for("%s has forgotten the token" % s.name, lambda s=s: s.get(
            "/v1/kv/waited/key?stale", headers=auth(token["SecretID"])).status == 403, 10)


def test_lost_while_a_write_is_on_its_way():
    """Writes of a token that is deleted meanwhile are done or refused, and from the deletion's answer on all are refused."""
    w = world()
    token = w.acl.make('key_prefix "race/" { policy = "write" }')
    asker, gone, late = Asker(w.leader), threading.Event(), []

    def write():
        for i in range(100000):
            after = gone.is_set()
            said = asker.op("KV_APPLY", token["SecretID"], Key="race/%d" % i, Value=b"x")
            if said.err != 0:
                assert (said.err, said.text) == (ERR.EPERM, NOT_FOUND), said
                return
            if after:
                late.append(i)
                return
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    wait_for("writes", lambda: w.acl.http("GET", "/v1/kv/race/100").ok(200, 404).status == 200)
    w.acl.delete(token)
    gone.set()
    writer.join(60)
    assert not writer.is_alive() and not late, late
    asker.close()


main(test_deleted_while_it_waits, test_expired_while_it_waits, test_a_right_that_was_lost, test_a_right_that_was_won,
     test_others_are_left_alone, test_refused_elsewhere_at_once, test_stale_reads_follow, test_lost_while_a_write_is_on_its_way)
