"""The list of what a lint does not yet demand of older files: tests/lint/shrinking.txt, rows `lint path count`.

A file may have as many faults as its row says, a file without a row none.  A file that has fewer fails until its row is
lowered: `LINT --update` does that, takes rows out that are done, and gives the row of a file that has moved to the one of
the same name; it never raises a count.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "shrinking.txt")


def rows(lint):
    """{path: count} of one lint."""
    if not os.path.exists(LIST):
        return {}
    with open(LIST, encoding="utf-8") as f:
        found = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {path: int(count) for name, path, count in found if name == lint}


def write(lint, counts):
    with open(LIST, encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith(lint + " ")]
    head = [line for line in lines if line.startswith("#")]
    rest = [line for line in lines if not line.startswith("#") and line.strip()]
    rest += [f"{lint} {path} {count}\n" for path, count in counts.items() if count]
    with open(LIST, "w", encoding="utf-8") as f:
        f.writelines(head + sorted(rest))


def lowered(allowed, counts):
    """The rows that stay: moved with their files, as low as the counts are now."""
    moved = dict(allowed)
    for path in [p for p in allowed if p not in counts]:
        new = [p for p in counts if os.path.basename(p) == os.path.basename(path) and counts[p] and p not in moved]
        if len(new) == 1:
            moved[new[0]] = allowed[path]
    return {path: min(count, counts[path]) for path, count in moved.items() if counts.get(path)}


def judge_counts(allowed, counts):
    """({path: sentence} of files with too many, [sentence] of rows that are too high); counts: {path: count} of all files."""
    more = {path: f"{path}: {count} faults, and {allowed.get(path, 0)} are allowed"
            for path, count in counts.items() if count > allowed.get(path, 0)}
    fewer = [f"{path}: {counts.get(path, 0)} faults, and its row says {count}: --update"
             for path, count in allowed.items() if counts.get(path, 0) < count]
    return more, fewer


def check_itself():
    allowed, counts = {"a/x.c": 2, "a/y.c": 1, "a/z.c": 3}, {"a/x.c": 3, "b/y.c": 1, "a/z.c": 1, "a/v.c": 0}
    more, fewer = judge_counts(allowed, counts)
    assert sorted(more) == ["a/x.c", "b/y.c"] and len(fewer) == 2, (more, fewer)
    assert lowered(allowed, counts) == {"a/x.c": 2, "b/y.c": 1, "a/z.c": 1}
    assert judge_counts({}, {"a": 0}) == ({}, [])


def verdict(lint, faults, argv):
    """Judge {path: [sentence]} of all files; say what is wrong, and return 0 or 1."""
    check_itself()
    counts = {path: len(found) for path, found in faults.items()}
    if "--update" in argv:
        write(lint, lowered(rows(lint), counts))
    more, fewer = judge_counts(rows(lint), counts)
    for path, sentence in sorted(more.items()):
        print("\n".join(dict.fromkeys(faults[path] + [sentence])))
    print("\n".join(fewer), end="\n" if fewer else "")
    return 1 if more or fewer else 0
