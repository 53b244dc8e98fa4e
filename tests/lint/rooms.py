#!/usr/bin/env python3
"""The rooms of the tree: a file includes headers of its own folder and of lower ones only, and objects need symbols of those only.

    tests/lint/rooms.py [BUILD]           both checks; the objects are those below BUILD (default: here)
    tests/lint/rooms.py --circles         the circles of modules among the includes, largest first

ROOMS is the order, lowest first: folders (with a slash), modules, or single files.  A file belongs to the room with the longest name
that fits.  Where a room is a tuple, its members are of one height.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

TOP = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROOMS = {
    "common": ["common/base/", "common/text/",
               ("common/conf/hcl", "common/conf/hcl_int", "common/conf/hcl_scan", "common/conf/hcl_print"), "common/acl/", "common/record/", "common/filter/", "common/conf/", "common/net/", "common/proc/"],
    "gossipd": ["gossipd/core/wire/", ("gossipd/core/coord/", "gossipd/core/swim/intern", "gossipd/core/swim/table", "gossipd/core/swim/twins",
                "gossipd/core/swim/broadcast", "gossipd/core/serf/ring", "gossipd/core/serf/intent.h"),
                ("gossipd/core/swim.h", "gossipd/core/state.h", "gossipd/core/base"), "gossipd/core/swim/", "gossipd/core/serf/",
                "gossipd/core/", "gossipd/names/", "gossipd/"],
    "raftd": ["raftd/core/", "raftd/store/bdb/", "raftd/store/", ("raftd/fsm/table/key", "raftd/fsm/table/tables"), "raftd/fsm/fsm.h",
              "raftd/fsm/state", ("raftd/fsm/table/", "raftd/fsm/read/"), "raftd/fsm/page/", ("raftd/fsm/apply", "raftd/fsm/group"),
              ("raftd/fsm/kv/", "raftd/fsm/session/", "raftd/fsm/catalog/", "raftd/fsm/query/", "raftd/fsm/acl/", "raftd/fsm/txn/",
               "raftd/fsm/operator/", "raftd/fsm/copy/stage", "raftd/fsm/table/head"), ("raftd/fsm/ops", "raftd/fsm/table/record"),
              "raftd/fsm/page/warm", "raftd/fsm/copy/", "raftd/fsm/", "raftd/login/", "raftd/fetch/", "raftd/opts", "raftd/raftd", "raftd/disk/",
              "raftd/engine/", "raftd/request/", "raftd/peers/", "raftd/leader/rules/", "raftd/leader/", "raftd/snapshot/", "raftd/members/rules/",
              "raftd/members/", "raftd/login/serve/key_fetch", ("raftd/serve/", "raftd/login/serve/"), "raftd/opening", "raftd/main"],
    "rpcd": [("rpcd/opts", "rpcd/opts_tls"), "rpcd/check/", "rpcd/dns/", "rpcd/keys/", "rpcd/audit/", "rpcd/gossip/", "rpcd/wan/", "rpcd/route/", "rpcd/acl/", "rpcd/cache/", "rpcd/event/",
             "rpcd/replicate/", "rpcd/registry/", "rpcd/checks/", "rpcd/names/", "rpcd/node/", ("rpcd/api/", "rpcd/api/v1/"), "rpcd/tls/", "rpcd/http/", "rpcd/rpcd", ("rpcd/opening", "rpcd/info"), "rpcd/main"],
    "ctl": ["ctl/", "ctl/cmd/", ("ctl/verbs", "ctl/run", "ctl/help", "ctl/main")],
}
# What a program uses of another one: the archive's format, and the names of roles.
ALSO = {"ctl": ("raftd/fsm/copy/", "raftd/fsm/table/tables"), "rpcd": ("raftd/core/",)}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def sources(top):
    """{path: [included path]} of all .c and .h files of the five programs."""
    found = {}
    for program in ROOMS:
        for where, _, names in os.walk(os.path.join(top, program)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as f:
                        found[os.path.relpath(path, top)] = INCLUDE.findall(f.read())
    return found


def room_of(path):
    """(program, height, name), or None for what is in no room."""
    program = path.split("/")[0]
    best = None
    for height, rooms in enumerate(ROOMS.get(program, [])):
        for room in rooms if isinstance(rooms, tuple) else (rooms,):
            fits = path.startswith(room) if room.endswith("/") else room in (path, path.rsplit(".", 1)[0])
            if fits and (best is None or len(room) > len(best[2])):
                best = (program, height, room)
    return best


def is_upward(a, b):
    """May room a not use room b?  Every program may use common, and of another one what ALSO says."""
    if a is None or b is None or a == b:
        return False
    if a[0] != b[0]:
        return b[0] != "common" and b[2] not in ALSO.get(a[0], ())
    return b[1] > a[1]


def check_includes(files):
    """[sentence] for each include that points upward, and for each file without a room."""
    wrong = []
    for path, included in sorted(files.items()):
        here = room_of(path)
        if here is None and ROOMS.get(path.split("/")[0]):
            wrong.append(f"{path}: is in no room that tests/lint/rooms.py knows")
        for other in included:
            if other in files and is_upward(here, room_of(other)):
                wrong.append(f"{path}: includes {other}, which is above it")
    return wrong


def symbols(build, files):
    """{path of source: ({defined}, {undefined})} of the objects that there are."""
    objects = {}
    for path in files:
        # Libraries with flags of their own put their names before the objects'.
        folder, name = os.path.split(os.path.join(build, path[:-1] + "o"))
        for found in glob.glob(os.path.join(folder, "*" + name)) if path.endswith(".c") else ():
            if os.path.basename(found) == name or os.path.basename(found).endswith("_a-" + name):
                objects[found] = path
    found = {path: (set(), set()) for path in objects.values()}
    names = list(objects)
    for i in range(0, len(names), 100):
        out = subprocess.run(["nm", "-A", "-P"] + names[i:i + 100], capture_output=True, text=True, check=True).stdout
        for line in out.splitlines():
            where, rest = line.rsplit(": ", 1)
            symbol, kind = rest.split()[:2]
            if kind in "UTDBRCVWw":
                found[objects[where]][kind in "Uw"].add(symbol)
    return found


def check_symbols(objects):
    """[sentence] for each symbol that a room needs and only rooms above it, of the same program, define."""
    homes, wrong = {}, []
    for path, (defined, _) in objects.items():
        for symbol in defined:
            homes.setdefault(symbol, []).append(path)
    for path, (_, needed) in sorted(objects.items()):
        here = room_of(path)
        for symbol in sorted(needed):
            there = [p for p in homes.get(symbol, []) if p.split("/")[0] in (path.split("/")[0], "common")]
            if there and all(is_upward(here, room_of(p)) for p in there):
                wrong.append(f"{path}: needs {symbol}(), which only {there[0]} has, above it")
    return wrong


def circles(files):
    """Strongly connected modules, where x.c and x.h are one, largest first: [[module]]."""
    module = lambda path: path.rsplit(".", 1)[0]
    edges = {}
    for path, included in files.items():
        edges.setdefault(module(path), set()).update(module(i) for i in included if i in files)
    number, low, stack, found = {}, {}, [], []

    def visit(v):
        number[v] = low[v] = len(number)
        stack.append(v)
        for w in edges.get(v, ()):
            if w not in number:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == number[v]:
            part = []
            while not part or part[-1] != v:
                part.append(stack.pop())
            found.append(sorted(part))
    sys.setrecursionlimit(10000)
    for v in sorted(edges):
        if v not in number:
            visit(v)
    return sorted((c for c in found if len(c) > 1), key=len, reverse=True)


def check_itself():
    """Made-up violations of both kinds are found, and what is in order is not."""
    right = {"raftd/peers/a.c": ["raftd/engine/e.h", "common/base/b.h"], "raftd/engine/e.h": [], "common/base/b.h": []}
    wrong = {"raftd/engine/e.c": ["raftd/peers/a.h"], "raftd/peers/a.h": [], "common/base/b.c": ["raftd/core/raft.h"],
             "raftd/core/raft.h": [], "raftd/nowhere/x.c": []}
    if check_includes(right) or len(check_includes(wrong)) != 3 or len(circles({"a.c": ["a.h"], "a.h": ["b.h"], "b.h": ["a.h"]})) != 1:
        return False
    with tempfile.TemporaryDirectory() as build:
        texts = {"raftd/engine/e.c": "void up(void);\nvoid down(void);\nvoid down(void) { up(); }\n",
                 "raftd/peers/p.c": "void up(void);\nvoid down(void);\nvoid up(void) { down(); }\n"}
        for path, text in texts.items():
            os.makedirs(os.path.join(build, os.path.dirname(path)))
            subprocess.run((os.environ.get("CC") or "cc").split() + ["-x", "c", "-c", "-", "-o", os.path.join(build, path[:-1] + "o")],
                           input=text, text=True, check=True)
        found = check_symbols(symbols(build, texts))
    return len(found) == 1 and found[0].startswith("raftd/engine/e.c: needs up()")


def main():
    if not check_itself():
        print("rooms.py does not tell right from wrong")
        return 1
    files = sources(TOP)
    if "--circles" in sys.argv:
        for c in circles(files):
            print(len(c), " ".join(c))
        return 0
    build = sys.argv[1] if len(sys.argv) > 1 else "."
    objects = symbols(build, files)
    wrong = check_includes(files) + check_symbols(objects)
    if not objects:
        wrong.append(f"no objects below {build}: build first")
    for sentence in wrong:
        print(sentence)
    if not wrong:
        print(f"{len(files)} files and {len(objects)} objects use what is beside or below them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
