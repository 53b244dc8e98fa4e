#!/usr/bin/env python3
"""The list of messages in doc/wire.md says what the table in common/net/msg.h and its records say.

    tests/lint/msgs.py             does it? (in `make check`)
    tests/lint/msgs.py --update    writes the list
"""
import os
import re
import sys

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOC = os.path.join(SRC, "doc", "wire.md")
HEAD = ["| type | `MSG_` | channel | who asks or tells | question, at most | | answer, at most | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |"]
TYPES = {"STRS": "[str]", "OBJS": "[[%s]]", "OBJ": "[%s]"}


def read(*path):
    with open(os.path.join(SRC, *path), encoding="utf-8") as f:
        return f.read()


def plain(text):
    """C without comments and continued lines."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", "\n")


def records():
    """{"msg_join": "u64 pool, [str] addrs"}; what may be missing has a question mark."""
    found = {"empty": ""}
    for name, rows in re.findall(r"^RECORD\((\w+),(.*?\))\)\s*$", plain(read("common", "record", "messages.h")), re.M | re.S):
        fields = []
        for row in re.findall(r"\(([^()]*)\)", rows):
            kind, field, *rest = [x.strip() for x in row.split(",")]
            kind = TYPES.get(kind, kind.lower())
            if "%s" in kind:
                kind %= found[rest[0]]
            fields.append(kind + " " + field + ("?" if "SF_LATER" in row else ""))
        found[name] = ", ".join(fields)
    return found


def shape(column, known):
    record = re.sub(r".*\((\w+)\)", r"\1", column)
    if column in ("HAND", "NONE"):
        return {"HAND": "by hand", "NONE": ""}[column]
    if column.startswith("ANSWER"):
        return "`[u8 err, str text%s]`" % (", " + known[record] if record in known else "")
    return "`[%s]`" % known[record]


def lines():
    text, known = plain(read("common", "net", "msg.h")), records()
    sizes = {name: int(n) << int(by) for name, n, by in re.findall(r"#define (MSG_\w+)\s+\((\d+)u << (\d+)\)", text)}
    rows = re.findall(r'^\tM\((\d+), (\w+), "([^"]*)", "([^"]*)", (\w+), ([^,]+), (\w+), (.+)\)\s*$', text, re.M)
    if not rows or len(rows) != len(re.findall(r"^\tM\(", text, re.M)):
        sys.exit("common/net/msg.h: a row cannot be read")
    for number, name, channel, who, asked, question, told, answer in rows:
        size = [("%d MiB" % (n >> 20) if n >> 20 else "%d KiB" % (n >> 10)) if n else "-"
                for n in (sizes.get(asked, 0), sizes.get(told, 0))]
        yield "| %s | %s | %s | %s | %s | %s | %s | %s |" % (
            number, name, channel, who, size[0], shape(question, known), size[1], shape(answer, known))


def main():
    want = HEAD + list(lines())
    text = read("doc", "wire.md").split("\n")
    try:
        at = text.index(HEAD[0])
    except ValueError:
        sys.exit("doc/wire.md: no list of messages")
    end = next(i for i in range(at, len(text)) if not text[i].startswith("|"))
    if text[at:end] == want:
        return 0
    if sys.argv[1:] == ["--update"]:
        with open(DOC, "w", encoding="utf-8") as f:
            f.write("\n".join(text[:at] + want + text[end:]))
        return 0
    for line in sorted(set(text[at:end]) ^ set(want)):
        print("doc/wire.md: %s: %s" % ("missing" if line in want else "not in common/net/msg.h", line))
    print("tests/lint/msgs.py --update writes the list")
    return 1


sys.exit(main())
