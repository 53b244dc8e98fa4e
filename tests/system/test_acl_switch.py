#!/usr/bin/env python3
"""Access control begins, and stays: servers that were told of it and such that were not, restarts, the first token while leaders
die, its reset by a file, and archives of before and after."""
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, READ_ALL, Acl, auth, formed, leads  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import AGAIN, need, wait_for  # noqa: E402

FIRST = "Bootstrap Token (Global Management)"
DELAYS = (0.0, 0.002, 0.005, 0.01, 0.02)       # s between the beginning of a bootstrap and the leader's end


def answered(node, secret=None, path="/v1/kv/before"):
    """The status that a server gives, once it has a leader."""
    return wait_for("%s answers" % node.name, lambda: node.get(path, headers=auth(secret)).ok(200, 403, 404).status)


def refuses(nodes, query=""):
    """Who has no token gets nothing, at each of these."""
    for n in nodes:
        assert answered(n, path="/v1/kv/before" + query) == 403, n.name
        r = n.put("/v1/kv/intruder", b"x")
        assert r.status == 403, (n.name, r)


def test_servers_that_were_not_told():
    """One of three is configured for it, and leads: the others keep to it, stale reads included, and warn once."""
    with Cluster("127.241.3") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        servers[0].kv_put("before", "1")
        one = servers[2]
        ident = next(s["ID"] for s in servers[0].get("/v1/operator/raft/configuration").json()["Servers"] if s["Node"] == one.name)
        one.stop()
        one.set_common(**ON)
        one.start()
        wait_for("it is back", lambda: one.get("/v1/kv/before").ok(200, 403))

        def lead():
            if leads(servers) is not one:
                servers[0].put("/v1/operator/raft/transfer-leader?id=" + ident)
            return need(leads(servers) is one, "another one leads") or True
        wait_for("it leads", lead)
        acl = Acl(one)
        refuses(servers)
        for s in servers:
            wait_for("%s has heard of it" % s.name, lambda s=s: s.get("/v1/kv/before?stale").status == 403)
            assert answered(s, acl.secret) == 200
        for s in servers[:2]:
            wait_for("%s warns" % s.name, lambda s=s: "cluster.conf says nothing of it" in s.log("raftd"))
            assert s.log("raftd").count("cluster.conf says nothing of it") == 1
        assert "cluster.conf says nothing of it" not in one.log("raftd")
        # They lead, and it still holds.
        one.kill()
        other = leads(servers[:2])
        refuses([s for s in servers if s is not one])
        assert answered(other, acl.secret) == 200
        one.start()


def test_switched_on_by_restarts():
    """Three servers restarted one after the other serve all the while, by one rule or the other, and nothing is lost."""
    with Cluster("127.241.4") as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 4, servers[0])
        c.formed(servers)
        servers[0].kv_put("before", "1")
        statuses, halt = set(), threading.Event()

        def ask():
            while not halt.wait(0.01):
                try:
                    statuses.add((client.get("/v1/kv/before").status, client.get("/v1/kv/before?stale").status))
                except AGAIN:
                    pass
        asker = threading.Thread(target=ask, daemon=True)
        asker.start()
        for s in servers:
            s.stop()
            s.set_common(**ON)
            s.start()
            # Its raftd answers, and the other two have a leader, before the next one goes.
            wait_for("%s is back" % s.name, lambda s=s: s.get("/v1/kv/before").ok(200, 403))
            wait_for("%s has it" % s.name, lambda s=s: s.get("/v1/kv/before?stale").ok(200, 403))
        acl, _ = formed(c, servers)
        halt.set()
        asker.join(60)
        assert not [s for pair in statuses for s in pair if s not in (200, 403, 500, 503)], statuses
        refuses(servers + [client])
        assert acl.http("GET", "/v1/kv/before?raw").ok(200).body == b"1"
        # All at once: it holds from the first answer on.
        secret = acl.token(READ_ALL)
        for s in servers:
            s.kill()
        for s in servers:
            s.start()
        first = wait_for("an answer", lambda: servers[0].get("/v1/kv/before").ok(200, 403))
        assert first.status == 403, first
        refuses(servers + [client])
        for n in servers + [client]:
            assert answered(n, secret) == 200, n.name
        r = servers[0].put("/v1/acl/bootstrap")
        assert r.status == 403 and re.match(r"Permission denied: ACL bootstrap no longer allowed \(reset index: \d+\)", r.text), r


def reset_index(node):
    """As the refusal names it."""
    r = node.put("/v1/acl/bootstrap").ok(403)
    return int(re.search(r"reset index: (\d+)\)", r.text).group(1))


def reset_file(node, text):
    path = os.path.join(node.data, "raftd", "acl-bootstrap-reset")
    with open(path, "w") as f:
        f.write(text)
    return path


def first_tokens(acl):
    return [t["AccessorID"] for t in acl.ask("GET", "/v1/acl/tokens") if t["Description"] == FIRST]


def test_reset_by_a_file():
    """Only with the right index, on the leader's host, and once."""
    with Cluster("127.241.5") as c:
        server, = c.servers(1, **ON)
        acl, _ = formed(c, [server])
        index = reset_index(server)
        for wrong in ("", "yes", "%d and more" % index):
            path = reset_file(server, wrong)
            assert server.put("/v1/acl/bootstrap").status == 403, wrong
        reset_file(server, str(index + 1))
        r = server.put("/v1/acl/bootstrap")
        assert r.status != 200 and "Invalid bootstrap reset index" in r.text, r
        os.unlink(path)
        elsewhere = os.path.join(c.dir, "index")
        with open(elsewhere, "w") as f:
            f.write(str(index))
        os.symlink(elsewhere, path)
        assert server.put("/v1/acl/bootstrap").status == 403, "through a symbolic link"
        os.unlink(path)
        reset_file(server, "%d\n" % index)
        second = Acl(server)
        wait_for("the file goes", lambda: not os.path.exists(path))
        assert len(first_tokens(second)) == 1 and server.get("/v1/acl/token/self", headers=auth(acl.secret)).status == 403
        assert second.ask("GET", "/v1/acl/token/self")["Description"] == FIRST
        assert "as %s asked, and the one of the bootstrap before it is revoked" % path in server.log("raftd")
        reset_file(server, "%d\n" % index)      # it has served
        r = server.put("/v1/acl/bootstrap")
        assert r.status != 200 and len(first_tokens(second)) == 1, r


def test_first_token_while_leaders_die():
    """Many ask for it at every server while the leader is killed: exactly one is made in the end, or one by a reset (S148)."""
    for round_number, delay in enumerate(DELAYS):
        with Cluster("127.245.%d" % (1 + round_number)) as c:
            servers = c.servers(3, **ON)

            def holds():
                r = servers[0].get("/v1/acl/tokens").ok(403, 401, 200)
                return need(r.status == 403, r) or True
            wait_for("access control holds", holds)
            leader = leads(servers)
            won, lock, go = [], threading.Lock(), threading.Event()

            def ask(node):
                go.wait()
                try:
                    r = node.put("/v1/acl/bootstrap", timeout=60)
                except AGAIN:
                    return
                if r.status == 200:
                    with lock:
                        won.append(r.json())
            threads = [threading.Thread(target=ask, args=(s,), daemon=True) for s in servers for _ in range(4)]
            for t in threads:
                t.start()
            go.set()
            threading.Event().wait(delay)       # the moment of the fault, no condition
            leader.kill()
            for t in threads:
                t.join(90)
            alive = [s for s in servers if s is not leader]
            assert len(won) <= 1, won
            leader.start()
            now = leads(alive)
            if not won:         # it was made and nobody heard, or none was made
                r = wait_for("an answer", lambda: now.put("/v1/acl/bootstrap").ok(200, 403))
                if r.status == 200:
                    won.append(r.json())
                else:
                    index = reset_index(now)
                    for s in servers:
                        reset_file(s, str(index))
                    won.append(wait_for("the reset", lambda: now.put("/v1/acl/bootstrap").ok(200)).json())
                    print("     %.0f ms: made, and heard by nobody; reset" % (delay * 1000), flush=True)
            acl = Acl(now, won[0]["SecretID"])
            assert first_tokens(acl) == [won[0]["AccessorID"]]
            assert all(answered(s, acl.secret, "/v1/acl/token/self") == 200 for s in servers)


def archive(node, secret=None):
    r = node.get("/v1/snapshot", headers=auth(secret), timeout=120)
    assert r.status == 200, r
    return r.body


def restored(cluster, node, saved, secret=None):
    """Restores it as an operator does; what the tool said."""
    path = os.path.join(cluster.dir, "archive.tgz")
    with open(path, "wb") as f:
        f.write(saved)
    opts = []
    if secret:
        opts = ["--token-file", os.path.join(cluster.dir, "secret")]
        with open(os.open(opts[1], os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write(secret)
    p = node.ctl(*opts, "snapshot", "restore", path, timeout=120)
    assert "Restored snapshot" in p.stdout, p
    return p


def test_restore_of_an_archive_from_before():
    """It holds no access control: keys are replaced, tokens, policies and roles stay, and nothing is open for a moment."""
    with Cluster("127.241.6") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        servers[0].kv_put("before", "old")
        old = archive(servers[0])
        for s in servers:
            s.stop()
            s.set_common(**ON)
        for s in servers:
            s.start()
        acl, _ = formed(c, servers)
        reader, gone = acl.token(READ_ALL), acl.make(READ_ALL)
        acl.ask("PUT", "/v1/acl/role", {"Name": "kept", "ServiceIdentities": [{"ServiceName": "web"}]})
        acl.delete(gone)
        acl.http("PUT", "/v1/kv/before", b"new").ok()
        lists = {p: acl.ask("GET", "/v1/acl/" + p) for p in ("tokens", "policies", "roles")}
        counts = {k: servers[0].stats("state", headers=auth(acl.secret))[k] for k in ("acl_tokens", "acl_policies", "acl_roles")}
        leaks, halt = [], threading.Event()

        def pry(node):
            while not halt.is_set():
                try:
                    r = node.get("/v1/kv/before?stale")
                except AGAIN:
                    continue
                if r.status == 200:
                    leaks.append((node.name, r))
        spies = [threading.Thread(target=pry, args=(s,), daemon=True) for s in servers]
        for t in spies:
            t.start()
        r = servers[0].put("/v1/snapshot", old, timeout=120)
        assert r.status == 403, r
        r = servers[0].put("/v1/snapshot", old, headers=auth(reader), timeout=120)
        assert r.status == 403, r
        p = restored(c, servers[0], old, acl.secret)
        assert "This replaces all keys, sessions, nodes, services, checks and prepared queries of datacenter dc1\n" in p.stderr, p
        assert "The archive has no tokens: those of this cluster, with their policies and roles, stay.\n" in p.stderr, p
        for s in servers:
            wait_for("%s has the old keys" % s.name, lambda s=s: s.get(
                "/v1/kv/before?stale&raw", headers=auth(acl.secret)).ok(200).body == b"old")
        halt.set()
        for t in spies:
            t.join(60)
        assert not leaks, leaks[:3]
        refuses(servers)
        refuses(servers, "?stale")
        for s in servers:
            assert answered(s, reader) == 200 and answered(s, gone["SecretID"]) == 403
            there = Acl(s, acl.secret)
            assert {p: there.ask("GET", "/v1/acl/" + p + "?stale") for p in lists} == lists, s.name
            assert {k: s.stats("state", headers=auth(acl.secret))[k] for k in counts} == counts, s.name
        # They are whole: by secret, by name, by time, and after a restart.
        acl.ask("PUT", "/v1/acl/token", {"Roles": [{"Name": "kept"}], "ExpirationTTL": "1h"})
        assert acl.http("PUT", "/v1/acl/bootstrap").status == 403
        for s in servers:
            s.kill()
        for s in servers:
            s.start()
        refuses(servers)
        assert all(answered(s, reader) == 200 for s in servers)


def test_restore_brings_tokens():
    """An archive with access control, restored into a cluster that has none: from then on it holds there, with its tokens."""
    with Cluster("127.241.7") as c:
        server, = c.servers(1, **ON)
        acl, _ = formed(c, [server])
        reader = acl.make(READ_ALL)
        acl.http("PUT", "/v1/kv/before", b"theirs").ok()
        saved = archive(server, acl.secret)
        refused = server.get("/v1/snapshot", headers=auth(reader["SecretID"]))
        assert refused.status == 403, refused
    with Cluster("127.241.8") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        servers[0].kv_put("mine", "1")
        p = restored(c, servers[0], saved)
        assert ", checks, prepared queries, tokens, policies, roles and auth methods of datacenter dc1\n" in p.stderr, p
        assert "Afterwards the 3 tokens of the archive hold, and none besides: " in p.stderr, p
        assert "`clusterctl acl bootstrap` names the reset index" in p.stderr, p
        for s in servers:
            wait_for("%s has it" % s.name, lambda s=s: s.get("/v1/kv/before?stale").status == 403)
        refuses(servers)
        there = Acl(servers[0], acl.secret)
        assert there.http("GET", "/v1/kv/before?raw").ok(200).body == b"theirs"
        assert there.http("GET", "/v1/kv/mine").status == 404
        assert there.ask("GET", "/v1/acl/token/" + reader["AccessorID"])["SecretID"] == reader["SecretID"]
        assert all(answered(s, reader["SecretID"]) == 200 for s in servers)
        assert servers[1].put("/v1/acl/bootstrap").status == 403
        wait_for("somebody warns", lambda: any("cluster.conf says nothing of it" in s.log("raftd") for s in servers))


def test_restore_of_other_rules_for_the_same_policy():
    """Two clusters that come from one archive gave a policy other rules, at the same index: after a restore those of the archive
    count, though the server still has the others in memory."""
    with Cluster("127.241.9") as c:
        servers = [c.add("n%d" % i, i, raftd={"bootstrap_expect": 1}, **ON).start() for i in (1, 2)]
        acl, _ = formed(c, servers[:1])
        policy = acl.policy('key_prefix "" { policy = "read" }', name="shared")
        token = acl.ask("PUT", "/v1/acl/token", {"Policies": [{"ID": policy["ID"]}]})["SecretID"]
        acl.http("PUT", "/v1/kv/before", b"1").ok()
        seed = archive(servers[0], acl.secret)
        formed(c, servers[1:])[0].http("PUT", "/v1/snapshot", seed, timeout=120).ok()
        acls = [Acl(s, acl.secret) for s in servers]

        def index(a):
            """Of one write more."""
            key = "/v1/kv/step"
            a.http("PUT", key, os.urandom(8)).ok()
            return a.ask("GET", key)[0]["ModifyIndex"]

        def changed(rules, at_least):
            while index(acls[0]) < at_least:
                pass
            return acls[0].change_policy(policy, rules)["ModifyIndex"]
        # The other one changes it first; then this one catches up, entry by entry, until both gave it the same index.
        there = acls[1].change_policy(policy, 'key_prefix "other/" { policy = "read" }')["ModifyIndex"]
        while True:
            here = changed('key_prefix "" { policy = "write" }', there - 1)
            if here == there:
                break
            while index(acls[1]) < here + 10:
                pass
            there = acls[1].change_policy(policy, 'key_prefix "other/%d/" { policy = "read" }' % here)["ModifyIndex"]
        assert answered(servers[0], token) == 200
        assert answered(servers[1], token) == 403
        narrow = archive(servers[1], acl.secret)
        r = acl.http("PUT", "/v1/snapshot", narrow, timeout=120)
        assert r.status == 200 and answered(servers[0], token) == 403


main(test_servers_that_were_not_told, test_switched_on_by_restarts, test_reset_by_a_file, test_first_token_while_leaders_die,
     test_restore_of_an_archive_from_before, test_restore_brings_tokens, test_restore_of_other_rules_for_the_same_policy)
