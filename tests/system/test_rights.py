#!/usr/bin/env python3
"""Rights to what others have, over HTTP: names that are too long."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from aclkit import ON, formed  # noqa: E402
from cluster import Cluster, main  # noqa: E402


# -- names that are too long ---------------------------------------------------------------------------

def test_long_names():
    """What no name can be is not there."""
    with Cluster("127.241.23") as c:
        node, = c.servers(1, **ON)
        acl, _ = formed(c, [node])
        acl.http("POST", "/v1/query", {"Name": "wide", "Template": {"Type": "name_prefix_match", "Regexp": "^wide(.*)$"},
                                       "Service": {"Service": "${name.full}" * 40}}).ok(200)
        for n in (1000, 1025, 8300, 9000, 12000):
            name = "x" * n
            for path in ("/v1/health/service/%s", "/v1/health/connect/%s", "/v1/catalog/service/%s", "/v1/catalog/connect/%s",
                         "/v1/health/node/%s", "/v1/health/checks/%s", "/v1/session/node/%s", "/v1/health/service/web?near=%s",
                         "/v1/health/state/%s"):
                r = acl.http("GET", path % name)
                assert r.status == 200 and r.json() == [], (path, n, r.status, r.text[:200])
            assert acl.http("GET", "/v1/catalog/node/" + name).ok(200).json() is None, n
            assert acl.http("GET", "/v1/coordinate/node/" + name).status == 404, n
            for path in ("/v1/session/info/%s", "/v1/query/%s", "/v1/query/%s/execute", "/v1/query/%s/explain"):
                assert "cannot be read" not in acl.http("GET", path % name).text, (path, n)
        r = acl.http("GET", "/v1/query/wide%s/execute" % ("y" * 240))
        assert r.status == 200 and r.json()["Nodes"] == [], r


main(test_long_names)
