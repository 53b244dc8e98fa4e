"""Access control in tests: a cluster that has it, its first token, and short ways to make tokens and policies.

    acl, leader = formed(c, servers)            # bootstraps
    secret = acl.token('key_prefix "a/" { policy = "read" }')
    node.get("/v1/kv/a", headers=auth(secret))

Standard library only.
"""
import itertools

from waiting import AGAIN, NotYet, need, wait_for

ON = {"acl.enabled": True}
READ_ALL = "".join('%s_prefix "" { policy = "read" }\n' % r for r in
                   ("agent", "event", "key", "node", "query", "service", "session")) + \
    'acl = "read"\nkeyring = "read"\noperator = "read"\n'
ANONYMOUS = "00000000-0000-0000-0000-000000000002"
MANAGEMENT = "00000000-0000-0000-0000-000000000001"
NOT_FOUND, DENIED = "ACL not found", "Permission denied"


def writes(name):
    """Rules: all may be done to what has this name, or one that begins with it, and nothing else."""
    return "".join('%s_prefix "%s" { policy = "write" }\n' % (r, name) for r in
                   ("agent", "event", "key", "node", "query", "service", "session"))


def auth(secret):
    return {"X-Consul-Token": secret} if secret else {}


def bootstrap(node):
    """The first token of the cluster, as soon as there is one to be had."""
    def asked():
        r = node.put("/v1/acl/bootstrap").ok(200, 401)
        need(r.status == 200, r)        # 401: access control has not begun yet
        return r.json()
    return wait_for("the first token", asked)


class Acl:
    """Asked with the first token, at one node."""

    numbers = itertools.count(1)

    def __init__(self, node, secret=None):
        self.node = node
        self.secret = secret or bootstrap(node)["SecretID"]

    def http(self, method, path, body=None, **kw):
        return self.node.http(method, path, body, headers=auth(self.secret), **kw)

    def ask(self, method, path, body=None, **kw):
        return self.http(method, path, body, **kw).ok(200).json()

    def policy(self, rules, name=None, **more):
        return self.ask("PUT", "/v1/acl/policy", dict({"Name": name or "policy-%d" % next(self.numbers), "Rules": rules}, **more))

    def change_policy(self, policy, rules):
        return self.ask("PUT", "/v1/acl/policy/" + policy["ID"], {"Name": policy["Name"], "Rules": rules})

    def make(self, *rules, **more):
        """A token with a policy of its own for each of these rules."""
        links = [{"ID": self.policy(r)["ID"]} for r in rules]
        return self.ask("PUT", "/v1/acl/token", dict({"Policies": links}, **more))

    def token(self, *rules, **more):
        """The same: its secret alone."""
        return self.make(*rules, **more)["SecretID"]

    def delete(self, token):
        assert self.ask("DELETE", "/v1/acl/token/" + token["AccessorID"]) is True

    def anonymous(self, *rules):
        links = [{"ID": self.policy(r)["ID"]} for r in rules]
        return self.ask("PUT", "/v1/acl/token/" + ANONYMOUS, {"AccessorID": ANONYMOUS, "SecretID": "anonymous", "Policies": links})


def servers_with_clock(c, clock, count, raftd=None, **kw):
    """Cluster.servers(), with raftds that see this clock (ClockFault)."""
    join = ["%s.1" % c.net]
    out = [c.add("n%d" % (i + 1), i + 1, raftd=dict({"bootstrap_expect": count}, **(raftd or {})), retry_join=join, **kw)
           for i in range(count)]
    for n in out:
        n.start("gossipd", "rpcd")
        n.env.update(clock.env)
        n.start("raftd")
    return out


def leads(servers):
    """The server that leads, as the first one says; nobody needs a right for that."""
    def find():
        told = servers[0].get("/v1/status/leader").ok().json()
        found = [s for s in servers if s.running("raftd") and told.startswith(s.addr + ":")]
        if not found:
            raise NotYet("the leader is %r" % told)
        return found[0]
    return wait_for("a leader", find)


def bootstrapped(node):
    """The secret of the first token."""
    found = []

    def made():
        try:
            a = node.put("/v1/acl/bootstrap")
        except AGAIN:
            return False
        if a.status == 200:
            found.append(a.json()["SecretID"])
        return a.status == 200
    wait_for("the first token", made)
    return found[0]


def formed(c, servers, **kw):
    """Waits for all voters, as Cluster.formed() does, with the first token, which is made: the Acl and who leads."""
    acl = Acl(servers[0])

    def whole():
        there = acl.ask("GET", "/v1/operator/raft/configuration")["Servers"]
        return len(there) == len(servers) and all(s["Voter"] for s in there) and any(s["Leader"] for s in there)
    wait_for("%d voters" % len(servers), whole, **kw)
    return acl, leads(servers)
