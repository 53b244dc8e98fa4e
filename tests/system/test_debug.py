#!/usr/bin/env python3
"""clusterctl debug: an archive with all that it promises, from healthy and from broken nodes, and no secret in it."""
import base64
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import BUILD, Cluster, main  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.144.0")
TOKEN = "b1gs05f7-5ec7-4e11-a000-00000000cafe"
ALWAYS = {"index.json", "host.json", "members.json", "checks.json", "leader.json", "peers.json", "raft.json", "autopilot.json",
          "health.json", "logs.txt"}


def unpacked(path):
    """name -> bytes; all in one folder, and nothing but plain files."""
    with tarfile.open(path) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
        assert all(m.isfile() and m.mode == 0o600 for m in tar), tar.getnames()
    folders = {n.split("/")[0] for n in files}
    assert len(folders) == 1 and folders.pop().startswith("triumvir-debug-"), files.keys()
    return {n.split("/", 1)[1]: b for n, b in files.items()}


def secrets(c):
    """What must not be in it: each key, as it is written and as it is used, and in other spellings."""
    for name in "cluster.key", "server.key":
        with open(os.path.join(c.keys, name)) as f:
            for line in [text.split()[0] for text in f if text.strip() and not text.startswith("#")]:
                raw = base64.b64decode(line)
                assert len(raw) == 32, line
                yield from (line.encode(), line.rstrip("=").encode(), raw, raw.hex().encode(), base64.urlsafe_b64encode(raw).rstrip(b"="))
    yield TOKEN.encode()


def clean(c, files):
    for name, data in files.items():
        for secret in secrets(c):
            assert secret not in data and secret.lower() not in data.lower(), "a secret is in " + name


def test_archive():
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        c.formed()
        out = os.path.join(c.dir, "out.tar.gz")
        os.environ["CONSUL_HTTP_TOKEN"] = TOKEN
        try:
            n.kv_put("a-key-of-the-state", "value-of-the-state")
            # Somebody wrote the token where everybody sees it.
            n.put("/v1/agent/check/register", {"Name": "c", "TTL": "60m", "Notes": "with %s in it" % TOKEN}).ok()
            p = n.ctl("debug", "--duration", "1s", "--interval", "200ms", "--output", out, "--config", n.conf)
        finally:
            del os.environ["CONSUL_HTTP_TOKEN"]
        assert p.stderr == "" and p.stdout.startswith("Wrote %s: %d bytes" % (out, os.stat(out).st_size)), p
        assert stat.S_IMODE(os.stat(out).st_mode) == 0o600
        files = unpacked(out)
        captures = json.loads(files["index.json"])["Captures"]
        assert captures >= 2, captures
        expect = ALWAYS | {"members-wan.json"} | {"conf/%s.conf" % d for d in ("gossipd", "raftd", "rpcd")}
        expect |= {"%s/%04d.json" % (kind, i) for kind in ("metrics", "self") for i in range(captures)}
        assert set(files) == expect, set(files) ^ expect
        clean(c, files)
        assert not any(b"value-of-the-state" in data for data in files.values())
        assert json.loads(files["checks.json"])["c"]["Notes"] == "with (hidden) in it"
        assert json.loads(files["index.json"])["Errors"] == [] and json.loads(files["index.json"])["Node"] == "n1"
        assert [m["Name"] for m in json.loads(files["members.json"])] == ["n1"]
        assert json.loads(files["self/0000.json"])["Stats"]["raft"]["state"] == "Leader"
        assert any(g["Name"].startswith("triumvir.raft.") for g in json.loads(files["metrics/0000.json"])["Gauges"])
        assert c.keys.encode() in files["conf/rpcd.conf"] + files["conf/gossipd.conf"], "the paths of the keys are told"
        assert b"[DEBUG]" in files["logs.txt"], files["logs.txt"][:300]
        again = n.ctl("debug", "--duration", "1s", "--output", out, check=False)
        assert again.returncode == 1 and "File exists" in again.stderr, again
        assert unpacked(out) == files


def holds_back(pid, sig):
    with open("/proc/%d/status" % pid) as f:
        blocked = next(line.split()[1] for line in f if line.startswith("SigBlk:"))
    return int(blocked, 16) >> (sig - 1) & 1


def test_broken_node():
    """raftd is gone, then no rpcd either; and a signal ends it early."""
    with Cluster(NET) as c:
        n = c.servers(1)[0]
        c.formed()
        n.kill("raftd")
        out = os.path.join(c.dir, "out.tar.gz")
        p = n.ctl("debug", "--json", "--duration", "1s", "--interval", "500ms", "--output", out, timeout=240)
        told = json.loads(p.stdout)
        files = unpacked(out)
        assert told["File"] == out and told["Bytes"] == os.stat(out).st_size and any("raft.json" in e for e in told["Errors"]), told
        assert json.loads(files["index.json"])["Errors"] == told["Errors"] and "logs.txt" in files and "host.json" in files
        assert "conf/rpcd.conf" not in files, "whose configuration is that?"
        clean(c, files)
        n.start("raftd")
        c.leader()
        early = os.path.join(c.dir, "early.tar.gz")
        with open(os.path.join(c.dir, "told"), "w+") as told:
            ctl = subprocess.Popen([os.path.join(BUILD, "ctl", "clusterctl"), "--addr", n.addr + ":8500", "debug", "--duration", "1h",
                                    "--output", early], stdin=subprocess.DEVNULL, stdout=told, stderr=told)
            # Before it takes signals from a descriptor, SIGINT is lost where a shell began the test in the background.
            wait_for("it watches", lambda: holds_back(ctl.pid, signal.SIGINT) and int(n.stats("rpcd")["http_under_way"]) >= 2)
            ctl.send_signal(signal.SIGINT)
            assert ctl.wait(60) == 0
        assert "index.json" in unpacked(early) and "logs.txt" in unpacked(early)
        n.kill("rpcd")
        p = n.ctl("debug", "--output", os.path.join(c.dir, "none"), check=False)
        assert p.returncode == 69 and "Is rpcd running there?" in p.stderr and not os.path.exists(os.path.join(c.dir, "none")), p
        n.start("rpcd").up()


if __name__ == "__main__":
    main(test_archive, test_broken_node)
