#!/usr/bin/env python3
"""Every place that doc/architecture.md, doc/glossary.md or a folder's README.md names exists: files, and functions in them.

A place is written `file.c: function()`, a file alone `file.c`, a function alone `function()`; the file's folder may be
left out where its name is enough.  doc/decisions.md has a line for each decision of doc/decisions/, and no other one.
"""
import os
import re
import sys

TOP = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ["common", "gossipd", "raftd", "rpcd", "ctl", "tests"]
# What is not ours, and is named as ours is.
FOREIGN = {"main", "read", "write", "recvmmsg", "sendmmsg", "fsync", "fdatasync", "getrandom"}


def sources():
    """{path: text} of all .c and .h files."""
    found = {}
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8") as f:
                        found[os.path.relpath(path, TOP)] = f.read()
    return found


def documents():
    """The documents that lead through the code."""
    yield "doc/architecture.md"
    yield "doc/glossary.md"
    for folder in FOLDERS[:-1]:
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            if "README.md" in names:
                yield os.path.relpath(os.path.join(where, "README.md"), TOP)


def defines(text, function):
    """Is it defined or declared there: at the head of a line, after a type, as a macro, or as a member of a struct?"""
    return re.search(r"^(?:[a-z#][\w \t*]*?[\s*])?\(?\*?" + re.escape(function) + r"\)?\(", text, re.M) is not None


def judge(document, text, files):
    """What is wrong with one document: [sentence]."""
    wrong = []
    by_end = lambda name: [p for p in files if p == name or p.endswith("/" + name)]
    for quoted in re.finditer(r"`([^`]+)`", text):
        line = text.count("\n", 0, quoted.start()) + 1
        words = " ".join(quoted.group(1).split())
        place = re.fullmatch(r"([\w/.]+\.[ch]): (\w+)(?:\(\))?", words)
        alone = re.fullmatch(r"([\w/.]+\.[ch])", words)
        function = re.fullmatch(r"(\w+)\(\)", words)
        if place or alone:
            named = (place or alone).group(1)
            found = by_end(named)
            if not found:
                wrong.append(f"{document}:{line}: there is no file {named}")
            elif place and not any(defines(files[p], place.group(2)) for p in found):
                wrong.append(f"{document}:{line}: {named} has no function {place.group(2)}()")
        elif function and function.group(1) not in FOREIGN:
            if not any(defines(t, function.group(1)) for t in files.values()):
                wrong.append(f"{document}:{line}: no file has a function {function.group(1)}()")
    return wrong


def judge_index(index, headings):
    """What is wrong with the index of decisions: [sentence]."""
    listed = [line[2:] for line in index.splitlines() if line.startswith("- ")]
    wrong = [f"doc/decisions.md: no line for {h}" for h in headings if not any(line.startswith(h + ": ") for line in listed)]
    return wrong + [f"doc/decisions.md: no decision for {line}" for line in listed if not any(line.startswith(h + ": ") for h in headings)]


def decisions():
    """All headings of decisions."""
    folder = os.path.join(TOP, "doc", "decisions")
    found = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            found += [line[3:].strip() for line in f if line.startswith("## ")]
    return found


def check_itself(files):
    """A wrong place is found, a right one is not."""
    some = "raftd/main.c"
    right = f"`{some}: main()` and `{some}`"
    missing = "`raftd/no_such.c`, `main.c: no_such_function()` and `no_such_function()`"
    if judge_index("- One: why\n", ["One"]) or len(judge_index("- One: why\n", ["Two", "Tw"])) != 3:
        return False
    return not judge("x", right, files) and len(judge("x", missing, files)) == 3


def main():
    files = sources()
    if not check_itself(files):
        print("places.py does not tell right places from wrong ones")
        return 1
    wrong = []
    for document in documents():
        with open(os.path.join(TOP, document), encoding="utf-8") as f:
            wrong += judge(document, f.read(), files)
    with open(os.path.join(TOP, "doc/decisions.md"), encoding="utf-8") as f:
        wrong += judge_index(f.read(), decisions())
    print("\n".join(wrong) if wrong else "all places exist")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
