#!/usr/bin/env python3
"""Many tokens: what they cost to make, to keep, to look up, to list and to open again; storms of tokens that expire while others are
served; leaders that die while tokens are made and deleted.

TV_ACL_TOKENS: how many (10,000; the full run has 100,000).
"""
import http.client
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import NOT_FOUND, ON, READ_ALL, Acl, auth, formed, leads, servers_with_clock  # noqa: E402
from clockfault import ClockFault, missing  # noqa: E402
from cluster import CALM, SANITIZERS, Cluster, main, skip  # noqa: E402
from oprows import OPS, args, fields  # noqa: E402
from tvframe import MSG, Conn  # noqa: E402
from waiting import AGAIN, wait_for  # noqa: E402

TOKENS = int(os.environ.get("TV_ACL_TOKENS", "10000"))
STORM = 1000
WINDOW = 256                    # requests under way on one channel
RIGHTS_BYTES = 400              # of memory per token beside its rules, at most


def rss(node):
    """Bytes of memory that raftd holds."""
    with open("/proc/%d/status" % node.pid("raftd")) as f:
        return int(next(line for line in f if line.startswith("VmRSS:")).split()[1]) * 1024


def many(node, code, records, secret):
    """Asks for one operation with each of these records, many at a time: the values of the answers, in that order."""
    out = {}
    with Conn(os.path.join(node.run, "raftd.sock"), timeout=120) as conn:
        sent = 0
        while len(out) < len(records):
            while sent < len(records) and sent - len(out) < WINDOW:
                conn.send(MSG.OP, [code, "", 0, 0, 0, 0, secret, records[sent]], frame_id=1000 + sent)
                sent += 1
            f = conn.wait(lambda f: f.id >= 1000)
            assert f.body[0] == 0, f.body
            out[f.id - 1000] = f.body[5]
    return [out[i] for i in range(len(records))]


def secrets_of(node, acl, n, policy, ttl=0):
    token = args("acl_token_set", Token={"Policies": [{"ID": policy["ID"]}], "ExpirationTTL": ttl * 10 ** 9})
    made = many(node, OPS["ACL_TOKEN_SET"].code, [token] * n, acl.secret)
    return [fields("acl_token", t)["SecretID"] for t in made]


def timed(fn):
    begin = time.monotonic()
    value = fn()
    return value, time.monotonic() - begin


def test_many_tokens():
    """They are found by their secrets as fast as few are, listed whole, and there again after a restart."""
    with Cluster("127.244.1") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        acl.http("PUT", "/v1/kv/a", b"1").ok()
        policy = acl.policy(READ_ALL)
        read = args("kv_read", Key="a")
        with Conn(os.path.join(node.run, "raftd.sock")) as conn:
            def look(secret):
                body = conn.call(MSG.OP, [OPS["KV_GET"].code, "", 0, 0, 0, 0, secret, read])
                assert body[0] == 0, body
            few = secrets_of(node, acl, 200, policy)
            before = rss(node)
            _, each_of_few = timed(lambda: [look(s) for s in few])
            secrets, making = timed(lambda: secrets_of(node, acl, TOKENS, policy))
            made = rss(node)
            step = max(1, TOKENS // 5000)
            used = secrets[::step]
            _, looking = timed(lambda: [look(s) for s in used])
            held = rss(node)
            _, again = timed(lambda: [look(s) for s in used])
        (tokens, listing) = timed(lambda: acl.ask("GET", "/v1/acl/tokens", timeout=120))
        assert len(tokens) == TOKENS + 202, len(tokens)
        r, filtered = timed(lambda: acl.ask("GET", "/v1/acl/tokens?policy=" + policy["ID"], timeout=120))
        assert len(r) == TOKENS + 200
        node.kill()
        node.start()
        _, opening = timed(lambda: wait_for("it answers again", lambda: node.get(
            "/v1/kv/a", headers=auth(secrets[-1])).ok(200).status == 200))
        print("     %d tokens: made in %.1f s (%.0f us each), %.1f MB of memory more; first look-ups %.0f us, of few %.0f us, again "
              "%.0f us; %d kept with %d bytes each; list %.2f s, by policy %.2f s; open again after %.2f s" % (
                  TOKENS, making, making / TOKENS * 1e6, (made - before) / 1e6, looking / len(used) * 1e6,
                  each_of_few / len(few) * 1e6, again / len(used) * 1e6, len(used), (held - made) / len(used), listing, filtered,
                  opening), flush=True)
        if not SANITIZERS:
            assert looking / len(used) < 3 * each_of_few / len(few) + 200e-6, "look-ups become slow with many"
            assert (held - made) / len(used) < 2 * RIGHTS_BYTES, "%d bytes of memory for each token in use" % ((held - made) / len(used))


def test_expiry_storm():
    """A thousand tokens expire within a second: each is refused from its time on, others are served all the while, and the
    leader removes them."""
    if missing():
        skip(missing())
    with Cluster("127.244.2") as c:
        clock = ClockFault(os.path.join(c.dir, "clock"))
        servers = servers_with_clock(c, clock, 3, raftd=CALM, **ON)
        acl, leader = formed(c, servers)
        acl.http("PUT", "/v1/kv/a", b"1").ok()
        policy = acl.policy(READ_ALL)
        steady = acl.token(READ_ALL)
        clock.jump(-55)
        storm = secrets_of(leader, acl, STORM, policy, ttl=60)
        clock.jump(0)
        follower = next(s for s in servers if s is not leader)
        slow, wrong, halt = [], [], threading.Event()

        def ask():
            conn = http.client.HTTPConnection(follower.addr, 8500, timeout=60)
            while not halt.is_set():
                begin = time.monotonic()
                conn.request("GET", "/v1/kv/a?raw", headers=auth(steady))
                r = conn.getresponse()
                if (r.status, r.read()) != (200, b"1"):
                    wrong.append(r.status)
                slow.append(time.monotonic() - begin)
            conn.close()
        asker = threading.Thread(target=ask, daemon=True)
        asker.start()

        def count():
            """What the followers' states have, too."""
            return [int(s.stats("state", headers=auth(acl.secret))["acl_tokens"]) for s in servers]
        waiters, got = [], []
        index = acl.http("GET", "/v1/kv/a").index
        for i, secret in enumerate(storm[::10]):
            t = threading.Thread(target=lambda s=secret, n=servers[i % 3]: got.append(n.get(
                "/v1/kv/a?index=%d&wait=120s" % index, headers=auth(s), timeout=180)), daemon=True)
            t.start()
            waiters.append(t)
        for t in waiters:
            t.join(120)
        assert len(got) == len(waiters) and all((a.status, a.text) == (403, NOT_FOUND) for a in got), got[:3]
        for s in storm[1::100]:
            a = follower.get("/v1/kv/a", headers=auth(s))
            assert (a.status, a.text) == (403, NOT_FOUND), a
        wait_for("they are removed everywhere", lambda: count() == [3] * 3)
        halt.set()
        asker.join(60)
        assert not wrong, wrong[:5]
        slow.sort()
        print("     %d reads meanwhile: p50 %.1f ms, p99 %.1f ms, max %.1f ms" % (
            len(slow), slow[len(slow) // 2] * 1e3, slow[len(slow) * 99 // 100] * 1e3, slow[-1] * 1e3), flush=True)
        clock.close()


def test_leaders_die_while_tokens_change():
    """What was acknowledged holds under the next leader: a token that was made is known, and one that was deleted is not."""
    with Cluster("127.244.3") as c:
        servers = c.servers(3, **ON)
        acl, leader = formed(c, servers)
        acl.http("PUT", "/v1/kv/a", b"1").ok()
        policy = acl.policy(READ_ALL)
        made, deleted, halt, lock = {}, [], threading.Event(), threading.Lock()

        def change(node):
            """Makes tokens, and deletes every second one that it made."""
            own = Acl(node, acl.secret)
            n = 0
            while not halt.is_set():
                try:
                    r = own.http("PUT", "/v1/acl/token", {"Policies": [{"ID": policy["ID"]}]}, timeout=30)
                    if r.status != 200:
                        continue
                    t = r.json()
                    n += 1
                    if n % 2 == 0:
                        r = own.http("DELETE", "/v1/acl/token/" + t["AccessorID"], timeout=30)
                        if r.status == 200:
                            with lock:
                                deleted.append(t["SecretID"])
                    else:
                        with lock:
                            made[t["SecretID"]] = t["AccessorID"]
                except AGAIN:
                    pass
        threads = [threading.Thread(target=change, args=(s,), daemon=True) for s in servers]
        for t in threads:
            t.start()
        for _ in range(2):
            have = len(made) + len(deleted)
            wait_for("changes", lambda: len(made) + len(deleted) > have + 100)
            leader.kill()
            alive = [s for s in servers if s is not leader]
            now = leads(alive)
            wait_for("%s serves" % now.name, lambda: now.get("/v1/kv/a", headers=auth(acl.secret)).ok(200).status == 200)
            leader.start()
            wait_for("%s is back" % leader.name, lambda: leader.get("/v1/kv/a", headers=auth(acl.secret)).ok(200).status == 200)
            leader = leads(servers)
        halt.set()
        for t in threads:
            t.join(90)
        listed = {t["AccessorID"] for t in acl.ask("GET", "/v1/acl/tokens?consistent")}
        lost = [a for a in made.values() if a not in listed]
        assert not lost, "%d of %d tokens were lost" % (len(lost), len(made))
        for i, secret in enumerate(list(made)[::5]):
            assert servers[i % 3].get("/v1/kv/a", headers=auth(secret)).status == 200
        for i, secret in enumerate(deleted[::5]):
            a = servers[i % 3].get("/v1/kv/a", headers=auth(secret))
            assert (a.status, a.text) == (403, NOT_FOUND), a
        print("     %d made, %d deleted" % (len(made), len(deleted)), flush=True)


main(test_many_tokens, test_expiry_storm, test_leaders_die_while_tokens_change)
