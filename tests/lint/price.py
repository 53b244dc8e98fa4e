#!/usr/bin/env python3
"""What a change costs: the files that commits touched, by kind.

    tests/lint/price.py COMMIT...           each commit: numbers, and the files of code
    tests/lint/price.py --most N COMMIT...  fails when one touched more than N files of code
    tests/lint/price.py                     checks itself, in a repository that it makes (in `make check`)

The promise of the tables: a new read in an existing area touches 2 files of code, a new operation with a record and an endpoint
4 or 5, a new table of the state 1 more.  Code is .c and .h outside tests/; those of them that are tables are counted in and
told apart.  A file that was only moved costs nothing.
"""
import os
import shutil
import subprocess
import sys
import tempfile

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# A row here makes what others write by hand.
TABLES = {"common/record/ops.h", "common/record/records.h", "common/net/msg.h", "raftd/fsm/table/tables.h", "rpcd/api/endpoint.h",
          "ctl/verbs.c", "common/conf/cluster_conf.c", "gossipd/opts.c", "raftd/opts.c", "rpcd/opts.c"}
KINDS = ("code", "tests", "man", "docs", "build", "other")


def kind(path):
    if path.startswith("tests/"):
        return "tests"
    if path.endswith((".c", ".h")):
        return "code"
    if path.startswith("man/"):
        return "man"
    if path.endswith(".md"):
        return "docs"
    return "build" if path.endswith((".mk", ".am", ".ac")) else "other"


def touched(commit, where="."):
    """The files that the commit added, changed or removed, against its first parent."""
    def git(*words):
        return subprocess.run(["git", "-C", where, *words], capture_output=True, text=True, check=words[0] != "rev-parse").stdout
    parent = git("rev-parse", "-q", "--verify", commit + "^1").strip()
    lines = git("diff-tree", "-z", "-r", "-M", "--no-commit-id", "--name-status", *([parent] if parent else ["--root"]), commit).split("\0")
    paths, at = [], 0
    while at + 1 < len(lines):
        moved = lines[at][0] in "RC"
        at += 2 + moved
        if lines[at - 2 - moved] != "R100":
            paths.append(lines[at - 1])
    return paths


def price(commit, where="."):
    """{kind: [path]}"""
    paths = touched(commit, where)
    return {k: sorted(p for p in paths if kind(p) == k) for k in KINDS}


def show(commit, cost):
    subject = subprocess.run(["git", "log", "-1", "--format=%h %s", commit], check=True, capture_output=True, text=True).stdout
    tables = sum(p in TABLES for p in cost["code"])
    print(subject.strip())
    print("    " + ", ".join("%s %d%s" % (k, len(cost[k]), " (%d tables)" % tables if k == "code" else "") for k in KINDS if cost[k]))
    for path in cost["code"]:
        print("    %s%s" % (path, " (table)" if path in TABLES else ""))


# -- the check of itself ----------------------------------------------------------------------------

def check_in(where):
    """Three commits of a repository made here: what is first there, what changes, and a branch that is merged."""
    def git(*words):
        subprocess.run(["git", "-C", where, "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false", *words],
                       check=True, capture_output=True)

    def write(path, text):
        os.makedirs(os.path.dirname(os.path.join(where, path)) or where, exist_ok=True)
        with open(os.path.join(where, path), "w", encoding="utf-8") as f:
            f.write(text)

    git("init", "-q", "-b", "main")
    write("rpcd/moved.c", "a line\n" * 20)
    write("rpcd/gone.c", "gone\n")
    write("common/record/ops.h", "row\n")
    git("add", "-A")
    git("commit", "-qm", "one")
    assert price("HEAD", where)["code"] == ["common/record/ops.h", "rpcd/gone.c", "rpcd/moved.c"], price("HEAD", where)
    git("mv", "rpcd/moved.c", "rpcd/there.c")
    git("rm", "-q", "rpcd/gone.c")
    for path in ("common/record/ops.h", "tests/unit/x.c", "man/a.8", "doc/\u00e4 b.md", "rpcd/local.mk", "etc/a.conf"):
        write(path, "new\n")
    git("add", "-A")
    git("commit", "-qm", "two")
    want = {"code": ["common/record/ops.h", "rpcd/gone.c"], "tests": ["tests/unit/x.c"], "man": ["man/a.8"], "docs": ["doc/\u00e4 b.md"],
            "build": ["rpcd/local.mk"], "other": ["etc/a.conf"]}
    assert price("HEAD", where) == want, price("HEAD", where)
    git("checkout", "-qb", "side", "HEAD~1")
    write("raftd/side.c", "side\n")
    git("add", "-A")
    git("commit", "-qm", "three")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "--no-edit", "side")
    assert price("HEAD", where)["code"] == ["raftd/side.c"], price("HEAD", where)


def check():
    missing = [t for t in sorted(TABLES) if not os.path.exists(os.path.join(SRC, t))]
    if missing:
        print("no such table: " + ", ".join(missing))
        return 1
    if shutil.which("git") is None:
        print("git is not installed")
        return 77
    with tempfile.TemporaryDirectory() as where:
        check_in(where)
    return 0


def main(args):
    most = int(args[1]) if args[:1] == ["--most"] else None
    commits = args[2:] if most is not None else args
    if not commits:
        return check()
    costs = [(c, price(c)) for c in commits]
    for commit, cost in costs:
        show(commit, cost)
    return int(most is not None and any(len(cost["code"]) > most for _, cost in costs))


sys.exit(main(sys.argv[1:]))
