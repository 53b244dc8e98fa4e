#!/usr/bin/env python3
"""Services and checks of a node whose tokens end, lack rights, or come late: the catalog follows, and what is blocked is told."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, Acl, auth  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

SOON = {"sync_interval": "1s"}
OWN = 'node "n1" { policy = "write" }\nservice_prefix "" { policy = "read" }\n'         # as a node identity
SERVICES = 'service_prefix "" { policy = "write" }\n'


def started(c, rules=None, **rpcd):
    """One server, whose agent has a token with these rules, if any."""
    node = c.add("n1", 1, raftd={"bootstrap": True}, rpcd=dict(SOON, **rpcd), **ON).start()
    acl = Acl(node)
    made = acl.make(rules) if rules else None
    if made:
        agent_token(node, acl, made["SecretID"])
    return node, acl, made


def agent_token(node, acl, secret):
    acl.http("PUT", "/v1/agent/token/agent", {"Token": secret}).ok()


def register(node, acl, name, **more):
    """A service and its TTL check, passing, with a token of their own, which is returned when the catalog has both."""
    token = acl.make('service "%s" { policy = "write" }' % name)
    body = dict({"Name": name, "Check": {"TTL": "1h", "Status": "passing"}}, **more)
    node.put("/v1/agent/service/register", body, headers=auth(token["SecretID"])).ok()
    wait_for("%s is in the catalog" % name, lambda: states(acl, name) == ["passing"])
    return token


def states(acl, name):
    """Of the check of each instance."""
    return [next((c["Status"] for c in e["Checks"] if c["ServiceName"] == name), None)
            for e in acl.ask("GET", "/v1/health/service/" + name)]


def check(node, acl, name, what):
    acl.http("PUT", "/v1/agent/check/%s/service:%s" % (what, name)).ok()


def node_line(node):
    """What `status` says of the node: (status, text)."""
    sock = "unix:" + os.path.join(node.run, "rpcd.sock")
    told = json.loads(node.ctl("--addr", sock, "--json", "status", check=False).stdout)
    return [(line["Status"], line["Text"]) for line in told["Checks"] if line["Check"] == "node"]


def wait_line(node, *parts):
    def found():
        lines = node_line(node)
        return any(s == "not well" and all(p in t for p in parts) for s, t in lines)
    wait_for("status says " + " ".join(parts), found)


def wait_well(node):
    wait_for("the node is well", lambda: [s for s, _ in node_line(node)] == ["well"])


def test_removed():
    """A token is deleted: its service can be removed all the same, by the API and by services.d; also over a restart."""
    with Cluster("127.149.9") as c:
        node, acl, _ = started(c, OWN)
        token = register(node, acl, "w")
        acl.delete(token)
        acl.http("PUT", "/v1/agent/service/deregister/w").ok()
        wait_for("w is gone", lambda: states(acl, "w") == [])
        token = register(node, acl, "x")
        acl.delete(token)
        node.stop("rpcd")
        node.start("rpcd")
        wait_for("rpcd answers", lambda: acl.http("PUT", "/v1/agent/token/agent", {"Token": acl.token(OWN)}).status == 200)
        acl.http("PUT", "/v1/agent/service/deregister/x").ok()
        wait_for("x is gone", lambda: states(acl, "x") == [])
        token = acl.make('service "f" { policy = "write" }')
        services = os.path.join(node.conf, "services.d")
        os.makedirs(services, exist_ok=True)
        with open(os.path.join(services, "f.conf"), "w") as f:
            f.write('service { name = "f"\ntoken = "%s"\n}\n' % token["SecretID"])
        acl.http("PUT", "/v1/agent/reload").ok()
        wait_for("f is there", lambda: states(acl, "f") == [None])
        acl.delete(token)
        os.unlink(os.path.join(services, "f.conf"))
        acl.http("PUT", "/v1/agent/reload").ok()
        # The reload has forgotten the agent's token, which was not kept: what is blocked says so, until there is one.
        wait_line(node, "acl.tokens.agent is not set: 1 of 1 registrations", "the first is service f")
        agent_token(node, acl, acl.token(OWN))
        wait_for("f is gone", lambda: states(acl, "f") == [])
        wait_well(node)


def test_states():
    """With service:write the agent tells what checks say whose token was deleted; without it a dead instance goes."""
    with Cluster("127.149.10") as c:
        node, acl, made = started(c, OWN + SERVICES)
        token = register(node, acl, "w")
        acl.delete(token)
        for what, state in (("fail", "critical"), ("pass", "passing"), ("fail", "critical")):
            check(node, acl, "w", what)
            wait_for(state, lambda: states(acl, "w") == [state])
        wait_well(node)
        token = register(node, acl, "v")
        acl.change_policy(acl.ask("GET", "/v1/acl/policy/" + made["Policies"][0]["ID"]), OWN)
        acl.delete(token)
        check(node, acl, "v", "fail")
        wait_for("v is out of the catalog", lambda: states(acl, "v") == [])
        assert acl.ask("GET", "/v1/agent/services")["v"]["Service"] == "v"
        wait_line(node, "the token of service v is unknown", "registrations are not in the catalog")
        check(node, acl, "v", "pass")
        # A registration with another token brings it back.
        register(node, acl, "v")
        check(node, acl, "v", "fail")
        wait_for("it is critical", lambda: states(acl, "v") == ["critical"])


def test_others_are_safe():
    """An id in other letters, which the catalog never took from here, is no way to remove another's service."""
    with Cluster("127.149.11") as c:
        node, acl, _ = started(c, OWN + SERVICES)
        victim = acl.make('service "victim" { policy = "write" }')
        register(node, acl, "victim", ID="vid")
        mine = auth(acl.token('service "mine" { policy = "write" }'))
        assert node.put("/v1/agent/service/register", {"Name": "mine", "ID": "VID"}, headers=mine).status == 400
        assert node.put("/v1/agent/service/deregister/VID", headers=mine).status == 200
        acl.delete(victim)
        assert [e["ServiceID"] for e in acl.ask("GET", "/v1/catalog/service/victim")] == ["vid"]


def test_the_agents_token():
    """Missing, with too few rights, gone: `status`, `info` and metrics tell; a new one has all tried again at once."""
    with Cluster("127.149.12") as c:
        node, acl, _ = started(c, sync_interval="10m")
        services = os.path.join(node.conf, "services.d")
        os.makedirs(services, exist_ok=True)
        with open(os.path.join(services, "d.conf"), "w") as f:
            f.write('service { name = "d"\ncheck { ttl = "1h"\nstatus = "passing" }\n}\n')
        acl.http("PUT", "/v1/agent/reload").ok()
        wait_line(node, "acl.tokens.agent is not set: 2 of 2 registrations are not in the catalog, the first is service d")
        metrics = acl.ask("GET", "/v1/agent/metrics")["Gauges"]
        assert [g["Value"] for g in metrics if g["Name"] == "triumvir.rpcd.registrations_blocked"] == [2]
        weak = acl.make(OWN)
        agent_token(node, acl, weak["SecretID"])
        wait_line(node, 'acl.tokens.agent lacks service "d" { policy = "write" }: 2 of 2')
        assert 'acl.tokens.agent lacks service "d" { policy = "write" }' in node.log("rpcd")
        acl.delete(weak)
        agent_token(node, acl, weak["SecretID"])
        wait_line(node, "acl.tokens.agent is unknown: 2 of 2 registrations are not in the catalog")
        agent_token(node, acl, acl.token(OWN + SERVICES))
        wait_for("all is there", lambda: states(acl, "d") == ["passing"])
        wait_well(node)
        # The same by rpcd.conf and a reload, to a token that is none: nothing is lost, and it is told.
        good = acl.make(OWN + SERVICES)
        agent_token(node, acl, good["SecretID"])
        acl.delete(good)
        check(node, acl, "d", "fail")
        wait_line(node, "acl.tokens.agent is unknown: ", " of 2 registrations are not in the catalog as they are here")
        agent_token(node, acl, acl.token(OWN + SERVICES))
        wait_for("it is critical", lambda: states(acl, "d") == ["critical"])
        wait_well(node)


def test_token_of_files():
    """What services.d defines goes with a token of its own, which clusterctl sets; the agent's may not say it."""
    with Cluster("127.149.22") as c:
        node, acl, _ = started(c, OWN)
        services = os.path.join(node.conf, "services.d")
        os.makedirs(services, exist_ok=True)
        with open(os.path.join(services, "f.conf"), "w") as f:
            f.write('service { name = "f"\n}\n')
        acl.http("PUT", "/v1/agent/reload").ok()
        secrets = {"admin": acl.secret, "agent": acl.token(OWN), "files": acl.token('service "f" { policy = "write" }')}
        for name, secret in secrets.items():
            with open(os.open(os.path.join(c.dir, name), os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write(secret + "\n")

        def give(kind, name, **kw):
            return node.ctl("--token-file", os.path.join(c.dir, "admin"), "acl", "set-agent-token", kind,
                            os.path.join(c.dir, name), **kw)
        assert 'ACL token "agent" set successfully' in give("agent", "agent").stdout
        wait_line(node, 'acl.tokens.agent lacks service "f" { policy = "write" }')
        assert states(acl, "f") == []
        give("config_file_service_registration", "files")
        wait_for("f is there", lambda: states(acl, "f") == [None])
        wait_well(node)
        refused = node.ctl("acl", "set-agent-token", "agent", os.path.join(c.dir, "files"), check=False)
        assert refused.returncode != 0 and "Permission denied" in refused.stderr, refused
        assert give("bogus", "files", check=False).returncode == 2


main(test_removed, test_states, test_others_are_safe, test_the_agents_token, test_token_of_files)
