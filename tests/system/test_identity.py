#!/usr/bin/env python3
"""Identities that collide: what joins takes nothing from a node that lives, both learn of it, and who comes back alone is let in."""
import json
import os
import shutil
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import Acl, auth, writes  # noqa: E402
from cluster import CALM, Cluster, main  # noqa: E402
from waiting import AGAIN, Told, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.71.0").rsplit(".", 1)[0]
ALIVE, FAILED = 1, 4
# The leader compares all of the catalog each second: what a pass would take is taken soon.
SOON = dict(CALM, reconcile_interval="1s")
AGENT = {"check_sync_wait": "0s"}


def node_id(node):
    return os.path.join(node.data, "node-id")


def clone(of, to):
    """The node id of another one, as in a copied image."""
    shutil.copyfile(node_id(of), node_id(to))


def id_of(node):
    with open(node_id(node)) as f:
        return f.read().strip()


def catalog(at, name):
    """(id, address, services) of a node in the catalog; None: there is none."""
    told = at.get("/v1/catalog/node/%s" % name).json()
    if told is None:
        return None
    return (told["Node"]["ID"], told["Node"]["Address"], sorted(told["Services"]))


def names(at):
    return sorted(n["Node"] for n in at.get("/v1/catalog/nodes").json())


def lines(node):
    """Texts and remedies of the check `identity` of clusterctl status, which says that all is not well then."""
    p = node.ctl("--json", "status", check=False)
    checks = [c for c in json.loads(p.stdout)["Checks"] if c["Check"] == "identity"]
    assert checks and (p.returncode == 1 or all(c["Status"] == "well" for c in checks)), p
    return [(c["Text"], c["Remedy"]) for c in checks if c["Status"] != "well"]


def status_names(node, *texts):
    """One line of its status has all of these, with the remedy."""
    return wait_for("status of %s names %s" % (node.name, texts), lambda: any(
        all(t in text for t in texts) and "data_dir" in remedy for text, remedy in lines(node)))


def logs(node, daemon, *texts):
    wait_for("%s of %s logs %s" % (daemon, node.name, texts), lambda: any(
        all(t in line for t in texts) for line in node.log(daemon).splitlines()), 90)


class Holder:
    """A service and a lock of this node, which are to stay."""

    def __init__(self, node, at, headers=None):
        self.node, self.at, self.headers = node, at, headers or {}
        node.put("/v1/agent/service/register", {"Name": "web", "Port": 80}, headers=self.headers).ok()
        wait_for("the catalog has it", lambda: "web" in (self.entry() or (0, 0, []))[2])
        self.session = node.put("/v1/session/create", {"Node": node.name, "TTL": "600s"}, headers=self.headers).json()["ID"]
        assert node.put("/v1/kv/lock/%s?acquire=%s" % (node.name, self.session), b"x", headers=self.headers).text.strip() == "true"
        self.was = self.entry()
        self.index = self.modified()

    def entry(self):
        told = self.at.get("/v1/catalog/node/%s" % self.node.name, headers=self.headers).json()
        return None if told is None else (told["Node"]["Node"], told["Node"]["ID"], sorted(told["Services"]), told["Node"]["Address"])

    def modified(self):
        """When the node and its service came into being: what goes and comes back has another index."""
        told = self.at.get("/v1/catalog/node/%s" % self.node.name, headers=self.headers).json()
        return told["Node"]["CreateIndex"], told["Services"]["web"]["CreateIndex"]

    def unharmed(self):
        assert self.entry() == self.was and self.modified() == self.index, (self.was, self.entry())
        assert self.at.get("/v1/kv/lock/" + self.node.name, headers=self.headers).json()[0].get("Session") == self.session, "the lock is lost"


def let_passes_go_by(leader, count=3, since=0):
    """Whole comparisons with gossip, in which nothing may be deregistered."""
    def comparisons():
        return int(leader.stats("raftd")["catalog_passes"])
    begin = comparisons()
    wait_for("%d passes" % count, lambda: comparisons() >= begin + count)
    assert "deregistering" not in leader.log("raftd")[since:], leader.log("raftd")


def cloned_id():
    """A client's id is copied to another machine; the copy is kept out until the first one is gone."""
    with Cluster(NET + ".1") as c:
        servers = c.servers(3, raftd=SOON)
        leader = c.formed(servers)
        cla = c.client("cla", 11, leader)
        held = Holder(cla.up(), leader)
        clb = c.add("clb", 12, server=False, retry_join=[leader.addr])
        clone(cla, clb)
        clb.start()
        clb.up()
        clb.put("/v1/agent/service/register", {"Name": "late", "Port": 81}).ok()
        logs(leader, "raftd", "clb (%s) is kept out" % clb.addr, "cla (%s)" % cla.addr, id_of(cla), "data_dir")
        for n in (cla, clb):
            logs(n, "rpcd", "cla", cla.addr, "clb", clb.addr, "the same node id", "data_dir")
            status_names(n, "cla (%s)" % cla.addr, "clb (%s)" % clb.addr, "clb is kept out of the catalog")
        for s in servers:
            status_names(s, "cla (%s)" % cla.addr, "clb (%s)" % clb.addr)
        let_passes_go_by(leader)
        held.unharmed()
        assert catalog(leader, "clb") is None and "clb" not in names(leader)
        # Over the API the same: neither the id nor the name of a node that lives.
        for body in ({"Node": "other", "ID": id_of(cla), "Address": "10.1.1.1"},
                     {"Node": "CLA", "ID": "11111111-2222-4333-8444-555555555555", "Address": "10.1.1.1"},
                     {"Node": "Cla", "Address": "10.1.1.1"},
                     {"Node": "cla", "ID": "11111111-2222-4333-8444-555555555555", "Address": "10.1.1.1", "SkipNodeUpdate": True,
                      "Service": {"Service": "web", "Port": 99}}):
            r = leader.put("/v1/catalog/register", body)
            assert r.status == 500 and cla.addr in r.text and ("is alive" in r.text or "is reserved by" in r.text), (body, r)
        r = leader.put("/v1/txn", [{"Node": {"Verb": "set", "Node": {"Node": "other", "ID": id_of(cla), "Address": "10.1.1.1"}}}])
        assert r.status == 409 and cla.addr in r.text, r
        held.unharmed()
        # A service of a client that knows no ids still comes to the node.
        leader.put("/v1/catalog/register", {"Node": "cla", "Address": cla.addr, "Service": {"Service": "by-hand"}}).ok()
        assert catalog(leader, "cla")[0] == id_of(cla)
        cla.kill()
        wait_for("clb is in the catalog, and cla is not", lambda: catalog(leader, "cla") is None and
                 catalog(leader, "clb") == (id_of(clb), clb.addr, ["late"]), 90)
        for n in [leader, clb]:
            wait_for("%s: nothing collides any more" % n.name, lambda n=n: lines(n) == [])
        assert leader.get("/v1/kv/lock/cla").json()[0].get("Session") is None, "the old life's lock goes"


def name_by_case():
    """A name that differs by case from that of a living node: a server's, and the leader's own."""
    with Cluster(NET + ".2") as c:
        servers = c.servers(3, raftd=SOON)
        leader = c.formed(servers)
        follower = next(s for s in servers if s is not leader)
        for i, owner in enumerate((follower, leader)):
            held = Holder(owner, leader)
            late = c.add(owner.name.upper(), 21 + i, server=False, retry_join=[leader.addr]).start()
            late.may_end("gossipd", 0, 1)           # gossip may settle it before the leader has to
            wait_for("both sides are told", lambda: "kept out of the catalog" in leader.log("raftd") or
                     "Name conflict" in late.log("gossipd"))
            let_passes_go_by(leader)
            held.unharmed()
            assert catalog(leader, owner.name)[1] == owner.addr
            late.stop()
            assert leader.put("/v1/kv/lock/%s?release=%s" % (owner.name, held.session), b"").text.strip() == "true"


def no_token_no_place():
    """With access control: to be let into gossip is not enough."""
    with Cluster(NET + ".3") as c:
        on = {"acl.enabled": True, "acl.default_policy": "deny"}
        one = c.servers(1, raftd=SOON, prefix="one", **on)[0]
        acl = Acl(c.leader([one]))
        token = acl.token(writes("one1") + 'key_prefix "" { policy = "write" }')
        held = Holder(one, one, auth(acl.secret))
        assert token
        late = c.add("ONE1", 9, server=False, retry_join=[one.addr], **on)
        clone(one, late)                                # its name, and its id too
        late.start()
        late.may_end("gossipd", 0, 1)
        other = c.add("two", 10, server=False, retry_join=[one.addr], **on)
        clone(one, other)
        other.start()
        logs(one, "raftd", "two (%s) is kept out" % other.addr, one.addr)
        let_passes_go_by(one)
        held.unharmed()


def one_image():
    """Three machines from one image, at the first start of a cluster: no leader, and each status names them."""
    with Cluster(NET + ".4") as c:
        first = c.add("n1", 1, raftd=dict(SOON, bootstrap_expect=3)).start()
        wait_for("it has an id", lambda: os.path.exists(node_id(first)))
        others = [c.add("n%d" % i, i, raftd=dict(SOON, bootstrap_expect=3), retry_join=[first.addr]) for i in (2, 3)]
        for n in others:
            clone(first, n)
            n.start()
        for n in [first] + others:
            status_names(n, "n1 (%s)" % first.addr, "n2 (%s)" % others[0].addr, id_of(first))
            logs(n, "rpcd", "the same node id", id_of(first), "data_dir")
        # The remedy, to the letter.
        for n in others:
            n.stop()
            shutil.rmtree(n.data)
            os.mkdir(n.data)
            n.start()
        c.formed([first] + others)
        wait_for("all is well", lambda: lines(first) == [])


def client_and_server():
    """A client with a server's id is kept out, and so is a server with a client's."""
    with Cluster(NET + ".5") as c:
        servers = c.servers(3, raftd=SOON)
        leader = c.formed(servers)
        server = next(s for s in servers if s is not leader)
        held = Holder(server, leader)
        thief = c.add("thief", 11, server=False, retry_join=[leader.addr])
        clone(server, thief)
        thief.start()
        logs(leader, "raftd", "thief (%s) is kept out" % thief.addr, server.name, server.addr)
        status_names(thief, "thief", thief.addr, server.name, server.addr)
        cla = c.client("cla", 12, leader)
        kept = Holder(cla.up(), leader)
        n4 = c.add("n4", 4, raftd=dict(SOON, bootstrap_expect=3), retry_join=[leader.addr])
        clone(cla, n4)
        n4.start()
        logs(leader, "raftd", "n4 (%s) is kept out" % n4.addr, "cla (%s)" % cla.addr)
        let_passes_go_by(leader)
        held.unharmed()
        kept.unharmed()
        assert {"thief", "n4"}.isdisjoint(names(leader))
        assert set(peers(leader)) == {id_of(s) for s in servers}, "a copy of a client has a seat"
        # It gets one when the client is gone.
        cla.kill()
        wait_for("n4 is in the catalog", lambda: catalog(leader, "n4") == (id_of(n4), n4.addr, ["consul"]), 90)
        wait_for("and has a seat", lambda: peers(leader).get(id_of(n4)) == "n4")
        liar(c, leader, server, held)
        swapped_ids(c, leader, server)


def swapped_ids(c, leader, server):
    """An archive in which two servers have each other's id: both are themselves again, and nobody's seat is touched."""
    was, ids = peers(leader), {n.name: id_of(n) for n in (leader, server)}
    archive = os.path.join(c.dir, "swapped")
    with Cluster(NET + ".8") as other:
        one = other.servers(1, prefix="other")[0]
        other.formed([one])
        for n, of in ((leader, server), (server, leader)):
            one.put("/v1/catalog/register", {"Node": n.name, "ID": id_of(of), "Address": n.addr, "Check": {
                "CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "passing"}}).ok()
        one.ctl("snapshot", "save", archive)
    leader.ctl("snapshot", "restore", "--yes", archive)
    for n in (leader, server):
        wait_for("%s is itself" % n.name, lambda n=n: (catalog(leader, n.name) or ("",))[:2] == (ids[n.name], n.addr), 90)
    wait_for("the other cluster's node is gone", lambda: "other1" not in names(leader))
    assert peers(leader) == was and {n.name: id_of(n) for n in (leader, server)} == ids


def taken_at_restore():
    """An archive says that nodes which live are dead: what registers their ids and names meanwhile takes nothing from them."""
    with Cluster(NET + ".9") as c:
        servers = c.servers(3, raftd=SOON)
        leader = c.formed(servers)
        server = next(s for s in servers if s is not leader)
        archive = os.path.join(c.dir, "dead")
        with Cluster(NET + ".10") as other:
            one = other.servers(1, prefix="other")[0]
            other.formed([one])
            for n in servers:
                one.put("/v1/catalog/register", {
                    "Node": n.name, "ID": id_of(n), "Address": n.addr,
                    "Check": {"CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "critical"}}).ok()
            one.ctl("snapshot", "save", archive)
        thefts = [("/v1/catalog/register", {"Node": "thief", "ID": id_of(server), "Address": "10.0.0.66"}),
                  ("/v1/catalog/register", {"Node": server.name.upper(), "ID": str(uuid.uuid4()), "Address": "10.0.0.66"}),
                  ("/v1/catalog/register", {"Node": server.name, "Address": "10.0.0.66"}),
                  ("/v1/txn", [{"Node": {"Verb": "set", "Node": {"Node": "thief", "ID": id_of(leader), "Address": "10.0.0.66"}}}])]
        ended, taken = threading.Event(), []

        def steal(path, body):
            while not ended.is_set():
                try:
                    if leader.put(path, body).status == 200:
                        taken.append(body)
                except AGAIN:
                    continue
        thieves = [threading.Thread(target=steal, args=t, daemon=True) for t in thefts]
        for t in thieves:
            t.start()
        for _ in range(3):
            leader.ctl("snapshot", "restore", "--yes", archive)
            for n in servers:
                wait_for("%s passes" % n.name, lambda n=n: (catalog(leader, n.name) or ("",))[:2] == (id_of(n), n.addr) and
                         all(h["Status"] == "passing" for h in leader.get("/v1/health/node/" + n.name).json()))
        ended.set()
        for t in thieves:
            t.join(60)
        assert not taken and "thief" not in names(leader), taken[0]


def liar(c, leader, server, held):
    """Who has gossip's key alone says to be this server: no link proves that, so nothing changes for it."""
    was, told = peers(leader), len(leader.log("raftd"))
    late = c.add("liar", 13, raftd=dict(SOON, bootstrap_expect=3), retry_join=[leader.addr])
    own = os.path.join(c.dir, "own-keys")
    os.mkdir(own, 0o700)
    late.ctl("keygen", own)
    late.set_common(server_key=own + "/server.key", server_pub=own + "/server.pub")
    clone(server, late)
    late.start()
    wait_for("it is a member", lambda: leader.members().get("liar") == ALIVE)
    logs(leader, "raftd", "liar (%s) is kept out" % late.addr)
    let_passes_go_by(leader, since=told)
    held.unharmed()
    assert peers(leader) == was and "liar" not in names(leader)
    leader.kv_put("after", b"x")



def peers(at):
    return Told((s["ID"], s["Node"]) for s in at.get("/v1/operator/raft/configuration").json()["Servers"])


def in_peace():
    """Re-imaged, renamed, in case only and otherwise, a client and a server: what is dead makes room, and keeps its seat."""
    with Cluster(NET + ".6") as c:
        servers = c.servers(3, raftd=SOON)
        leader = c.formed(servers)
        cla = c.client("cla", 11, leader)
        Holder(cla.up(), leader)
        was = id_of(cla)
        cla.stop()
        shutil.rmtree(cla.data)                         # re-imaged: the same name, another id
        os.mkdir(cla.data)
        cla.start()
        wait_for("the new life is there alone", lambda: (catalog(leader, "cla") or (was,))[0] == id_of(cla) != was and
                 catalog(leader, "cla")[2] == [], 60)
        for new in ("Cla", "web"):                      # renamed
            cla.stop()
            cla.name = new
            cla.set_common(node_name=new)
            cla.start()
            wait_for("the catalog has %s" % new, lambda new=new: [n for n in names(leader) if n not in ("n1", "n2", "n3")] == [new] and
                     catalog(leader, new)[0] == id_of(cla), 60)
            wait_for("the members too", lambda new=new: set(leader.members()) == {"n1", "n2", "n3", new}, 60)
        server = next(s for s in servers if s is not leader)
        seat, uuid = server.name, id_of(server)
        assert peers(leader)[uuid] == seat
        server.stop()
        server.name = "renamed"
        server.set_common(node_name="renamed")
        server.start()
        wait_for("raft list-peers has the new name", lambda: peers(leader)[uuid] == "renamed" and len(peers(leader)) == 3)
        assert "renamed" in leader.ctl("raft", "list-peers").stdout
        wait_for("the members have it alone", lambda: "renamed" in leader.members() and seat not in leader.members(), 60)
        wait_for("and the catalog", lambda: "renamed" in names(leader) and seat not in names(leader), 60)
        assert peers(leader)[uuid] == "renamed" and len(peers(leader)) == 3, "it has kept its seat"
        c.formed(servers)
        wait_for("all is well", lambda: lines(leader) == [])


def two_datacenters():
    """Servers of two datacenters with one id: nobody loses anything, and both are told."""
    with Cluster(NET + ".7") as c:
        one = c.servers(1, raftd=SOON)[0]
        c.formed([one])
        held = Holder(one, one)
        two = c.add("m1", 2, dc="dc2", raftd=dict(SOON, bootstrap_expect=1), retry_join_wan=[one.addr])
        clone(one, two)
        two.start()
        c.formed([two])
        for n in (one, two):
            status_names(n, "n1.dc1 (%s)" % one.addr, "m1.dc2 (%s)" % two.addr, id_of(one))
            logs(n, "rpcd", "the same node id", one.addr, two.addr)
        held.unharmed()
        assert names(two) == ["m1"] and catalog(two, "m1")[0] == id_of(two)
        # A name that differs by case is taken in this pool as well.
        three = c.add("N1", 3, dc="dc1", raftd=dict(SOON, bootstrap_expect=1), retry_join_wan=[one.addr]).start()
        three.may_end("gossipd", 0, 1)
        logs(one, "gossipd", "our own name n1.dc1 ", "as N1.dc1: names are compared without case")
        for n in (one, two):
            assert n.members(wan=True) == {"n1.dc1": ALIVE, "m1.dc2": ALIVE}
        assert one.running("gossipd")


main(cloned_id, name_by_case, no_token_no_place, one_image, client_and_server, taken_at_restore, in_peace, two_datacenters)
