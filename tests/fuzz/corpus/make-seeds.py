#!/usr/bin/env python3
"""Writes the seeds that can be computed.  Run in tests/fuzz/corpus; the result is committed."""
import gzip
import hashlib
import json
import os
import struct


def seed(target, name, data):
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, name), "wb") as f:
        f.write(data)


def frame(type_, flags, id_, body):
    return struct.pack("<IHHQ", len(body), type_, flags, id_) + body


HELLO = b"\x94\x01\xa5rpcd\x00\xa1b\xa1c"

# msgpack: every form once, nesting, lengths that lie
SCALARS = [b"\xc0", b"\xc2", b"\xc3", b"\x7f", b"\xe0", b"\xcc\xff", b"\xcd\xff\xff", b"\xce" + b"\xff" * 4,
           b"\xcf" + b"\xff" * 8, b"\xd0\x80", b"\xd1\x80\x00", b"\xd2\x80\x00\x00\x00", b"\xd3\x80" + b"\x00" * 7,
           b"\xca\x3f\x80\x00\x00", b"\xcb\x3f\xf0" + b"\x00" * 6, b"\xa3abc", b"\xd9\x03abc", b"\xda\x00\x03abc",
           b"\xdb\x00\x00\x00\x03abc", b"\xc4\x03abc", b"\xc5\x00\x03abc", b"\xc6\x00\x00\x00\x03abc"]
seed("mpack", "all-in-array", b"\xdc" + struct.pack(">H", len(SCALARS)) + b"".join(SCALARS))
seed("mpack", "map", b"\x83\xa1a\x01\xa1b\x92\xc0\xc3\xa1c\xdf\x00\x00\x00\x01\xa1d\xdd\x00\x00\x00\x00")
seed("mpack", "nested-30", b"\x91" * 30 + b"\xc0")
seed("mpack", "nested-31-empty", b"\x91" * 31 + b"\x80")
seed("mpack", "nested-200", b"\x91" * 200 + b"\xc0")
seed("mpack", "ext", b"\x93\xd4\x01x\xc7\x02\x05xy\xc9\x00\x00\x00\x01\x07z")
seed("mpack", "array-4g", b"\xdd\xff\xff\xff\xff\x01\x02")
seed("mpack", "map-4g", b"\xdf\xff\xff\xff\xff\x01\x02")
seed("mpack", "str-4g", b"\xdb\xff\xff\xff\xffabc")
seed("mpack", "bad-c1", b"\x92\xc1\x01")

# frames: first byte is how they are cut and how often the reader pauses
THREE = frame(1, 0, 0, HELLO) + frame(32, 0, 7, b"x" * 300) + frame(32, 5, 8, b"")
for cut in range(8):
    seed("frame", "three-cut-%d" % cut, bytes([cut | (cut % 4) << 6]) + THREE)
seed("frame", "4g", b"\x00" + b"\xff\xff\xff\xff" + b"\x00" * 12)
seed("frame", "negative", b"\x02" + b"\x00\x00\x00\x80" + b"\x00" * 12)
seed("frame", "one-above", b"\x00" + struct.pack("<IHHQ", 4097, 1, 0, 1) + b"y" * 4097)
seed("frame", "largest", b"\x07" + frame(1, 0, 1, b"y" * 4096) + THREE)
seed("frame", "handler-error", b"\x00" + THREE + frame(0xdead, 0, 1, b"") + THREE)
seed("frame", "noise-preamble", b"\x00TVn1\x01\x01\x01" + b"k" * 8 + b"\x30\x00" + b"m" * 48)

# noise: first byte chooses the part, see fuzz_noise.c
PREAMBLE = b"TVn1\x01\x01\x01"
seed("noise", "preamble-unknown-key", b"\x00" + PREAMBLE + b"k" * 8 + b"\x30\x00" + b"m" * 48)
seed("noise", "clear-frames", b"\x00" + THREE)
seed("noise", "tls", b"\x00\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
seed("noise", "http", b"\x80GET / HTTP/1.1\r\n\r\n")
for bit, name in ((0, "nn"), (0x80, "nk")):
    seed("noise", "message1-" + name, bytes([1 | bit]) + bytes(range(32)) + b"t" * 16)
    seed("noise", "message1-low-order-" + name, bytes([1 | bit]) + bytes(48))
    seed("noise", "message2-" + name, bytes([2 | bit]) + bytes(range(32)) + b"t" * 17)
    seed("noise", "transport-" + name, bytes([3 | bit]) + b"\x10\x00" + b"t" * 16 + b"\x00\x00")
    seed("noise", "transport-long-" + name, bytes([3 | bit]) + b"\xff\xff" + b"t" * 500)
    seed("noise", "sealed-frames-" + name, bytes([4 | bit]) + THREE)
    seed("noise", "sealed-4g-" + name, bytes([4 | bit]) + THREE + b"\xff" * 16)

# gossip: the vectors of real peers; the first byte is explained in fuzz_gossip_packet.c and fuzz_gossip_stream.c
with open("../../data/serf-vectors.json") as f:
    VECTORS = json.load(f)
for v in VECTORS:
    data, kind, decoded = bytes.fromhex(v["hex"]), v["kind"], v.get("decoded") or {}
    flags = (1 if "label" in decoded else 0) | (2 if "encryption" in decoded else 0)
    plain = bytes.fromhex(decoded.get("encryption", {}).get("plain", ""))
    if kind.endswith("packet"):
        seed("gossip_packet", v["name"], bytes([flags]) + data)
        if plain:
            seed("gossip_packet", v["name"] + "-open", bytes([flags | 4]) + plain)
    elif kind.endswith("stream"):
        side = 0 if "label" in decoded else 16
        if not decoded.get("encryption", {}).get("aad", "")[10:] or flags & 1:
            seed("gossip_stream", v["name"], bytes([flags | side]) + data)
        if plain:
            seed("gossip_stream", v["name"] + "-open", bytes([flags | side | 4]) + plain)
    elif kind == "serf-message":
        seed("gossip_packet", v["name"], b"\0\x08" + data)
    elif kind in ("decode-alive", "decode-ack"):
        seed("gossip_packet", v["name"], bytes([0, 4 if kind == "decode-alive" else 2]) + data)
    elif kind in ("decode-compound", "decode-compress"):
        seed("gossip_packet", v["name"], bytes([0, 7 if kind == "decode-compound" else 9]) + data)
    elif kind == "decode-pphdr":
        seed("gossip_stream", v["name"], b"\0\x06" + data)
    elif kind == "lzw" and len(data) < 1000:
        seed("lzw", v["name"], data)
seed("lzw", "empty", b"\x00\x03\x02")
seed("lzw", "no-clear", bytes.fromhex("61c48c0908"))
seed("lzw", "bad-code", bytes.fromhex("00c3b0040000"))

# raft messages: see raftd/core/wire.c; lists of them are explained in fuzz_raftmsg.c
def raft(kind, term, rest=b"", flags=0):
    return struct.pack("<BBBQQQ", 1, kind, flags, 2, 1, term) + rest


def raft_entries(*entries):
    out = struct.pack("<I", len(entries))
    for term, kind, payload in entries:
        out += struct.pack("<QBI", term, kind, len(payload)) + payload
    return out


def raft_append(term, index, log_term, commit, *entries):
    return raft(5, term, struct.pack("<QQQQQ", index, log_term, commit, index, 1) + raft_entries(*entries))


def raft_config(index, ids):
    out = struct.pack("<BQB", 1, index, len(ids))
    for i in ids:
        out += struct.pack("<QB", i, 1) + b"\0\0\0\0"
    return out


def raft_chunk(term, index, offset, total, data, flags=0):
    config = raft_config(1, (1, 2, 3))
    return raft(7, term, struct.pack("<QQQQQI", index, 2, offset, total, 9, len(config)) + config
                + struct.pack("<I", len(data)) + data, flags)


def raft_list(*items):
    return b"".join(struct.pack("<BH", how, len(m)) + m for how, m in items)


OP = (2, 1, b"payload")
RAFT = {
    "pre-vote": raft(1, 2, struct.pack("<QQ", 9, 1)), "pre-vote-reply": raft(2, 2, flags=1),
    "vote": raft(3, 2, struct.pack("<QQ", 9, 1), 2), "vote-reply": raft(4, 2, flags=1),
    "append": raft_append(2, 1, 1, 1, OP, OP), "heartbeat": raft_append(2, 0, 0, 1),
    "append-config": raft_append(2, 1, 1, 1, (2, 2, raft_config(2, (1, 2)))),
    "append-reply": raft(6, 2, struct.pack("<QQQQQQ", 2, 1, 1, 2, 0, 0), 1),
    "snapshot": raft_chunk(2, 9, 0, 5, b"state", 4), "snapshot-reply": raft(8, 2, struct.pack("<QQQQ", 9, 2, 9, 5), 5),
    "timeout-now": raft(9, 2, struct.pack("<QQ", 1, 1)), "read-index": raft(10, 2, struct.pack("<Q", 7)),
    "read-index-reply": raft(11, 2, struct.pack("<QQ", 7, 1), 1),
}
for name, m in RAFT.items():
    seed("raftmsg", name, m)
    seed("raftmsg", "fed-" + name, raft_list((2, m), (3, m), (6, m), (14, m)))
seed("raftmsg", "fed-log", raft_list(
    (2, raft_append(2, 1, 1, 1, OP, OP, OP)), (2, raft_append(2, 2, 2, 3)), (3, raft_append(3, 3, 2, 3, (3, 1, b"other"))),
    (3, RAFT["append-config"]), (2, RAFT["append"])))
seed("raftmsg", "fed-cut-committed", raft_list((2, raft_append(2, 1, 1, 4, OP, OP, OP)), (3, raft_append(3, 2, 3, 0))))
seed("raftmsg", "fed-snapshot", raft_list(
    (2, raft_append(2, 1, 1, 1, OP)), (2, raft_chunk(2, 9, 0, 10, b"state")), (2, raft_chunk(2, 9, 5, 10, b"after", 4)),
    (2, raft_append(2, 9, 2, 9, OP)), (2, raft_chunk(2, 5, 0, 5, b"state", 4))))
seed("raftmsg", "fed-elected", raft_list(
    (6, RAFT["pre-vote-reply"]), (10, RAFT["vote-reply"]), (10, RAFT["append-reply"]), (11, RAFT["append-reply"]),
    (14, RAFT["read-index"]), (10, RAFT["append-reply"]), (15, RAFT["snapshot-reply"])))
seed("raftmsg", "fed-nonsense", raft_list((2, raft_append(2 ** 64 - 1, 1, 1, 1)), (2, raft_append(2, 2 ** 64 - 2, 1, 1, OP, OP))))

# records: first byte is 2 * the op's place in the table, + 1 for its answer; then the two envelopes' numbers
def pack(v):
    if v is None:
        return b"\xc0"
    if isinstance(v, bool):
        return b"\xc3" if v else b"\xc2"
    if isinstance(v, int):
        return bytes([v]) if v < 128 else b"\xcf" + struct.pack(">Q", v)
    if isinstance(v, float):
        return b"\xcb" + struct.pack(">d", v)
    if isinstance(v, str):
        return b"\xd9" + bytes([len(v)]) + v.encode()
    if isinstance(v, bytes):
        return b"\xc4" + bytes([len(v)]) + v
    if isinstance(v, dict):
        return b"\xde" + struct.pack(">H", len(v)) + b"".join(pack(k) + pack(x) for k, x in v.items())
    return b"\xdc" + struct.pack(">H", len(v)) + b"".join(pack(x) for x in v)


OPS = 29        # a few more than there are does no harm: the number is taken modulo the table
KV = [7, "some/key", 42, b"value\x00\xff", "session-id", 12, 1 << 40]
SERVICE = ["web1", "web", ["a", "b"], "10.0.0.1", [["lan", "10.0.0.1", 80]], {"k": "v"}, 80, "", [1, 1], True, 3, 4]
SHAPES = {
    "nils": [None] * 30,
    "empty": [],
    "kv": KV,
    "texts": ["text"] * 30,
    "numbers": [1 << 63] * 30,
    "service": SERVICE,
    "nested": [[["x"] * 8, {"a": "b"}, [SERVICE, SERVICE], [KV]]] * 10,
    "register": ["id", "node", "127.0.0.1", "dc1", {"lan": "127.0.0.1"}, {"m": "1"}, SERVICE, None, [["n", "c", "check"]], True],
}
for name, shape in SHAPES.items():
    for what in range(0, 2 * OPS, 7 if name in ("nils", "texts", "numbers") else 11):
        seed("record", "%s-%d" % (name, what), bytes([what]) + pack(shape))
seed("record", "kv-apply", b"\x06" + pack([1, "key", 0, b"v", 0, "", 5]))
REQUEST = [1, "dc1", 0, 5, 1000, 0, "token", ["key", "/"]]
REPLY = [0, "", 7, True, 3, [KV]]
for what in range(0, 256, 1):
    if what % 29 == 0:
        seed("record", "request-%d" % what, bytes([what]) + pack(REQUEST))
        seed("record", "reply-%d" % what, bytes([what]) + pack(REPLY))
        seed("record", "member-%d" % what, bytes([what]) + pack(
            ["n1", b"\x7f\x00\x00\x01", 8301, 1, {"role": "server", "raft_port": "8300"}, 1, 5, 2, 2, 5, 5]))



# user events: name, NUL, payload
UUID = "00112233-4455-6677-8899-aabbccddeeff"
seed("event", "plain", b"deploy\x00v42")
seed("event", "empty", b"\x00")
seed("event", "announcement", b"consul:new-leader\x00n1")
seed("event", "envelope", b"consul:event:deploy\x00" + pack(
    {"ID": UUID, "n": "deploy", "p": b"v42", "nf": "^web", "sf": "api", "tf": "v[0-9]", "v": 1}))
seed("event", "envelope-odd", b"consul:event:x\x00" + pack(
    {"ID": "no uuid", "n": "consul:x", "p": None, "later": [1, {"a": "b"}], "v": 7}))
seed("event", "envelope-none", b"consul:event:\x00" + pack({"n": ""}))

# transactions: bodies, see fuzz_txn.c for what is there
def txn(name, *ops):
    seed("txn", name, json.dumps([{kind: body} for kind, body in ops]).encode())


def txn_kv(verb, key, **more):
    return "KV", dict(Verb=verb, Key=key, **more)


TXN_SESSION = "00000000-0000-4000-8000-000000000001"
txn("writes", txn_kv("set", "b", Value="MQ==", Flags=7), txn_kv("cas", "b", Index=4), txn_kv("cas", "c", Index=0),
    txn_kv("delete", "a"), txn_kv("delete-cas", "t/a", Index=1), txn_kv("delete-tree", "t/"))
txn("locks", txn_kv("unlock", "l", Session=TXN_SESSION), txn_kv("lock", "a", Session=TXN_SESSION, Value="eA=="))
txn("lock-held", txn_kv("lock", "l", Session="00000000-0000-4000-8000-000000000002"), txn_kv("lock", "l"))
txn("reads", txn_kv("get", "a"), txn_kv("get-tree", ""), txn_kv("check-index", "a", Index=1), txn_kv("check-not-exists", "z"),
    txn_kv("check-session", "l", Session=TXN_SESSION), ("Node", {"Verb": "get", "Node": {"Node": "n"}}),
    ("Service", {"Verb": "get", "Node": "n", "Service": {"ID": "web"}}), ("Check", {"Verb": "get", "Check": {"Node": "n", "CheckID": "c"}}))
txn("undone", txn_kv("delete-tree", ""), ("Node", {"Verb": "delete", "Node": {"Node": "n"}}), txn_kv("get", "a"))
txn("nodes", ("Node", {"Verb": "set", "Node": {"Node": "m", "ID": TXN_SESSION, "Address": "b", "Meta": {"k": "v"}}}),
    ("Node", {"Verb": "set", "Node": {"Node": "o", "ID": TXN_SESSION, "Address": "b"}}),
    ("Node", {"Verb": "delete-cas", "Node": {"Node": "n", "ModifyIndex": 1}}))
txn("services", ("Service", {"Verb": "cas", "Node": "n", "Service": {"ID": "web", "Service": "www", "ModifyIndex": 1,
    "TaggedAddresses": {"lan": {"Address": "x", "Port": 1}}}}), ("Check", {"Verb": "cas", "Check": {"Node": "n", "CheckID": "c",
    "Status": "critical", "ModifyIndex": 1, "Definition": {"Interval": "10s", "Header": {"a": ["b"]}}}}),
    ("Service", {"Verb": "delete", "Node": "n", "Service": {"Service": "web"}}))
txn("verbs", txn_kv("GET", "a"), txn_kv("", ""), ("Node", {"Verb": "x"}), ("Service", {}), ("Check", None))
seed("txn", "null", b" null ")
seed("txn", "two-kinds", b'[{"KV":{"Verb":"get"},"Node":{}},{}]')
seed("txn", "base64", b'[{"KV":{"Verb":"set","Key":"\\u0000\\u00ff","Value":"*"}}]')
seed("txn", "many", b"[" + b"{}," * 64 + b"{}]")

# prepared queries: a name, and the body
def query(name, asked, service, **more):
    seed("query", name, asked.encode() + b"\n" + json.dumps(dict({"Name": "q", "Service": service}, **more)).encode())


def template(regexp="", **more):
    return dict({"Type": "name_prefix_match", "Regexp": regexp}, **more)


query("plain", "q", {"Service": "web", "Tags": ["a", "!b"], "OnlyPassing": True, "Failover": {"NearestN": 2, "Datacenters": ["x"]}},
      DNS={"TTL": "10s"})
query("ignored", "Q", {"Service": "WEB", "IgnoreCheckIDs": ["c"], "Near": "_agent", "NodeMeta": {"a": "b"}, "Connect": True})
query("template", "q-db-eu", {"Service": "${match(1)}-${name.full}", "Tags": ["${name.suffix}", "$${x", "${match(1+2*3%4)}"],
      "NodeMeta": {"k": "${name.prefix}"}, "Near": "${\"${agent.segment}_ip\"}"},
      Template=template("^q-(.*?)-([^-]+)$", RemoveEmptyTags=True))
query("budget", "q" + "x" * 60 + "!", {"Service": "s"}, Template=template("^q(x+)+$"))
query("nested", "q", {"Service": "${" + "match(" * 40}, Template=template())
query("long", "q" * 200, {"Service": "${name.full}" * 50}, Template=template())
query("refused", "q", {"Service": "", "Failover": {"NearestN": -1}}, DNS={"TTL": "-1s"}, Session=TXN_SESSION, Token="<hidden>")

# state machine: entries, and states to restore; first byte as in fuzz_state.c
def op(code, args, how=1):
    body = pack(args)
    return bytes([code, how]) + struct.pack(">H", len(body)) + body


UUID = "00000000-0000-4000-8000-000000000001"
NODE = ["", "n", "10.0.0.1", "", {"lan": "10.0.0.1"}, {"k": "v"}, False]
SERVICE = ["web1", "web", ["a", "b"], "", None, None, 80]
CHECK = ["", "c", "c", "passing", "", "", "web1"]
SETUP = op(20, NODE + [SERVICE, CHECK, None]) + op(10, ["", "s", "n", 15 * 10**9, "delete", "30s", []])
READS = (op(1, ["a/b", ""]) + op(2, ["a", ""]) + op(3, ["", "/"]) + op(13, [UUID, "n"]) + op(14, [UUID, "n"]) +
         op(15, []) + op(22, ["", None, {"k": "v"}]) + op(23, []) + op(24, ["WEB", ["A"]]) + op(25, ["n"]) +
         op(30, ["n"]) + op(31, ["web"]) + op(32, ["web", None, None, True]) + op(33, ["any"]))
LOCK = op(4, [2, "a/b", 7, b"v", 0, UUID])
seed("state", "kv", b"\x00" + op(4, [0, "a/b", 7, b"v"]) + op(4, [1, "a/b", 0, b"w", 1]) + op(4, [4, "a/b"]) + READS +
     op(4, [6, ""]) + op(60, ["", 10**18]))
seed("state", "lock", b"\x00" + SETUP + LOCK + READS + op(4, [3, "a/b", 7, b"v", 0, UUID]) + LOCK + op(11, [UUID]) + LOCK)
seed("state", "node-goes", b"\x00" + SETUP + LOCK + op(21, ["N"]) + READS)
seed("state", "parts-go", b"\x00" + SETUP + op(21, ["n", "", "web1"]) + op(21, ["n", "", "", "c"]) + READS)
seed("state", "rename", b"\x00" + op(20, [UUID] + NODE[1:]) + op(20, [UUID, "m"] + NODE[2:]) + READS + op(61, [UUID]))
COORD = [[0.5, -0.25] + [0.0] * 6, 1.5, 0.0, 1e-5]
BAD = [[float("nan")] * 8, 1.5, 0.0, 1e-5]
NEAR = (op(22, ["", None, None, False, "n"]) + op(24, ["web", None, None, False, "N"]) + op(31, ["web", None, None, False, "n"]) +
        op(32, ["web", None, None, True, "", "10.0.0.1"]) + op(33, ["any", None, None, False, "n"]) + op(51, []) + op(52, ["n", "s", True]))
seed("state", "coordinates", b"\x00" + SETUP + op(62, [[["n", "", COORD], ["n", "s", COORD], ["n", "", BAD], ["m", "", COORD]]]) +
     NEAR + op(62, [[["n", "", [[1.0], 0.0, 0.0, 0.0]]]], 0) + op(21, ["n"]) + NEAR)
# Access control: it begins; a policy, a role, a token with both; reads of each; the end of all; and what nobody prepared.
ACL = op(117, [b"k" * 32, 0], 0)
ACL_READS = op(104, [UUID]) + op(105, ["anonymous"]) + op(106, []) + op(109, [UUID]) + op(109, ["", "p"]) + op(110, []) + \
    op(113, ["", "r"]) + op(114, []) + op(115, ["key \"a\" { policy = \"read\" }"]) + op(116, [])
ACL_LINKS = [["", "", "d", [["", "p"], [UUID]], [["", "r"]], [["web", ["dc1"]], ["web"]], [["n", "dc1"]]], False, "", 0]
seed("state", "acl", b"\x00" + ACL + op(107, [["", "p", "", "key \"a\" { policy = \"read\" }"]]) + op(111, [["", "r", "", [["", "p"]]]]) +
     op(101, ACL_LINKS) + ACL_READS + op(102, [[], False, UUID]) + op(100, []) + op(100, [1]) + op(103, [UUID, "x"]) + op(108, [UUID]) +
     op(112, [UUID]) + ACL_READS + op(118, [1 << 60]) + op(118, []))
seed("state", "acl-unprepared", b"\x00" + ACL +
     op(101, [[UUID, "s", "", [], [], [], [], False, "m", "x", 5, "c", b"h", 1, 1, 1 << 62], True, "", 0], 0) +
     op(102, [[UUID[:-1] + "2", "t"], True, UUID, 1 << 62], 0) + op(118, [7], 0) + op(107, [[UUID, "x" * 200]], 0) +
     op(100, [0, [UUID, "u"]], 0) + op(100, [0, ["x"]], 0) + ACL_READS)
seed("state", "unprepared", b"\x00" + op(20, ["", "n"], 0) + op(10, ["x", "", "n"], 0) + op(4, [9, "k"], 0) + READS)


def stored(key, val):
    return bytes([len(key)]) + struct.pack(">H", len(val)) + key + val


def parts(*names):
    return b"".join(n + b"\0\x01" for n in names)


seed("state", "restore-sound", b"\x01" + stored(b"C" + parts(b"n", b"c"), pack(["n", "c", "c", "passing"])) +
     stored(b"Kk", pack([0, "k", 0, b"v", "", 1, 1])) + stored(b"N" + parts(b"n"), pack(["", "n", "a"])) +
     stored(b"P" + parts(b"web", b"n", b"w1"), b"") + stored(b"S" + parts(b"n", b"w1"), pack(["w1", "web"])) +
     stored(b"V" + parts(b"web"), struct.pack(">QQ", 1, 1)) + stored(b"X" + UUID.encode(), pack([UUID, "", "n"])))
seed("state", "restore-instance-without-service", b"\x01" + stored(b"P" + parts(b"web", b"n", b"w1"), b""))
seed("state", "restore-coordinates", b"\x01" + stored(b"G" + parts(b"m", b""), pack(["m", "", COORD])) +
     stored(b"G" + parts(b"n", b""), pack(["n", "", BAD])) + stored(b"N" + parts(b"n"), pack(["", "n", "a"])))
seed("state", "restore-key-torn", b"\x01" + stored(b"P" + b"web\0\x01n", b"") + stored(b"T", b"x") + stored(b"U", b""))
seed("state", "restore-kv-other-key", b"\x01" + stored(b"Ka", pack([0, "b", 0, b"", UUID, 1, 1])) + stored(b"Kb", b"\xc1"))
seed("state", "restore-out-of-order", b"\x01" + stored(b"Kb", b"") + stored(b"Ka", b""))


# gossip_core: steps, see fuzz_gossip_core.c
def mp(v):
    if isinstance(v, bool):
        return b"\xc3" if v else b"\xc2"
    if v is None:
        return b"\xc0"
    if isinstance(v, int):
        return bytes([v]) if v < 128 else b"\xce" + struct.pack(">I", v) if v < 1 << 32 else b"\xcf" + struct.pack(">Q", v)
    if isinstance(v, bytes):
        return (bytes([0xA0 | len(v)]) if len(v) < 32 else b"\xda" + struct.pack(">H", len(v))) + v
    if isinstance(v, list):
        return bytes([0x90 | len(v)]) + b"".join(mp(x) for x in v)
    return bytes([0x80 | len(v)]) + b"".join(mp(k.encode()) + mp(x) for k, x in sorted(v.items()))


VSN = b"\x01\x05\x02\x02\x05\x05"
PING, INDIRECT, ACK, SUSPECT, ALIVE, DEAD, USER, NACK = 0, 1, 2, 3, 4, 5, 8, 11
WAIT5, WAIT60, LEAVE = b"\x01\x05", b"\x01\x3c", b"\x07"


def msg(kind, body, serf=None):
    body = (bytes([serf]) if serf is not None else b"") + mp(body)
    return bytes([0, kind, len(body)]) + body


def alive(name, inc, last=5, meta=None):
    return msg(ALIVE, {"Addr": bytes([10, 0, 0, last]), "Incarnation": inc, "Meta": meta, "Node": name, "Port": 7946, "Vsn": VSN})


def accuse(kind, name, inc, by):
    return msg(kind, {"From": by, "Incarnation": inc, "Node": name})


def intent(kind, name, ltime, **more):
    return msg(USER, dict({"LTime": ltime, "Node": name}, **more), kind)


def exchange(op, nodes, left=(), statuses=None):
    state = b"\x02" + mp({"EventLTime": 1, "Events": [], "LTime": 9, "LeftMembers": list(left), "QueryLTime": 1})
    state = bytes([0x02, 0x86]) + state[2:] + mp(b"StatusLTimes") + mp({k: v for k, v in (statuses or {}).items()})
    body = b"\x06" + mp({"Join": True, "Nodes": len(nodes), "UserStateLen": len(state)})
    for name, last, inc, st in nodes:
        body += mp({"Addr": bytes([10, 0, 0, last]), "Incarnation": inc, "Meta": None, "Name": name, "Port": 7946,
                    "State": st, "Vsn": VSN})
    body += state
    return bytes([op]) + struct.pack(">H", len(body)) + body


seed("gossip_core", "life", alive(b"a", 1) + alive(b"b", 1, 6) + WAIT5 + accuse(SUSPECT, b"a", 1, b"b") + WAIT60 +
     accuse(DEAD, b"b", 1, b"b") + alive(b"b", 2, 7) + intent(0, b"a", 5, Prune=False) + accuse(DEAD, b"a", 1, b"a") + WAIT60)
seed("gossip_core", "about-us", accuse(SUSPECT, b"me", 1, b"x") + accuse(DEAD, b"me", 1 << 31, b"x") +
     accuse(DEAD, b"me", (1 << 32) - 1, b"x") + alive(b"me", 9, 1) + alive(b"me", 9, 2) + intent(0, b"me", 7, Prune=True) + WAIT5)
seed("gossip_core", "probes", msg(PING, {"Node": b"me", "SeqNo": 7}) +
     msg(INDIRECT, {"Nack": True, "Node": b"t", "Port": 1, "SeqNo": 9, "Target": b"\x0a\x00\x00\x63"}) + WAIT5 + alive(b"a", 1) +
     b"\x01\x0f" + msg(ACK, {"Payload": None, "SeqNo": 2}) + WAIT60 + msg(NACK, {"SeqNo": 3}) + b"\x05" + WAIT60)
seed("gossip_core", "prune", alive(b"a", 1) + intent(0, b"a", 5, Prune=True) + intent(1, b"a", 6) + WAIT60 +
     b"\x08\x81a" + WAIT60 + b"\x02\xff" + b"\x02\xff")
seed("gossip_core", "exchange", exchange(3, [(b"a", 5, 1, 0), (b"b", 6, 2, 1), (b"c", 7, 1, 3), (b"me", 1, 4, 2)], [b"c"],
     {"a": 3, "c": 4, "z": 5}) + WAIT60 + b"\x06\x05" + exchange(4, [(b"a", 5, 9, 0)]) + WAIT60)
seed("gossip_core", "leave", alive(b"a", 1) + b"\x09\x00\x02\xff\x80" + WAIT5 + LEAVE + WAIT60 + WAIT60)
seed("gossip_core", "sleep", b"".join(alive(b"m%d" % i, 1, 20 + i) for i in range(30)) + WAIT60 + b"\x02\xff" + WAIT60)
seed("gossip_core", "events", msg(USER, {"CC": True, "LTime": 5, "Name": b"e", "Payload": b"p"}, 3) +
     msg(USER, {"Addr": b"\x0a\x00\x00\x05", "Filters": None, "Flags": 1, "ID": 1, "LTime": 2, "Name": b"q", "Payload": None,
                "Port": 1, "RelayFactor": 0, "SourceNode": b"a", "Timeout": 5}, 4) + intent(1, b"who", 3) + alive(b"who", 1))


def long_msg(body, serf, rest=b""):
    body = bytes([serf]) + mp(body) + rest
    return bytes([10, USER]) + struct.pack(">H", len(body)) + body


def event(ltime, name, payload=None):
    return msg(USER, {"CC": True, "LTime": ltime, "Name": name, "Payload": payload}, 3)


def query(ltime, name, payload=None, flags=1, filters=None, relay=0, last=5, source=b"a"):
    return long_msg({"Addr": bytes([10, 0, 0, last]), "Filters": filters, "Flags": flags, "ID": 7, "LTime": ltime,
                     "Name": name, "Payload": payload, "Port": 7946, "RelayFactor": relay, "SourceNode": source,
                     "Timeout": 1 << 33}, 4)


def fire(name, payload=b""):
    return bytes([11, 128 | len(name)]) + name + struct.pack(">H", len(payload)) + payload


def ask(name, payload=b"", flags=1, relay=0, timeout=0, filters=()):
    out = bytes([12, flags | len(filters) << 3, relay, timeout, len(name)]) + name + bytes([len(payload)]) + payload
    return out + b"".join(bytes([len(f)]) + f for f in filters)


def respond(payload):
    return b"\x0d" + struct.pack(">H", len(payload)) + payload


def reply(name, payload=b"", flags=0):
    return bytes([14, flags, len(name)]) + name + bytes([len(payload)]) + payload


POOL = b"".join(alive(b"%c" % (97 + i), 1, 5 + i) for i in range(6))
TAG = b"\x01" + mp({"Expr": b"^w.*[0-9]?$", "Tag": b"role"})
RECORD = b"\x06" + mp({"Addr": b"\x0a\x00\x00\x63", "Name": b"me", "Port": 7946, "Status": 1, "Tags": {}})
ANSWER = b"\x05" + mp({"Flags": 0, "From": b"a", "ID": 7, "LTime": 5, "Payload": b"x"})
seed("gossip_core", "fired", POOL + fire(b"e", b"p") + event(1, b"e", b"p") + event(9, b"f") + WAIT5 + event(600, b"g") +
     event(9, b"f") + event((1 << 63) + 5, b"x") + exchange(3, [(b"a", 5, 1, 0)]) + fire(b"big", b"x" * 3000) + WAIT60)
seed("gossip_core", "asked", POOL + ask(b"q", b"p") + WAIT5 + reply(b"a", b"1") + reply(b"a", b"2") + reply(b"b", b"", 1) +
     respond(b"mine") + ask(b"_serf_ping", filters=(b"\x00\x91\xa1a", TAG)) + WAIT60 + reply(b"c", b"3"))
seed("gossip_core", "queried", POOL + query(5, b"q", b"p", relay=2) + respond(b"yes") + query(5, b"q", b"p") +
     query(6, b"q", filters=[TAG]) + query(7, b"_serf_ping") + query(8, b"_serf_conflict", b"b") +
     query(9, b"_serf_use-key", b"\x07" + mp({"Key": b"k" * 32})) + respond(b"no") + query(10, b"_serf_list-keys", last=99) +
     long_msg({"DestAddr": {"IP": b"\x0a\x00\x00\x06", "Port": 7946, "Zone": b""}, "DestName": b"b"}, 9, ANSWER) + WAIT60)
seed("gossip_core", "voted", POOL + alive(b"me", 9, 99) + WAIT5 + b"".join(reply(b"%c" % (97 + i), RECORD) for i in range(6)) +
     WAIT60 + alive(b"me", 9, 99) + WAIT60 + WAIT60)

# Archives of /v1/snapshot: tars, plain (1) and packed (0).


def state_bin(records, index=5):
    out = b"TVSNAP1\n" + struct.pack(">IQQ", 1, index, 1)
    for k, v in records:
        out += struct.pack(">II", len(k), len(v)) + k + v
    out += struct.pack(">IIQ", 0, 0, len(records))
    return out + hashlib.blake2b(out, digest_size=32).digest()


def tar(files):
    out = b""
    for name, body, size in files:
        head = bytearray(512)
        head[:len(name)] = name
        head[100:107] = b"0000600"
        head[124:135] = b"%011o" % size
        head[148:156] = b" " * 8
        head[156] = ord("0")
        head[257:265] = b"ustar\x0000"
        head[148:155] = b"%06o\0" % sum(head)
        out += bytes(head) + body + bytes(-len(body) % 512)
    return out


def sums(**files):
    return b"".join(b"%s  %s\n" % (hashlib.sha256(v).hexdigest().encode(), k.encode()) for k, v in files.items())


COUNTS = b"\x08" + bytes(64) + b"\x07" + bytes(56) + b"\x02" + bytes(16)
STATE = state_bin([(b"Astate", b"\x03" + struct.pack(">QQ", 5, 1) + COUNTS),
                   (b"Kkey", pack([0, "key", 0, b"value", "", 3, 5])), (b"Tgone", struct.pack(">QQ", 9, 4))])
SUMS = sums(**{"meta.json": b"{}", "state.bin": STATE})
WHOLE = tar([(b"meta.json", b"{}", 2), (b"state.bin", STATE, len(STATE)), (b"SHA256SUMS", SUMS, len(SUMS))])
seed("archive", "whole", b"\x01" + WHOLE + bytes(1024))
seed("archive", "packed", b"\x00" + gzip.compress(WHOLE, mtime=0))
seed("archive", "trailing", b"\x00" + gzip.compress(WHOLE, mtime=0) + b"more")
seed("archive", "cut", b"\x01" + WHOLE[:1200])
seed("archive", "twice", b"\x01" + tar([(b"meta.json", b"{}", 2)] * 2))
seed("archive", "path", b"\x01" + tar([(b"../meta.json", b"{}", 2)]))
seed("archive", "large", b"\x01" + tar([(b"state.bin", b"", 1 << 32)]))
seed("archive", "foreign", b"\x01" + tar([(b"state.bin", bytes(300), 300)]))

# the key ring's files
K32, K24, K16 = ("QUFB" * 10 + "QUE=", "QUFB" * 8, "QUFBQUFBQUFBQUFBQUFBQQ==")
seed("keyring", "one", ('["%s"]' % K32).encode())
seed("keyring", "three", ('[\n  "%s",\n  "%s",\n  "%s"\n]\n' % (K32, K24, K16)).encode())
seed("keyring", "none", b"[]")
seed("keyring", "open", b'["')
seed("keyring", "twice", ('["%s","%s"]' % (K16, K16)).encode())
seed("keyring", "after", ('["%s"] x' % K16).encode())
seed("keyring", "seen", b"# Ids of the keys that this node has held.\n" + b"".join(b"%016x\n" % i for i in range(70)))

# checks.json
CHECK = {"CheckID": "web", "Name": "the web", "Notes": "n", "Output": "ok", "Status": "passing", "ServiceID": "web1",
         "TTL": "10s", "DeregisterCriticalServiceAfter": "1m0s"}
seed("checks", "one", json.dumps([CHECK]).encode())
seed("checks", "states", json.dumps([dict(CHECK, CheckID=s, Status=s) for s in ("passing", "warning", "critical")]).encode())
seed("checks", "twice", json.dumps([CHECK, CHECK]).encode())
seed("checks", "wrong", json.dumps([dict(CHECK, Status="fine"), dict(CHECK, CheckID=""), dict(CHECK, TTL=-1), 7, None]).encode())
seed("checks", "text", json.dumps([dict(CHECK, Name="\u0000\ud83d\ude00\"\\\n", Output="x" * 300)]).encode())
seed("checks", "many", json.dumps([dict(CHECK, CheckID=str(i)) for i in range(40)]).encode())
SERVICE = {"Service": {"ID": "db1", "Service": "db", "Tags": ["a"], "Port": 80, "Meta": {"k": "v"}, "EnableTagOverride": True,
                       "TaggedAddresses": {"lan": {"Address": "10.0.0.1", "Port": 80}}}, "Token": "t"}
seed("checks", "services", json.dumps([{"Version": 2}, SERVICE, SERVICE, {"Service": {}}, dict(CHECK, ServiceID="db1", Token="t", Type="http")]).encode())
seed("checks", "no-list", b"{}")
seed("checks", "nested", b"[" * 200 + b"]" * 200)

# definitions of services
seed("definition", "full", json.dumps({
    "ID": "web1", "Name": "web", "Tags": ["a", "b"], "Meta": {"k": "v"}, "Address": "10.5.0.1", "Port": 80, "Token": "t",
    "Weights": {"Passing": 4, "Warning": 2}, "EnableTagOverride": True, "TaggedAddresses": {"lan": {"Address": "10.5.0.2", "Port": 81}},
    "Check": {"TTL": "1h", "Status": "passing", "Notes": "n"},
    "Checks": [{"TTL": "2s", "DeregisterCriticalServiceAfter": "90m"}, {"CheckID": "x", "Name": "y", "TTL": 3000000000}]}).encode())
seed("definition", "proxy", json.dumps({
    "id": "p", "name": "p", "kind": "connect-proxy", "port": 20000, "proxy": {
        "destination_service_name": "web", "destination_service_id": "w1", "local_service_port": 9, "mode": "direct",
        "config": {"a": 0.1, "b": [None, True, {"c": "\u00e9"}]}, "mesh_gateway": {"mode": "local"},
        "transparent_proxy": {"outbound_listener_port": 1},
        "expose": {"checks": True, "paths": [{"path": "/m", "listener_port": 21600, "local_path_port": 8080, "protocol": "http2"}]},
        "upstreams": [{"destination_name": "db", "local_bind_port": 9191, "config": {"x": 1e21}},
                      {"destination_type": "prepared_query", "destination_name": "q", "local_bind_socket_path": "/s"}]}}).encode())
seed("definition", "gateway", b'{"Name":"g","Kind":"mesh-gateway","Port":1,"Address":"::1","Connect":{"Native":true}}')
seed("definition", "refused", b'{"Name":"w","Check":{"Args":["id"],"Interval":"1s"}}')
seed("definition", "sidecar", b'{"Name":"w","Connect":{"SidecarService":{"Connect":{"SidecarService":{}}}}}')
seed("definition", "twice", b'{"Name":"w","Checks":[{"TTL":"1s","ID":"c"},{"TTL":"2s","ID":"c"}],"Connect":{}}')

# records of the Raft log; fuzz_raftlog.c puts magic, checksum and number right
UUID = b"4e36aa90-0000-4000-8000-000000000001"


def log_record(what, seq, kind, body):
    record = b"TVL1" + bytes(4) + struct.pack(">QB", seq, kind) + body
    return struct.pack(">BH", what, len(record)) + record


def log_state(seq, last, cut, snap=0, what=6):
    return log_record(what, seq, 1, struct.pack(">QQB", 3, 9, 36) + UUID + b"\x24" + UUID +
                      struct.pack(">QQQQQ", 1, last, cut, snap, 1 if snap else 0))


def log_batch(first, sizes, truncate=None, hard=False, what=6):
    flags = (1 if hard else 0) | (4 if truncate else 0)
    body = bytes([flags]) + (struct.pack(">QQ", 4, 9) if hard else b"") + (struct.pack(">Q", truncate) if truncate else b"")
    body += struct.pack(">QI", first, len(sizes))
    return log_record(what, 0, 2, body + b"".join(struct.pack(">QBI", 4, 1, n) + b"x" * n for n in sizes))


def log_position(reset, cut, snap):
    return log_record(6, 0, 3, struct.pack(">BQQQ", reset, cut, snap, 3))


seed("raftlog", "life", log_state(1, 0, 0) + log_batch(1, [5, 0, 9], hard=True) + log_batch(4, [1]) + log_position(0, 2, 2) +
     log_batch(5, [3, 3]) + log_state(0, 6, 2, 2, what=7) + log_batch(7, [2], what=6))
seed("raftlog", "cut-tail", log_state(1, 0, 0) + log_batch(1, [1] * 9) + log_batch(5, [2, 2], truncate=5) +
     log_batch(0, [], truncate=1) + log_batch(1, [4]))
seed("raftlog", "reset", log_state(1, 9, 3, 3) + log_batch(10, [1]) + log_position(1, 50, 50) + log_batch(51, [1, 1]) +
     log_record(6, 0, 4, b"\x24" + UUID + struct.pack(">Q", 2)))
seed("raftlog", "middle", log_batch(100, [1, 2]) + log_batch(102, [3]) + log_state(3, 102, 99))
seed("raftlog", "largest", log_state(1, 0, 0) + log_position(1, (1 << 64) - 3, 5) + log_batch((1 << 64) - 2, [1, 1, 1]))
seed("raftlog", "state-largest", log_state(1, (1 << 64) - 1, (1 << 64) - 2) + log_batch(0, []) + log_batch(1, [1]))
seed("raftlog", "torn", log_state(1, 0, 0)[:40])
seed("raftlog", "wrong-sum", log_state(1, 0, 0, what=0))

# what is said about snapshots
seed("snapmeta", "install-empty", b"\x00\x93\x07\x01\xc4\x00")
seed("snapmeta", "install-sum", b"\x00\x94\x07\x01\xc4\x00\xcf" + bytes(8))


def snap(records, count=None):
    body = b"TVSNAP1\n" + struct.pack(">IQQ", 1, 7, 2)
    body += b"".join(struct.pack(">II", len(k), len(v)) + k + v for k, v in records)
    return b"\x01" + body + bytes(8) + struct.pack(">Q", len(records) if count is None else count) + bytes(32)


seed("snapmeta", "stream-empty", snap([]))
seed("snapmeta", "stream-records", snap([(b"\x01a", b"b" * 20), (b"\x02", b"")]))
seed("snapmeta", "stream-count", snap([(b"\x01a", b"b")], 2))
seed("snapmeta", "stream-length", b"\x01TVSNAP1\n" + struct.pack(">IQQ", 1, 7, 2) + b"\xff" * 8 + bytes(60))
seed("snapmeta", "stream-newer", b"\x01TVSNAP1\n" + struct.pack(">IQQ", 2, 7, 2) + bytes(60))
seed("snapmeta", "position", b"\x02" + bytes([1]) + bytes(200))
seed("snapmeta", "json", b"\x03" + json.dumps({"Version": 1, "ID": "2-7-1", "Index": 7, "Term": 2, "Peers": "", "Size": 9,
     "Configuration": {"Servers": [{"Suffrage": 0, "ID": "x", "Address": "127.0.0.1:8300"}]}}).encode())
seed("snapmeta", "json-broken", b"\x03{")
seed("snapmeta", "json-none", b"\x03")


# -- dns: one byte says how long the message is; texts of the catalog follow --

def dns_question(name, type_, edns=None, ident=0x4242):
    labels = b"".join(bytes([len(x)]) + x for x in name.encode().split(b".") if x) + b"\0"
    return (struct.pack("!6H", ident, 0x100, 1, 0, 0, 1 if edns is not None else 0) + labels + struct.pack("!2H", type_, 1) +
            (b"\0" + struct.pack("!2HIH", 41, 1232, 0, len(edns)) + edns if edns is not None else b""))


def dns_seed(name, message, rest=b""):
    seed("dns", name, bytes([len(message)]) + message + rest)


dns_seed("node", dns_question("n1.node.consul", 1), b"10.0.0.1" * 4)
dns_seed("service-srv", dns_question("web.service.consul", 33), b"10.0.0.1" * 4)
dns_seed("tag", dns_question("_web._tcp.service.dc1.consul", 33), b"host.example.net" * 4)
dns_seed("alias", dns_question("web.service.consul", 255), b"s.service.consul" * 4)
dns_seed("addr", dns_question("0a000001.addr.consul", 1))
dns_seed("ptr", dns_question("1.0.0.10.in-addr.arpa", 12), b"n" * 4)
dns_seed("soa", dns_question("consul", 6), b"10.0.0.1" * 4)
dns_seed("subnet", dns_question("q.query.consul", 1, struct.pack("!3H2B3s", 8, 7, 1, 24, 0, b"\xc0\0\2")), b"10.0.0.1" * 4)
dns_seed("upstream", dns_question("web.service.consul", 1), dns_question("www.example.net", 1)[:6] + b"\0\1\0\0\0\0" +
         dns_question("www.example.net", 1)[12:] + b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x0a\0\0\1")

# HTTP/2: into what pieces, what the server does; then frames, behind an opening that is put before them (bit 64: not).


def h2_frame(type_, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([type_, flags]) + struct.pack(">I", stream) + payload


def h2_field(name, value):
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def h2_request(stream, method=b"\x82", flags=5, more=b""):
    return h2_frame(1, flags, stream, method + b"\x87\x84" + h2_field(b":authority", b"one:8501") + more)


H2_WAYS = {"waits": 0, "answers": 3, "resets": 7, "holds": 10, "breaks": 18, "trailers": 34, "quiesces": 130}
for i, (name, ways) in enumerate(H2_WAYS.items()):
    seed("h2", name, bytes([5 * i, ways]) + h2_request(1) + h2_request(3, more=b"\xbe") + h2_request(5, b"\x83", 4) +
         h2_frame(0, 0, 5, b"abc") + h2_frame(0, 9, 5, b"\x02defgh\0\0") + h2_frame(8, 0, 0, b"\0\1\0\0") + h2_request(21) +
         h2_frame(3, 0, 3, b"\0\0\0\x08") + h2_frame(6, 0, 0, b"12345678") + h2_frame(7, 0, 0, b"\0" * 8))
seed("h2", "opening", bytes([31, 64 + 2]) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, b"\0\4\0\0\0\1") + h2_request(1))
seed("h2", "not-h2", bytes([31, 64]) + b"GET / HTTP/1.1\r\nHost: one\r\n\r\n")
seed("h2", "continuation", bytes([3, 2]) + h2_request(1, flags=1) + h2_frame(9, 0, 1, h2_field(b"x-consul-token", b"t")) +
     h2_frame(9, 4, 1, h2_field(b"expect", b"100-continue")))
seed("h2", "length", bytes([3, 3]) + h2_request(1, b"\x83", 4, h2_field(b"content-length", b"3")) + h2_frame(0, 1, 1, b"abc") +
     h2_request(3, b"\x83", 4, h2_field(b"content-length", b"9")) + h2_frame(0, 1, 3, b"abc"))
seed("h2", "trailer", bytes([3, 2]) + h2_request(1, b"\x83", 4) + h2_frame(0, 0, 1, b"abc") + h2_frame(1, 5, 1, h2_field(b"x", b"y")))
seed("h2", "hosts", bytes([3, 2]) + h2_request(1, more=h2_field(b"host", b"two")) + h2_request(3, more=h2_field(b"host", b"one:8501")))
seed("h2", "bomb", bytes([31, 2]) + h2_request(1, more=h2_field(b"x", b"v" * 120) + b"\xbe" * 200))

# frames of rpcd-keys: at rpcd's end, and (2, 3) at the program's
KEYS_SETUP, KEYS_SERVE, KEYS_RETIRE, KEYS_FILES, KEYS_BAD, KEYS_SIGN = range(71, 77)
STARTED = frame(6, 0, 0, b"\x91\x07")
FILES = b"\x96\xc4\x05chain\xc4\x02ca\x07\xce\x6b\x00\x00\x00\xce\x6a\x00\x00\x00\xa4CN=a"
VERIFY = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + bytes(range(32))
EXCHANGE = bytes(64) + bytes((3, 0, 29, 32)) + bytes(range(32))
seed("keys", "rpcd-files", b"\x00" + STARTED + frame(KEYS_FILES, 0, 0, FILES) * 2)
seed("keys", "rpcd-bad", b"\x00" + STARTED + frame(KEYS_BAD, 0, 0, b"\x92\xa9/k: empty\xc2") + frame(KEYS_BAD, 0, 0, b"\x92\xa1x\xc3"))
seed("keys", "rpcd-signed", b"\x00" + STARTED + frame(KEYS_SIGN, 1, 1, b"\x92\x00\xc4\x03sig") + frame(KEYS_SIGN, 0, 1, b"\x92\x00\xc4\x00"))
seed("keys", "rpcd-no-chain", b"\x00" + STARTED + frame(KEYS_FILES, 0, 0, FILES.replace(b"\xc4\x05chain", b"\xc4\x00")))
SETUP = frame(KEYS_SETUP, 0, 0, b"\x96\xa2/c\xa2/k\xa0\xa0\xc2\x00")
for name, what in (("verify", VERIFY), ("exchange", EXCHANGE), ("other", b"x" * 300)):
    seed("keys", "program-" + name, b"\x02" + frame(KEYS_SERVE, 0, 0, b"\x90") + frame(KEYS_SIGN, 0, 5, b"\x93\x01\x00" + (
        b"\xc4" + bytes([len(what)]) if len(what) < 256 else b"\xc5" + struct.pack(">H", len(what))) + what))
seed("keys", "program-life", b"\x03" + SETUP + frame(KEYS_SERVE, 0, 0, b"\x90") + SETUP + frame(KEYS_RETIRE, 0, 0, b"\x90"))
seed("keys", "program-too-early", b"\x03" + frame(KEYS_SERVE, 0, 0, b"\x90"))
