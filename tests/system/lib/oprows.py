"""The operations of common/record/ops.h and the records of their arguments, read from the headers, so that they cannot drift.

    OPS["KV_GET"].code, .kind, .scope          what the row says
    args("kv_read", Key="a")                   the record as raftd reads it: fields by name, the others empty
    fields("kv_entry", value)                  a record of an answer as {name: value}

Standard library only.
"""
import collections
import os
import re

from tvframe import MSG, Conn, pack

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RECORD = os.path.join(TOP, "common", "record")
Row = collections.namedtuple("Row", "name code text kind args answer answers traits scope access")
EMPTY = {"STR": "", "JSON": "", "BIN": b"", "U64": 0, "I64": 0, "DURATION": 0, "F64": 0.0, "BOOL": False, "STRS": [], "F64S": [],
         "OBJS": [], "OBJMAP": [], "MAP": {}, "OBJ": [], "OPT": None}


def _text(file):
    with open(os.path.join(RECORD, file), encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def _load_ops():
    text = _text("ops.h")
    row = (r'X\(\s*(\d+), (\w+),\s*"([^"]+)",\s*(\w+),\s*(\w+),\s*(\w+),\s*(\w+),\s*([A-Z0-9_ |]+),\s*'
           r'\((\w+), ((?:"[^"]*"|[^()"])*)\),')
    out = {name: Row(name, int(code), *rest) for code, name, *rest in re.findall(row, text)}
    assert len(out) == len(re.findall(r"\bX\(\s*\d+,", text)), "a row of OPS is spelled in a way that is not understood"
    return out


def _parts(text):
    """What stands between brackets, split at the commas outside of further brackets."""
    out, depth, part = [], 0, ""
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            out.append(part.strip())
            part = ""
        else:
            part += c
    return out + [part.strip()]


def _between(text, at):
    """From the bracket at text[at] to the one that closes it, without them."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1:end]
    raise ValueError("no end")


def _load_records():
    text = _text("records.h")
    macros = {m.group(1): m.group(2).replace("\\\n", " ").strip()
              for m in re.finditer(r"^#define (\w+_ROWS)\([\w, ]+\)((?:.*\\\n)*.*)$", text, re.M)}
    out = {"empty": []}
    for m in re.finditer(r"^RECORD(_AS)?\(", text, re.M):
        name, *rows = _parts(_between(text, m.end() - 1))
        flat = []
        for row in rows[1:] if m.group(1) else rows:
            macro = re.match(r"(\w+_ROWS)\(", row)
            flat += _parts(macros[macro.group(1)]) if macro else [row]
        fields = [_parts(r[1:-1]) for r in flat if r]
        out[name] = [(f[1], f[0], f[3] if f[0] == "OPT" else f[2] if len(f) > 2 else None) for f in fields if f[0] != "CONST"]
    return out


OPS = _load_ops()
RECORDS = _load_records()


def args(record, **given):
    """Dictionaries are records, too, and so are those of a list."""
    out = []
    for name, kind, of in RECORDS[record]:
        value = given.pop(name, EMPTY[kind])
        if kind in ("OBJ", "OPT") and isinstance(value, dict):
            value = args(of, **value)
        elif kind in ("OBJS", "OBJMAP"):
            value = [args(of, **v) if isinstance(v, dict) else v for v in value]
        out.append(value)
    assert not given, "%s has no field %s" % (record, ", ".join(given))
    return out


def fields(record, value):
    return {name: v for (name, _, _), v in zip(RECORDS[record], value)}


Said = collections.namedtuple("Said", "err text index value")


class Asker:
    """What a taken-over rpcd can do: any operation, with any token, straight at raftd; over a connection of its own, or this one."""

    def __init__(self, node, sock=None):
        self.conn = Conn(sock or os.path.join(node.run, "raftd.sock"))

    def op(self, name, token="", mode=0, index=0, wait_ms=0, timeout=30.0, **given):
        row = OPS[name]
        return self.raw(row.code, args(row.args, **given), token, mode, index, wait_ms, timeout)

    def raw(self, code, record, token="", mode=0, index=0, wait_ms=0, timeout=30.0):
        err, text, at, _known, _contact, value = self.conn.call(
            MSG.OP, [code, "", mode, index, wait_ms, 0, token, record], timeout)
        return Said(err, text, at, value)

    def close(self):
        self.conn.close()


def holds(said, marker):
    """Is this text anywhere in the answer?"""
    return marker.encode() in pack([said.text, said.value])
