#!/usr/bin/env python3
"""Keys: a plaintext cluster becomes an encrypted one, rings rotate, nodes that missed it are told."""
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, Writer, main, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.16")
ALIVE = 1


def net(i):
    """Each test has a network of its own."""
    return "%s.%d" % (NET if NET.count(".") == 1 else NET.rsplit(".", 1)[0], i)


def make_keys(cluster):
    path = os.path.join(cluster.dir, "keys")
    os.mkdir(path, 0o700)
    subprocess.run([os.path.join(BUILD, "ctl", "clusterctl"), "keygen", path], check=True, stdout=subprocess.DEVNULL)
    return path


def all_alive(nodes):
    names = {n.name for n in nodes}
    for n in nodes:
        if n.members() != dict.fromkeys(names, ALIVE):
            return False
    return True


def says_in_clear(node, port):
    """A peer that greets in clear is hung up on."""
    with socket.create_connection((node.addr, port), timeout=10) as s:
        s.settimeout(10)
        s.sendall(b"\x05\x00\x00\x00\x01\x00\x00\x00" + bytes(8) + b"\x94\x01\xa1x\xa0\xa0")
        try:
            return s.recv(100) == b""
        except ConnectionResetError:
            return True


def plaintext_to_encrypted():
    """Three servers and a client move through the stages, node by node, under writes; nobody fails, nothing is lost."""
    with Cluster(net(1), keys=False, gossipd={"profile": "lan"}) as c:
        nodes = c.servers(3) + [c.client("c1", 4, c.nodes["n1"])]
        c.formed(nodes)
        wait_for("four members", lambda: all_alive(nodes))
        keys = make_keys(c)
        writer = Writer(nodes, pause=0.005)
        writer.start()
        for stage in ("accept", "send", "required"):
            for n in nodes:
                n.set_common(cluster_key=keys + "/cluster.key", server_pub=keys + "/server.pub", encryption=stage,
                             **({"server_key": keys + "/server.key"} if n.server else {}))
                n.stop()
                n.start().up()
                assert "encryption %s" % stage in n.log("gossipd"), n.log("gossipd")
                c.formed(nodes)
                count = len(writer.acked)
                wait_for("writes go on", lambda: len(writer.acked) > count + 20)
                wait_for("all alive", lambda: all_alive(nodes))
        writer.stop()
        for n in nodes:
            writer.check(n)
            assert "EventMemberFailed" not in n.log("gossipd"), n.log("gossipd")
            assert n.stats("serf_lan")["encrypted"] == "true"
            assert n.stats("keyring")["encryption"] == "required" and n.stats("keyring")["stored"] == "yes"
            tags = n.get("/v1/agent/members").json()[0]["Tags"]
            assert tags["enc"] == "required", tags
        assert says_in_clear(nodes[0], 8400) and says_in_clear(nodes[0], 8300)
        assert len(writer.acked) > 100


if __name__ == "__main__":
    main(plaintext_to_encrypted)
