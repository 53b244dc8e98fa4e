#!/usr/bin/env python3
"""Keys: a plaintext cluster becomes an encrypted one, rings rotate, nodes that missed it are told."""
import base64
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, TOP, Cluster, Writer, main, rpcd_conf  # noqa: E402
from waiting import wait_for  # noqa: E402

ALIVE, FAILED = 1, 4


def net(i):
    """Each test has a network of its own."""
    return "127.16.%d" % i


def all_alive(nodes):
    names = {n.name for n in nodes}
    for n in nodes:
        if n.members() != dict.fromkeys(names, ALIVE):
            return False
    return True


def stages(node):
    """name -> stage of encryption, as this node was told by gossip."""
    return {m["Name"]: m["Tags"].get("enc", "off") for m in node.get("/v1/agent/members").json()}


def seen_dead(node, name):
    """Probing at the pace of a LAN takes its time, the more so when few are left to confirm it."""
    wait_for(name + " is down", lambda: node.members()[name] == FAILED, 120)


def says_in_clear(node, port):
    """A peer that greets in clear is hung up on."""
    with socket.create_connection((node.addr, port), timeout=10) as s:
        s.settimeout(10)
        s.sendall(b"\x05\x00\x00\x00\x01\x00\x00\x00" + bytes(8) + b"\x94\x01\xa1x\xa0\xa0")
        try:
            return s.recv(100) == b""
        except ConnectionResetError:
            return True


def ids(node):
    """Ids of the ring, the primary key first."""
    return node.stats("keyring")["keys"].split()


def secrets(node):
    """id -> key, by the table that people see."""
    table = node.ctl("keyring", "list", "--show-keys").stdout
    return dict(re.findall(r" ([0-9a-f]{16}) .* (\S{24,44})$", table, re.M))


def random_key(length=32):
    return base64.b64encode(os.urandom(length)).decode()


def key_file(cluster, name, *keys):
    path = os.path.join(cluster.dir, name)
    with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        f.write("".join(k + "\n" for k in keys))
    return path


def ring_file(node):
    """The keys in the file of the ring, or None."""
    try:
        with open(os.path.join(node.data, "gossipd", "keyring")) as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def drops(nodes):
    """Datagrams and streams that no key opened, or that broke a rule.  A stream whose other end gave up first, as where a
    datagram's answer came after all, did neither."""
    streams = [line for n in nodes for line in n.log("gossipd").splitlines()
               if " dropped: " in line and "stream from " in line and not line.endswith("unexpected end of input")]
    return len(streams) + sum(int(n.stats("gossipd")[k]) for n in nodes
                              for k in ("packets_dropped_key", "packets_dropped_format", "streams_dropped_key"))


def pool(net_, clients=1, **kw):
    """A cluster of three servers and some clients, everybody knowing everybody."""
    c = Cluster(net_, gossipd={"profile": "lan", "profile_wan": "lan", "reconnect_interval": "1s"}, **kw)
    nodes = c.servers(3, raftd=CALM)
    nodes += [c.client("c%d" % i, 10 + i, nodes[0]) for i in range(1, clients + 1)]
    return c, nodes


def settle(c, nodes):
    c.formed(nodes)
    wait_for("all know all", lambda: all_alive(nodes))
    servers = [n for n in nodes if n.server]
    wait_for("servers know servers", lambda: all(len(n.members(wan=True)) == len(servers) for n in servers))
    wait_for("keys are stored", lambda: all(n.stats("keyring")["stored"] == "yes" for n in nodes))


def plaintext_to_encrypted():
    """Three servers and a client move through the stages, node by node, under writes; nobody fails, nothing is lost."""
    with Cluster(net(1), keys=False, gossipd={"profile": "lan"}) as c:
        nodes = c.servers(3, raftd=CALM) + [c.client("c1", 4, c.nodes["n1"])]
        c.formed(nodes)
        wait_for("four members", lambda: all_alive(nodes))
        off = nodes[0].get("/v1/operator/keyring")
        assert off.status == 500 and off.text.count("Keyring is empty (encryption not enabled)") == 2, off
        keys = os.path.join(c.dir, "keys")
        os.mkdir(keys, 0o700)
        guide = nodes[0].ctl("keyring", "encrypt", "--dir", keys).stdout
        assert "Step 1 of 3" in guide and "Made %s/cluster.key" % keys in guide, guide
        writer = Writer(nodes, pause=0.005)
        writer.start()
        now = stages(nodes[0])
        for stage in ("accept", "send", "required"):
            for n in nodes:
                n.set_common(cluster_key=keys + "/cluster.key", server_pub=keys + "/server.pub", encryption=stage,
                             **({"server_key": keys + "/server.key"} if n.server else {}))
                n.stop("rpcd", *(["raftd"] if n.server else []))
                n.stop("gossipd")               # the last to end, and the first to start: it shall not be missed
                n.start().up()
                assert "encryption %s" % stage in n.log("gossipd"), n.log("gossipd")
                now[n.name] = stage
                wait_for("all know who is how far", lambda: all(stages(m) == now for m in nodes))
                guide = n.ctl("keyring", "encrypt", "--dir", keys).stdout
                assert ('"%s"' % stage in guide) == (n is not nodes[-1]), (stage, n.name, guide)
                c.formed(nodes)
                count = len(writer.acked)
                wait_for("writes go on", lambda: len(writer.acked) > count + 20)
                wait_for("all alive", lambda: all_alive(nodes))
            p = nodes[0].http("POST", "/v1/operator/keyring", {"Key": random_key()})
            assert (p.status == 200) == (stage == "required"), (stage, p)
        writer.stop()
        for n in nodes:
            writer.check(n)
            assert "EventMemberFailed" not in n.log("gossipd"), n.log("gossipd")
            assert n.stats("serf_lan")["encrypted"] == "true"
            assert n.stats("keyring")["encryption"] == "required"
            wait_for("the key is kept", lambda n=n: n.stats("keyring")["stored"] == "yes")
            tags = n.get("/v1/agent/members").json()[0]["Tags"]
            assert tags["enc"] == "required", tags
        assert "Done: all members require encryption" in nodes[0].ctl("keyring", "encrypt").stdout
        nodes[-1].ctl("keyring", "rotate")
        assert says_in_clear(nodes[0], 8400) and says_in_clear(nodes[0], 8300)
        assert len(writer.acked) > 100


def rotation_under_load():
    """Twice round under writes from every node: no packet is dropped, no request fails, links live on new keys."""
    c, nodes = pool(net(2))
    with c:
        settle(c, nodes)
        client = nodes[-1]
        before = drops(nodes)
        writer = Writer(nodes, pause=0.002)
        writer.start()
        first = ids(client)
        for _ in range(2):
            old = ids(client)
            out = client.ctl("keyring", "rotate").stdout
            assert "3. All use it" in out and "Done." in out, out
            new = ids(client)
            assert len(new) == 1 and new != old, (old, new)
            assert all(ids(n) == new for n in nodes)
            count = len(writer.acked)
            wait_for("writes go on", lambda: len(writer.acked) > count + 50)
        writer.stop()
        assert not writer.errors and not writer.unknown, (writer.errors[:3], writer.unknown[:3])
        assert drops(nodes) == before, [n.stats("gossipd") for n in nodes]
        # New links, with a cluster.key that nobody accepts any more: the ring comes from gossipd.
        client.stop()
        client.start().up()
        assert ids(client) == new and ring_file(client) and first[0] in client.log("gossipd")
        assert "was rotated out" in client.log("gossipd"), client.log("gossipd")
        wait_for("back", lambda: all_alive(nodes))
        client.kv_put("after", b"1")
        for n in nodes[:3]:
            n.stop()
            n.start().up()
            assert ids(n) == new, n.stats("keyring")
            c.formed(nodes)
            wait_for("back", lambda: all_alive(nodes))
            client.kv_put("after", n.name.encode())
        for n in nodes:
            writer.check(n)


def rpc_links(servers):
    """Both ends of the connections with the servers' port 8400."""
    here = {"%08X:%04X" % (struct.unpack("=I", socket.inet_aton(n.addr))[0], 8400) for n in servers}
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table]
    return {(row[1], row[2]) for row in rows if row[3] == "01" and here & {row[1], row[2]}}


def links_end_with_their_key():
    """A key leaves the ring under writes: no link lives on with it, and nothing that was under way is lost with one."""
    c, nodes = pool(net(11), clients=0)
    with c:
        for n in nodes:
            n.stop("rpcd")
            n.write("rpcd.conf", rpcd_conf(n.addr, answer_timeout="10s"))
            n.start("rpcd").up()
        servers = nodes[:]
        c1, idle, asker = clients = [c.client("c%d" % i, 10 + i, servers[0], rpcd={"answer_timeout": "10s"})
                                     for i in (1, 2, 3)]
        nodes += clients
        settle(c, nodes)
        c1.kv_put("slow", b"1")
        index = {n: n.get("/v1/kv/slow").index for n in clients}

        def number(n, key):
            return int(n.stats("rpcd")[key])

        with ThreadPoolExecutor() as pool_:
            waiting = [pool_.submit(n.get, "/v1/kv/slow?wait=5m&index=%d" % index[n], timeout=120) for n in (c1, asker)]
            writer = Writer([c1], pause=0.002)
            writer.start()
            wait_for("they write and wait", lambda: len(writer.acked) > 50 and all(
                number(n, "http_conns_waiting") == 1 for n in (c1, asker)))
            first, new = ids(servers[0])[0], random_key()
            servers[0].ctl("keyring", "install", "-", input=new + "\n")
            servers[0].ctl("keyring", "use", "-", input=new + "\n")
            # These keep their end of the link whatever they are told: the servers close theirs.
            for n in (idle, asker):
                n.signal(signal.SIGSTOP, "rpcd")
            c1.signal(signal.SIGSTOP, "gossipd")            # its rpcd learns from the servers alone
            old = rpc_links(servers)
            assert len(old) >= 2 * len(clients), old
            servers[0].ctl("keyring", "remove", "--force", first)
            wait_for("no link with the old key", lambda: not old & rpc_links(servers))
            c1.signal(signal.SIGCONT, "gossipd")
            awake = servers + [c1]
            wait_for("none is about to end", lambda: all(number(n, k) == 0 for n in awake
                                                         for k in ("links_retiring", "peers_retiring")))
            assert number(c1, "links_retired") > 0
            assert sum(number(n, "peers_retired") for n in servers) >= len(clients)
            count = len(writer.acked)
            wait_for("writes go on", lambda: len(writer.acked) > count + 50)
            writer.stop()
            assert not writer.errors and not writer.unknown, (writer.errors[:3], writer.unknown[:3])
            for n in clients:
                n.signal(signal.SIGCONT)
            for n in clients:
                wait_for(n.name + " reads", lambda n=n: n.kv_get("slow") == b"1")
            assert not any(w.done() for w in waiting)       # the question outlived its link
            c1.kv_put("slow", b"2")
            assert [base64.b64decode(w.result().json()[0]["Value"]) for w in waiting] == [b"2", b"2"]
        for n in nodes:
            writer.check(n)


def missed_rotation():
    """A node that was off during a rotation is told what to do, never read, and comes back when it does that (S136, S137)."""
    c, nodes = pool(net(3))
    with c:
        settle(c, nodes)
        n1, client = nodes[0], nodes[-1]
        old = ids(client)
        client.stop()
        seen_dead(n1, "c1")
        p = n1.ctl("keyring", "rotate", check=False)
        assert p.returncode == 1 and "c1 is down" in p.stderr and "--force" in p.stderr, p
        assert ids(n1) == old
        n1.ctl("keyring", "rotate", "--force")
        assert len(ids(n1)) == 1 and ids(n1) != old
        refused = int(n1.stats("gossipd")["streams_dropped"])
        client.start().up()
        state = wait_for("it says what to do", lambda: (lambda s: s if "clusterctl keyring export" in s else None)(
            client.stats("keyring")["state"]))
        assert old[0] in state and "first line of" in state, state
        wait_for("its log says so too", lambda: "clusterctl keyring export" in client.log("gossipd"))
        # What it sends is sealed with a key that was removed.
        wait_for("its dialling is refused", lambda: int(n1.stats("gossipd")["streams_dropped"]) > refused)
        assert n1.members()["c1"] == FAILED and ids(client) == old
        exported = n1.ctl("keyring", "export").stdout
        path = key_file(c, "new.key", *[x for x in exported.splitlines() if not x.startswith("#")])
        client.stop()
        client.set_common(cluster_key=path)
        client.start().up()
        wait_for("it is back", lambda: all_alive(nodes))
        wait_for("the key is kept", lambda: client.stats("keyring")["stored"] == "yes" and
                 client.stats("keyring")["state"] == "ok")
        assert ids(client)[0] == ids(n1)[0]
        client.kv_put("back", b"1")


def wrong_key_at_first():
    """A key that never opened anything is forgotten with the process; so is one that was put into cluster.key by mistake."""
    c, nodes = pool(net(4), clients=0)
    with c:
        settle(c, nodes)
        n1 = nodes[0]
        good = [x for x in n1.ctl("keyring", "export").stdout.splitlines() if not x.startswith("#")][0]
        wrong = key_file(c, "wrong.key", random_key())
        stranger = c.client("c1", 11, n1, cluster_key=wrong)
        wait_for("it is refused", lambda: "clusterctl keyring export" in stranger.log("gossipd"))
        stranger.up()
        assert "c1" not in n1.members() and stranger.stats("keyring")["stored"].startswith("no")
        stranger.stop()
        assert ring_file(stranger) is None
        # Dialling itself proves nothing either.
        stranger.set_common(retry_join=[stranger.addr])
        stranger.start().up()
        stranger.http("PUT", "/v1/agent/join/" + stranger.addr)
        assert ring_file(stranger) is None
        stranger.stop()
        stranger.set_common(cluster_key=key_file(c, "good.key", good), retry_join=[n1.addr])
        stranger.start().up()
        nodes.append(stranger)
        wait_for("it is in", lambda: all_alive(nodes))
        wait_for("the key is kept", lambda: ring_file(stranger) == [good])
        # A later mistake is not kept, and undone by undoing it.
        stranger.stop()
        stranger.set_common(cluster_key=wrong)
        stranger.start().up()
        assert "is new to this node" in stranger.log("gossipd")
        stranger.stop()
        assert ring_file(stranger) == [good]
        stranger.set_common(cluster_key=os.path.join(c.dir, "good.key"))
        stranger.start().up()
        wait_for("it is in again", lambda: all_alive(nodes))


def mixed_primaries():
    """Everybody may seal with another key of the ring, of any length; who is cut off by a change is protected (S137)."""
    c, nodes = pool(net(5))
    with c:
        settle(c, nodes)
        n1, client = nodes[0], nodes[-1]
        base, short = secrets(n1), random_key(16)
        first, = base
        p = client.ctl("keyring", "use", "-", input=short + "\n", check=False)
        assert p.returncode == 1 and "install it first" in p.stderr, p
        for args, status in ((("keyring",), 2), (("keyring", "use"), 2), (("keyring", "list", "x"), 2),
                             (("keyring", "use", "0123456789abcdef"), 1), (("keyring", "remove", "rubbish"), 1)):
            p = n1.ctl(*args, check=False)
            assert p.returncode == status and p.stderr, (args, p)
        client.ctl("keyring", "install", "-", input=short + "\n")
        second, = set(secrets(n1)) - {first}
        assert all(ids(n) == [first, second] for n in nodes)
        # One node starts with the other key in front.
        client.stop()
        with open(os.path.join(client.data, "gossipd", "keyring"), "w") as f:
            json.dump([short, base[first]], f)
        client.start().up()
        assert ids(client) == [second, first]
        wait_for("all alive", lambda: all_alive(nodes))
        before = drops(nodes)
        wait_for("all answer", lambda: (lambda t: "4 of 4" in t and "3 of 3" in t)(n1.ctl("keyring", "list").stdout))
        for key in (first, second):
            p = n1.ctl("keyring", "remove", key, check=False)
            assert p.returncode == 1 and "Removing the primary key is not allowed" in p.stderr, p
        p = n1.ctl("keyring", "rotate", check=False)
        assert p.returncode == 1 and "different primary keys" in p.stderr, p
        client.kv_put("mixed", b"1")
        n1.ctl("keyring", "use", second)
        n1.ctl("keyring", "remove", first)
        assert all(ids(n) == [second] for n in nodes) and drops(nodes) == before
        # A key that some member lacks is neither used nor is another one removed for it.
        third = random_key(24)
        client.stop()
        seen_dead(n1, "c1")
        n1.ctl("keyring", "install", "-", input=third + "\n")
        wait_for("nobody speaks of it any more", lambda: all(n.stats("serf_lan")["query_queue"] == "0" for n in nodes[:3]))
        client.start().up()
        wait_for("all alive", lambda: all_alive(nodes))
        p = n1.ctl("keyring", "use", "-", input=third + "\n", check=False)
        assert p.returncode == 1 and "1 of 4 nodes: install it first" in p.stderr, p
        r = n1.http("PUT", "/v1/operator/keyring", {"Key": third})
        assert r.status == 500 and "requested key is not in the keyring" in r.text, r
        n1.ctl("keyring", "rotate", "--key", "-", input=third + "\n")
        assert all(len(ids(n)) == 1 and ids(n) != [second] for n in nodes) and all_alive(nodes)


def broken_files():
    """A ring that cannot be read, or a cluster.key that is gone, is an error with a remedy: never plaintext."""
    with Cluster(net(6)) as c:
        nodes = c.servers(1) + [c.client("c1", 2, c.nodes["n1"])]
        n1, client = nodes
        c.formed(nodes)
        wait_for("stored", lambda: client.stats("keyring")["stored"] == "yes")
        path = os.path.join(client.data, "gossipd", "keyring")
        with open(path) as f:
            good = f.read()
        assert os.stat(path).st_mode & 0o777 == 0o600 and json.loads(good)
        client.stop("gossipd")
        for bad in ("", "[", '["x"]', good[:-3], good + "x", good.replace("[", '["AAAA",'), "{}"):
            with open(path, "w") as f:
                f.write(bad)
            client.start("gossipd")
            client.expect_end("gossipd", 1)
            assert "Move it away and start again" in client.log("gossipd"), client.log("gossipd")
        os.unlink(path)
        client.start("gossipd")
        wait_for("again from cluster.key", lambda: all_alive(nodes))
        wait_for("stored", lambda: ring_file(client) == json.loads(good))
        # Without the key, and without a word of the operator's, there is no plaintext.
        client.stop()
        keyless = {k: None for k in ("cluster_key", "server_pub")}
        client.set_common(**keyless)
        client.start("gossipd")
        client.expect_end("gossipd", 1)
        assert 'set encryption = "off"' in client.log("gossipd")
        client.set_common(encryption="off")
        client.start()
        wait_for("alone, in clear", lambda: client.stats("keyring")["encryption"] == "off")
        assert client.stats("serf_lan")["encrypted"] == "false"
        wait_for("it is out", lambda: n1.members()["c1"] != ALIVE)
        assert n1.http("GET", "/v1/operator/keyring").status == 200


def two_datacenters():
    """One command rotates the keys of both datacenters, and what crosses between them goes on."""
    with Cluster(net(7), gossipd={"profile": "lan", "profile_wan": "lan"}) as c:
        a = c.servers(1) + [c.client("c1", 2, c.nodes["n1"])]
        b = c.servers(1, dc="dc2", first=11, prefix="m", retry_join_wan=[c.nodes["n1"].addr])
        b.append(c.client("d1", 12, c.nodes["m1"], dc="dc2"))
        nodes = a + b
        c.formed(a)
        c.formed(b)
        wait_for("two datacenters", lambda: all(set(n.get("/v1/catalog/datacenters").json()) == {"dc1", "dc2"}
                                                for n in nodes))
        wait_for("all know all", lambda: all_alive(a) and all_alive(b))
        a[1].kv_put("x", b"1", query="?dc=dc2")
        before = drops(nodes)
        listed = wait_for("all answer", lambda: (lambda ps: None if "Messages" in json.dumps(ps) else ps)(
            a[1].get("/v1/operator/keyring").json()))
        assert [(p["WAN"], p["Datacenter"]) for p in listed] == [(True, "dc1"), (False, "dc1"), (False, "dc2")], listed
        assert [p["NumNodes"] for p in listed] == [2, 2, 2], listed
        local = a[1].get("/v1/operator/keyring?local-only=true").json()
        assert [(p["WAN"], p["Datacenter"]) for p in local] == [(False, "dc1")], local
        old = ids(a[0])
        b[1].ctl("keyring", "rotate")
        assert all(ids(n) == ids(a[0]) and len(ids(n)) == 1 and ids(n) != old for n in nodes)
        for n in nodes:
            n.stop("rpcd")
            n.start("rpcd").up()
        wait_for("between datacenters", lambda: a[1].kv_get("x", query="?dc=dc2") == b"1")
        wait_for("and back", lambda: b[1].put("/v1/kv/y?dc=dc1", "2").text == "true")
        assert drops(nodes) == before, [n.stats("gossipd") for n in nodes]


def recorded_cases():
    """What was recorded of the API, with encryption at a server and at a client, and without."""
    with Cluster(net(8)) as c, Cluster(net(9), keys=False) as plain:
        clear, = plain.servers(1)
        nodes = c.servers(3)
        nodes.append(c.client("c1", 4, nodes[0]))
        settle(c, nodes)
        plain.formed([clear])
        for n in (nodes[0], nodes[-1]):
            p = subprocess.run([sys.executable, os.path.join(TOP, "tests", "conformance", "run"), "--url", clear.url,
                                "--encrypt-url", n.url, "--only", "^operator/keyring-"], capture_output=True, text=True,
                               timeout=120)
            assert p.returncode == 0 and "7 passed" in p.stdout, p.stdout + p.stderr


def key_line(path):
    with open(path) as f:
        return [line for line in f if not line.startswith("#")][0]


def server_key_rotated():
    """server.key is replaced on one server after the other, by the steps of operations.md, while clients write."""
    with Cluster(net(10)) as c:
        servers = c.servers(3, raftd=CALM)
        client = c.client("c1", 9, servers[0])
        nodes = servers + [client]
        c.formed(servers)
        new = os.path.join(c.dir, "new")
        os.mkdir(new, 0o700)
        servers[0].ctl("keygen", new)
        old_key, old_pub = key_line(c.keys + "/server.key"), key_line(c.keys + "/server.pub")
        new_key, new_pub = key_line(new + "/server.key"), key_line(new + "/server.pub")

        def give(node, pub, *lines):
            """Files of this node's own; restarts what reads them, and waits until all work together again."""
            folder = os.path.join(node.dir, "keys")
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for name, mode, text in (("server.key", 0o600, lines), ("server.pub", 0o644, [pub])):
                with open(os.path.join(folder, name), "w") as f:
                    f.writelines(text)
                os.chmod(os.path.join(folder, name), mode)
            node.set_common(server_pub=folder + "/server.pub", **({"server_key": folder + "/server.key"} if lines else {}))
            which = ("raftd", "rpcd") if lines else ("rpcd",)
            node.stop(*which)
            node.start(*which)
            node.up()
            for n in nodes:
                key = "%s/%s/%d" % (node.name, n.name, len(lines))
                wait_for(n.name + " writes", lambda: n.kv_put(key, pub) is None)
                for other in servers:
                    wait_for(other.name + " has it", lambda: other.kv_get(key, "?stale") == pub.encode())

        writer = Writer(nodes, pause=0.01)
        writer.start()
        for n in servers:                       # 1. all accept both
            give(n, old_pub, old_key, new_key)
        for n in servers:                       # 2. the new one is used
            give(n, new_pub, new_key, old_key)
        give(client, new_pub)
        for n in servers:                       # 3. the old one goes
            give(n, new_pub, new_key)
        writer.stop()
        assert len(writer.acked) > 100, len(writer.acked)
        for n in nodes:
            writer.check(n)
        refused = "uses a key that is not in our ring"
        assert not any(refused in n.log(d) for n in servers for d in ("raftd", "rpcd"))      # at no step
        # Who has only the old half: a client trusts nobody here, a server is let in by nobody.
        late = c.add("late", 10, server=False, retry_join=[servers[0].addr]).start()
        wait_for("the late client has joined", lambda: late.members().get("n1") == ALIVE)
        r = late.get("/v1/kv/c1/c1/0?stale", timeout=60)
        assert r.status == 500, r
        late.stop()                             # it would trust the next one, which holds the old half
        thief = c.add("thief", 11, retry_join=[servers[0].addr]).start()
        wait_for("the thief is refused", lambda: all(refused in n.log("raftd") for n in servers))
        assert thief.running("raftd")
        names = {s["Node"] for s in servers[0].get("/v1/operator/raft/configuration").json()["Servers"]}
        assert names == {"n1", "n2", "n3"}, names


if __name__ == "__main__":
    main(plaintext_to_encrypted, rotation_under_load, links_end_with_their_key, missed_rotation, wrong_key_at_first,
         mixed_primaries, broken_files, two_datacenters, recorded_cases, server_key_rotated)
