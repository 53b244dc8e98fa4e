#!/usr/bin/env python3
"""One real gossipd in a pool of hundreds, whose other members are played: nobody is accused, nothing grows.

The figures at ten thousand are made by tests/bench/pool; here only what must hold everywhere is asserted.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import crowd  # noqa: E402
from cluster import Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.62.0")
COUNT = 500
RESIDENT_MAX = 32                       # MiB; sanitizers and other allocators included


def live_in(key, compress):
    with Cluster(NET, keys=key) as cl:
        node, others = crowd.start(cl, COUNT, key, compress)
        try:
            pid = node.pid("gossipd")
            crowd.join(node, others)
            crowd.check(node, COUNT)
            before = others.ask("stats")
            wait_for("five probes in both directions", lambda: all(
                others.ask("stats")[k] >= before[k] + 5 for k in ("pings", "acks")))
            for _ in range(3):
                told = others.ask("exchange")
                assert told["ok"] and told["members"] == COUNT, told
            stats = others.ask("stats")
            assert stats["misdirected"] == stats["bad"] == 0, stats
            assert stats["streams_in"] >= 1, stats
            crowd.check(node, COUNT)
            if not sanitized(pid):
                assert crowd.memory(pid)[0] < RESIDENT_MAX, crowd.memory(pid)
            node.stop("gossipd")
        finally:
            others.close()


def sanitized(pid):
    """Built with a sanitizer, whose shadow is no memory of ours."""
    with open("/proc/%d/maps" % pid) as f:
        return "libasan" in f.read()


def encrypted_and_compressed():
    live_in(True, True)


def encrypted():
    live_in(True, False)


def plain():
    live_in(False, False)


if __name__ == "__main__":
    main(encrypted_and_compressed, encrypted, plain)
