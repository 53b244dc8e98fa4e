#!/usr/bin/env python3
"""Every .c of a program is named in the README of its folder, or of one above it, and no README there is longer than a screen or two.

A file is named as `file.c`, `file.h` or `file.[ch]`, with its folder before it or without.
"""
import os
import re
import sys

TOP = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = "common", "ctl", "gossipd", "raftd", "rpcd"
LINES = 60


def named(text):
    """The stems of the files that a README names."""
    return set(re.findall(r"(?<![\w.])(\w+)\.(?:c\b|h\b|\[ch\])", text))


def faults(sources, readmes):
    """{path: [sentence]} of all sources (paths) and READMEs ({path: text})."""
    found = {path: [f"{path}: {text.count(chr(10))} lines, and {LINES} are the most"] if text.count("\n") > LINES else []
             for path, text in readmes.items()}
    known = {os.path.dirname(path): named(text) for path, text in readmes.items()}
    for path in sources:
        folder, stem = os.path.dirname(path), os.path.basename(path)[:-2]
        above = []
        while folder:
            above.append(folder)
            folder = os.path.dirname(folder)
        found[path] = [] if any(stem in known.get(f, ()) for f in above) else [f"{path}: no README of its folder or above names it"]
    return found


def check_itself():
    readmes = {"a/README.md": "`b/two.c` does\n", "a/b/README.md": "`one.[ch]`, `no_three.c`\n" * (LINES + 2)}
    found = faults(["a/b/one.c", "a/b/two.c", "a/b/three.c", "a/one.c"], readmes)
    return {path for path in found if found[path]} == {"a/b/three.c", "a/one.c", "a/b/README.md"}


def main():
    if not check_itself():
        print("readmes.py does not tell right from wrong")
        return 1
    sources, readmes = [], {}
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            where = os.path.relpath(where, TOP)
            sources += [os.path.join(where, name) for name in names if name.endswith(".c")]
            if "README.md" in names:
                with open(os.path.join(TOP, where, "README.md"), encoding="utf-8") as f:
                    readmes[os.path.join(where, "README.md")] = f.read()
    wrong = [sentence for found in faults(sources, readmes).values() for sentence in found]
    print("\n".join(sorted(wrong)) if wrong else f"{len(sources)} files are named in {len(readmes)} READMEs")
    return 1 if wrong or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
