#!/usr/bin/env python3
"""Walls between the daemons, tested from inside and from outside (scenarios S200, S205, S206, S209, S211).

From inside: the running, sandboxed daemon itself tries what an exploit would try (lib/inject.py).  Needs root.
"""
import base64
import glob
import grp
import hashlib
import json
import os
import pwd
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from cluster import CALM, Cluster, main, skip  # noqa: E402
from inject import inside, missing  # noqa: E402
from procmem import memory  # noqa: E402
from waiting import wait_for  # noqa: E402

IPPROTO_MPTCP = 262
MSG_FASTOPEN = 0x20000000
TCP_FASTOPEN_CONNECT, TCP_ULP = 30, 31
AT_FDCWD = -100
PTRACE_ATTACH = 16


def c_open(path, flags=0):
    return "openat", AT_FDCWD, path.encode() + b"\0", flags, 0o600


def c_unix(path):
    """Connects the socket that was just made to a unix socket by path; where there are none, no socket can be made either."""
    addr = (struct.pack("<H", socket.AF_UNIX) + path.encode()).ljust(110, b"\0")
    return lambda fd: ("connect", fd, addr, len(addr))


def internet(ip, port):
    return struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + socket.inet_aton(ip) + bytes(8)


def need_injection():
    if missing() is not None:
        skip(missing())


def attack(node, daemon, stranger_port):
    """What must fail from inside; returns the names of what did not."""
    database = next(p for p in glob.glob(node.data + "/raftd/**", recursive=True) if os.path.isfile(p))
    other = "gossipd" if daemon == "rpcd" else "rpcd"
    pid, raftd, raftd_uid = node.pid(daemon), node.pid("raftd"), pwd.getpwnam("_raftd").pw_uid
    tries = {
        "open raftd's database": c_open(database),
        "open the state of " + other: c_open(glob.glob(node.data + "/" + other)[0]),
        "open the server key": c_open(node.cluster.keys + "/server.key"),
        "open /etc/passwd": c_open("/etc/passwd"),
        "write a file in /tmp": c_open("/tmp/tv-walls-%d" % os.getpid(), os.O_WRONLY | os.O_CREAT),
        "run a program": ("execve", b"/bin/true\0", 0, 0),
        "fork": ("fork",),
        "vfork": ("vfork",),
        "clone": ("clone", signal.SIGCHLD, 0, 0, 0, 0),
        "trace raftd": ("ptrace", PTRACE_ATTACH, raftd, 0, 0),
        "become root": ("setuid", 0),
        "become raftd": ("setresuid", raftd_uid, raftd_uid, raftd_uid),
        "signal raftd": ("kill", raftd, signal.SIGKILL),
        "mount": ("mount", b"none\0", b"/mnt\0", b"tmpfs\0", 0, 0),
        "open a packet socket": ("socket", socket.AF_PACKET, socket.SOCK_RAW, 0),
        "open an MPTCP socket": ("socket", socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP),
        "open an MPTCP socket for IPv6": ("socket", socket.AF_INET6, socket.SOCK_STREAM, IPPROTO_MPTCP),
        "open a UDP socket": ("socket", socket.AF_INET, socket.SOCK_DGRAM, 0),
        "open a raw socket": ("socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    }
    results = inside(pid, *tries.values())
    failed = ["%s (result %d)" % (n, r) for n, r in zip(tries, results) if r >= 0]
    # Whose socket is not meant for this daemon.
    for other in {"gossipd": ("gossipd", "raftd", "rpcd"), "raftd": ("raftd", "rpcd"), "rpcd": ("rpcd",)}[daemon]:
        fd, connected, _ = inside(pid, ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
                                  c_unix(os.path.join(node.run, other + ".sock")), ("close", -1))
        if connected >= 0:
            failed.append("connect to %s.sock" % other)
        if fd >= 0:
            inside(pid, ("close", fd))
    # A fresh TCP socket may exist, but not reach an arbitrary port (where the kernel has Landlock network rules).
    fd = inside(pid, ("socket", socket.AF_INET, socket.SOCK_STREAM, 0))[0]
    if fd >= 0:
        stranger = internet("127.0.0.1", stranger_port)
        tries = {
            "connect to a stranger's port": ("connect", fd, stranger, len(stranger)),
            "connect with the first message": ("sendto", fd, b"x", 1, MSG_FASTOPEN, stranger, len(stranger)),
            "set TCP_FASTOPEN_CONNECT": ("setsockopt", fd, socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, struct.pack("i", 1), 4),
            "set TCP_ULP": ("setsockopt", fd, socket.IPPROTO_TCP, TCP_ULP, b"tls", 3),
        }
        failed += [n for n, r in zip(tries, inside(pid, *tries.values())) if r >= 0]
        inside(pid, ("close", fd))
    return failed


def test_from_inside():
    need_injection()
    with Cluster("127.60.41") as c:
        node = c.servers(1)[0]
        c.formed([node])
        node.kv_put("a", "1")
        stranger = socket.create_server(("127.0.0.1", 0))
        try:
            for daemon in ("gossipd", "rpcd", "raftd"):
                failed = attack(node, daemon, stranger.getsockname()[1])
                if daemon == "raftd":        # its own files are its own, and the calls were made
                    assert any(f.startswith("open raftd's database") for f in failed), failed
                    failed = [f for f in failed if not f.startswith(("open raftd", "trace raftd", "become raftd",
                                                                     "signal raftd"))]
                assert not failed, "%s may: %s" % (daemon, "; ".join(failed))
                assert node.running(daemon), daemon + " did not survive its own attempts"
            stranger.settimeout(0)
            try:
                stranger.accept()
                raise AssertionError("somebody reached the stranger's port")
            except BlockingIOError:
                pass
        finally:
            stranger.close()
        assert node.kv_get("a") == b"1"


def test_users_and_capabilities():
    with Cluster("127.60.42") as c:
        node = c.servers(1)[0]
        c.formed([node])
        for daemon in node.daemons:
            with open("/proc/%d/status" % node.pid(daemon)) as f:
                status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
            assert status["NoNewPrivs"].strip() == "1", daemon
            assert status["Seccomp"].strip() == "2", daemon
            if os.geteuid() == 0:
                uid = pwd.getpwnam("_" + daemon).pw_uid
                assert status["Uid"].split() == [str(uid)] * 4, (daemon, status["Uid"])
                assert int(status["CapEff"], 16) == 0 and int(status["CapPrm"], 16) == 0, daemon
            assert oct(os.stat(node.data + "/" + daemon).st_mode & 0o777) == "0o700", daemon
            assert os.stat(os.path.join(node.run, daemon + ".sock")).st_mode & 0o007 == 0, daemon


def test_secrets_do_not_leak():
    with Cluster("127.60.43") as c:
        node = c.servers(1)[0]
        c.formed([node])
        node.get("/v1/agent/self")
        secrets = []
        for name in ("cluster.key", "server.key"):
            with open(os.path.join(c.keys, name)) as f:
                text = [line.strip() for line in f if line.strip() and not line.startswith("#")][0]
            secrets += [text.encode(), base64.b64decode(text).hex().encode()]
        places = {"info": node.get("/v1/agent/self").body, "members": node.get("/v1/agent/members").body}
        for d in node.daemons:
            places[d + " log"] = node.log(d).encode()
            for what in ("cmdline", "environ"):
                try:
                    with open("/proc/%d/%s" % (node.pid(d), what), "rb") as f:
                        places["%s %s" % (d, what)] = f.read()
                except PermissionError:
                    pass
        for place, text in places.items():
            assert not any(s in text for s in secrets), place


def derived(context, key):
    return hashlib.blake2b(context, key=key, digest_size=32).digest()


def clamped(secret):
    """An X25519 secret as implementations keep it."""
    return bytes([secret[0] & 248]) + secret[1:31] + bytes([secret[31] & 127 | 64])


def key_of(keys, name):
    with open(os.path.join(keys, name)) as f:
        return base64.b64decode([line for line in f if not line.startswith("#")][0])


def secrets_of(keys):
    """{name: the byte strings that give it away}."""
    raw = {name: key_of(keys, name) for name in ("cluster.key", "server.key")}
    raw["rpc static secret"] = derived(b"triumvir rpc static", raw["server.key"])
    raw["raft psk"] = derived(b"triumvir raft psk", raw["server.key"])
    raw["link psk"] = derived(b"triumvir link psk", raw["cluster.key"])
    return {n: forms(k) for n, k in raw.items()}


def forms(key):
    """Halves of what gives a key away: in memory that was given back the other one may have been overwritten."""
    text, digits = base64.b64encode(key), key.hex().encode()
    return {key[:16], key[16:], clamped(key)[:16], clamped(key)[16:], text[:20], text[20:40], digits[:32], digits[32:]}


# Who may hold what.  The file's own key of the servers is nobody's.
HOLDS = {
    "gossipd": {"cluster.key", "link psk"},
    "raftd": {"raft psk"},
    "rpcd": {"rpc static secret", "link psk"},
}


def found_in(node, daemon, secrets):
    found = set()
    for piece in memory(node.pid(daemon)):
        found |= {name for name, forms in secrets.items() if any(f in piece for f in forms)}
    return found


def test_secrets_stay_where_they_are_used():
    """No daemon has a secret in its memory that it does not use, not even where it was read and then wiped."""
    if os.geteuid() != 0:
        skip("needs root, to read the memory of daemons")
    with Cluster("127.60.47") as c:
        servers = c.servers(3)
        c.formed(servers)
        client = c.client("c1", 5, servers[0])
        wait_for("the client writes", lambda: client.kv_put("a", "1") is None)
        secrets = secrets_of(c.keys)
        for node in servers[:1] + [client]:
            for daemon in node.daemons:
                want = HOLDS[daemon] - (set() if node.server else {"rpc static secret"})
                found = found_in(node, daemon, secrets)
                assert found <= want, "%s of %s holds %s" % (daemon, node.name, sorted(found - want))
                # The scan sees what is there.  gossipd has the psks of the links for a moment only.
                assert found >= want - ({"link psk"} if daemon == "gossipd" else set()), (daemon, found)
        handle_keys(c, servers + [client], secrets)


def handle_keys(c, nodes, secrets):
    """Somebody asks for the keys, and turns the ring: they go through several rpcds, which keep nothing of them."""
    key = os.urandom(32)
    secrets = dict(secrets, **{"another key": forms(key)})
    own, other = (base64.b64encode(k).decode() for k in (key_of(c.keys, "cluster.key"), key))
    for node in (nodes[0], nodes[-1]):
        assert own in node.ctl("keyring", "list", "--show-keys").stdout
        for unix in (False, True):
            answer = node.http("GET", "/v1/operator/keyring?pretty", unix=unix)
            assert answer.status == 200 and own in answer.body.decode(), answer
        for method, text in (("POST", other), ("PUT", other), ("PUT", own), ("DELETE", other)):
            answer = node.http(method, "/v1/operator/keyring", json.dumps({"Key": text}), unix=method == "DELETE")
            assert answer.status == 200, (method, answer)
        # In two pieces: the rest of the body comes when its beginning was read.
        with socket.create_connection((node.addr, 8500), timeout=60) as s:
            body = json.dumps({"Key": own}).encode()
            s.sendall(b"PUT /v1/operator/keyring HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body))
            assert b" 100 " in s.recv(100)
            s.sendall(body[:30])
            assert node.get("/v1/status/leader").status == 200
            s.sendall(body[30:])
            assert b" 200 " in s.recv(1000)
    for node in nodes:
        kept = found_in(node, "rpcd", secrets) - HOLDS["rpcd"]
        assert not kept, "rpcd of %s keeps %s" % (node.name, sorted(kept))


HELLO = bytes([0x94, 1, 0xa4]) + b"rpcd" + b"\xa1x" + b"\xa1y"


def frame(kind, body=b"", flags=0, ident=0, length=None):
    return struct.pack("<IHHQ", len(body) if length is None else length, kind, flags, ident) + body


def closes(sock):
    """The other side closes this connection."""
    sock.settimeout(60)
    try:
        while sock.recv(65536):
            pass
        return True
    except ConnectionError:
        return True
    except socket.timeout:
        return False


GARBAGE = {
    "no hello": frame(32, b"\x90", ident=1),
    "4 GB announced": frame(1, length=0xffffffff),
    "hello, then 4 GB announced": frame(1, HELLO) + frame(32, ident=1, length=0xfffffff0),
    "unknown type": frame(1, HELLO) + frame(9999, b"\x90", ident=1),
    "hello twice": frame(1, HELLO) + frame(1, HELLO),
    "not msgpack": frame(1, HELLO) + frame(32, b"\xc1" * 40, ident=1),
    "truncated array": frame(1, HELLO) + frame(32, b"\x97\x01", ident=1),
    "nested deeply": frame(1, HELLO) + frame(32, b"\x91" * 5000, ident=1),
    "a million elements": frame(1, HELLO) + frame(32, b"\xdd\x00\x10\x00\x00", ident=1),
    "an answer to nothing, then text": frame(1, HELLO) + frame(32, b"\x90", flags=1, ident=77) + b"GET / HTTP/1.0\r\n\r\n" * 4,
    "text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "random": bytes((i * 7919 + 13) % 256 for i in range(4000)),
}


def test_malformed_frames_close_the_channel_only():
    with Cluster("127.60.44") as c:
        servers = c.servers(3, raftd=CALM)
        c.formed(servers)
        node = servers[0]
        term = node.term()
        for daemon in ("gossipd", "raftd"):
            for what, data in GARBAGE.items():
                s = socket.socket(socket.AF_UNIX)
                s.connect(os.path.join(node.run, daemon + ".sock"))
                try:
                    s.sendall(data)
                except ConnectionError:
                    pass
                assert closes(s), "%s keeps the channel open after: %s" % (daemon, what)
                s.close()
                assert node.running(daemon), "%s died of: %s" % (daemon, what)
        for port in (8300, 8400):
            for what, data in GARBAGE.items():
                s = socket.create_connection((node.addr, port))
                try:
                    s.sendall(data)
                except ConnectionError:
                    pass
                assert closes(s), "port %d keeps the channel open after: %s" % (port, what)
                s.close()
        node.kv_put("after", "1")
        assert servers[1].kv_get("after") == b"1"
        assert node.term() == term
        for n in servers:
            assert all(n.running(d) for d in n.daemons)


def test_strangers_are_refused():
    if os.geteuid() != 0 or not os.access("/usr/bin/python3", os.X_OK):
        skip("needs root and a Python that everybody may run, to become another user")
    with Cluster("127.60.45") as c:
        node = c.servers(1)[0]
        c.formed([node])
        code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\ns.connect(sys.argv[1])\n"
                "s.sendall(bytes.fromhex(sys.argv[2]))\nsys.exit(0 if s.recv(1) else 3)\n")
        groups = [grp.getgrnam(g).gr_gid for g in ("_triumvir", "triumvir", "_rpcd")]
        for daemon in ("gossipd", "raftd"):
            path = os.path.join(node.run, daemon + ".sock")
            for extra, why in (([], "the file's mode"), (groups, "the peer's user")):
                p = subprocess.run(["/usr/bin/python3", "-c", code, path, frame(1, HELLO).hex()], user="nobody",
                                   extra_groups=extra, capture_output=True, text=True)
                assert p.returncode != 0, "%s serves nobody in spite of %s" % (daemon, why)
        wait_for("gossipd logs the refusal", lambda: "connection from uid %d rejected" % pwd.getpwnam("nobody").pw_uid in node.log("gossipd"))
        wait_for("the refusal is logged", lambda: "uid" in node.log("raftd"))
        node.kv_put("x", "1")


ASK = """import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(30)
try:
    s.connect(sys.argv[1])
except PermissionError:
    print("denied")
    sys.exit()
try:
    s.sendall(bytes.fromhex(sys.argv[2]))
    print(s.recv(65536).decode("latin1"))
except ConnectionError:
    print("closed")
"""


def test_a_list_for_each_socket():
    """raftd.sock is for rpcd, gossipd.sock for rpcd and raftd, rpcd.sock for operators, and all for root."""
    if os.geteuid() != 0 or not os.access("/usr/bin/python3", os.X_OK):
        skip("needs root and a Python that everybody may run, to become another user")
    everybody = ["nobody", "_gossipd", "_raftd", "_rpcd", "_check", "root"]
    users = {"gossipd": {"_rpcd", "_raftd"}, "raftd": {"_rpcd"}, "rpcd": set()}
    group = {"gossipd": "_triumvir", "raftd": "_rpcd", "rpcd": "triumvir"}
    operators = grp.getgrnam("triumvir").gr_gid
    with Cluster("127.60.48") as c:
        node = c.servers(1)[0]
        c.formed([node])

        def ask(daemon, user, groups):
            first = b"GET /v1/status/leader HTTP/1.1\r\nHost: x\r\n\r\n" if daemon == "rpcd" else frame(1, HELLO)
            p = subprocess.run(["/usr/bin/python3", "-c", ASK, os.path.join(node.run, daemon + ".sock"), first.hex()],
                               user=user, group=pwd.getpwnam(user).pw_gid, extra_groups=groups, capture_output=True,
                               text=True, check=True)
            if p.stdout.startswith("denied"):
                return "denied"
            if daemon == "rpcd":
                return "served" if p.stdout.startswith("HTTP/1.1 200") else "refused"
            return "served" if p.stdout.strip() not in ("", "closed") else "refused"

        for daemon in node.daemons:
            st = os.stat(os.path.join(node.run, daemon + ".sock"))
            assert (st.st_uid, st.st_mode & 0o777) == (0, 0o660), (daemon, st)
            assert st.st_gid == grp.getgrnam(group[daemon]).gr_gid, (daemon, st.st_gid)
            for user in everybody:
                # As the daemons are: with their group, where they have one.
                groups = [grp.getgrnam("_triumvir").gr_gid] if user in ("_raftd", "_rpcd") else []
                want = "served" if user in users[daemon] | {"root"} else "denied"
                got = ask(daemon, user, groups)
                assert got == want, "%s.sock, asked by %s: %s" % (daemon, user, got)
                # And with every group there is: the user counts, but for operators.
                got = ask(daemon, user, [grp.getgrnam(g).gr_gid for g in ("_triumvir", "_rpcd", "triumvir")])
                want = "served" if user in users[daemon] | {"root"} or daemon == "rpcd" else "refused"
                assert got == want, "%s.sock, asked by %s in all groups: %s" % (daemon, user, got)
        assert ask("rpcd", "nobody", [operators]) == "served"
        # No daemon is in the operators' group, whatever the group file says.
        for daemon in node.daemons:
            with open("/proc/%d/status" % node.pid(daemon)) as f:
                held = [line.split()[1:] for line in f if line.startswith("Groups:")][0]
            want = [] if daemon == "gossipd" else [str(grp.getgrnam("_triumvir").gr_gid)]
            assert held == want, (daemon, held)


def test_who_asked():
    """The log of a node says who has asked it for what changes the cluster, and the next node's from where it came."""
    with Cluster("127.60.49") as c:
        servers = c.servers(3)
        leader = c.formed(servers)
        n = next(s for s in servers if s is not leader)
        uid = os.geteuid()

        def lines(node):
            return [l.split("] ", 1)[1] for l in node.log("rpcd").splitlines() if "requested by" in l]

        r = n.put("/v1/operator/autopilot/configuration?cas=0", "{}", unix=True)
        assert r.status == 200, r
        wait_for("the line of the socket", lambda: "http: PUT /v1/operator/autopilot/configuration requested by uid %d on "
                 "rpcd.sock" % uid in lines(n))
        r = n.delete("/v1/operator/raft/peer?id=1c3b2a7e-0000-4000-8000-000000000000&token=s3cret")
        wait_for("the line of TCP", lambda: any(l.startswith("http: DELETE /v1/operator/raft/peer requested by 127.")
                                                for l in lines(n)))
        wait_for("the leader's line", lambda: any(
            l.startswith("rpc: Operator.AutopilotSetConfiguration requested by the rpcd at 127.") for l in lines(leader)))
        key = base64.b64encode(bytes(32)).decode()
        r = n.http("POST", "/v1/operator/keyring", {"Key": key})
        wait_for("the line of the key", lambda: any(l.startswith("http: POST /v1/operator/keyring requested by 127.")
                                                    for l in lines(n)))
        n.put("/v1/agent/force-leave/nobody", unix=True)
        n.put("/v1/snapshot", b"no archive", unix=True)
        for what in ("/v1/agent/force-leave/nobody", "/v1/snapshot"):
            wait_for(what, lambda: any("PUT %s requested by uid %d on rpcd.sock" % (what, uid) in l for l in lines(n)))
        n.kv_put("quiet", "1")
        n.get("/v1/operator/raft/configuration")
        assert not any("GET" in l or "kv" in l for l in lines(n)), lines(n)
        assert "s3cret" not in n.log("rpcd") and key not in n.log("rpcd")


def other_keys(c, name):
    path = os.path.join(c.dir, name)
    os.mkdir(path, 0o700)
    c.nodes["n1"].ctl("keygen", path)
    return path


def test_impostors():
    """Gossip authorises nothing: who has only a client's secret, other secrets or none gets no seat and no data."""
    with Cluster("127.60.46") as c:
        servers = c.servers(3)
        c.formed(servers)
        servers[0].kv_put("secret", "x")
        theirs = other_keys(c, "theirs")
        # A stolen client: the cluster key is right, the server key is not.  It may gossip, and that is all.
        thief = c.add("thief", 5, retry_join=[servers[0].addr], server_key=theirs + "/server.key",
                      server_pub=theirs + "/server.pub").start()
        wait_for("the thief is a member", lambda: servers[0].members().get("thief") == 1)
        wait_for("the leader refuses its link", lambda: any(
            thief.addr in line for n in servers for line in n.log("raftd").splitlines()))
        # A client trusts the servers' public key, whatever gossip says about who is a server.
        client = c.client("c1", 6, servers[0])
        wait_for("the client is served", lambda: client.kv_get("secret") == b"x")
        for i in range(20):
            client.kv_put("k%d" % i, "y")
        names = {s["Node"] for s in servers[0].get("/v1/operator/raft/configuration").json()["Servers"]}
        assert names == {"n1", "n2", "n3"}, names
        r = thief.up().get("/v1/kv/secret?stale", timeout=30)
        assert r.status != 200, r
        # Another cluster key, and none at all: not even members.
        stranger = c.add("stranger", 7, server=False, retry_join=[servers[0].addr],
                         cluster_key=theirs + "/cluster.key").start()
        plain = c.add("plain", 8, server=False, retry_join=[servers[0].addr], cluster_key=c.dir + "/none",
                      server_pub=c.dir + "/none.pub").start()
        for node, d in ((stranger, "gossipd"), (plain, "gossipd")):
            wait_for(node.name + " fails to join", lambda: "retry_join" in node.log(d) and
                     ("WARN" in node.log(d) or "ERR" in node.log(d)))
        assert not {"stranger", "plain"} & set(servers[0].members()), servers[0].members()
        for node in (stranger, plain):
            wait_for(node.name + " knows itself only", lambda: node.members() == {node.name: 1})


main(test_impostors, test_from_inside, test_users_and_capabilities, test_secrets_do_not_leak,
     test_secrets_stay_where_they_are_used, test_malformed_frames_close_the_channel_only, test_strangers_are_refused,
     test_a_list_for_each_socket, test_who_asked)
