#!/usr/bin/env python3
"""doc/testing.md says what holds each fault scenario, and what it names exists.

A row is "| S1 ... | held by |" or "| S1, S2-S4 | what | held by |".  Every number of S1 to S214
has one.  In the last cell: words in backticks are tests (a function, or a case or file under tests/), words like check_x, test_x and sim_x are programs,
names like S02-x.txt are scripts of tests/data/raft.  A cell names one of them, or says "not covered, because ...".
"""
import os
import re
import sys

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NEEDED = set(range(1, 215))


def numbers(text):
    """{1, 2, 3} from "S1, S2-S3 what it is": only what stands at the beginning."""
    found = set()
    head = re.match(r"(?:S\d+(?:\s*[-\u2013]\s*S\d+)?(?:,\s*|\s+and\s+|\b))+", text)
    for first, last in re.findall(r"S(\d+)(?:\s*[-\u2013]\s*S(\d+))?", head.group(0) if head else ""):
        found |= set(range(int(first), int(last or first) + 1))
    return found


def sources():
    """{program: text} of what is under tests/."""
    texts = {}
    for top, folders, files in os.walk(os.path.join(SRC, "tests")):
        folders[:] = [f for f in folders if f not in ("data", "corpus", "__pycache__")]
        for name in files:
            path = os.path.join(top, name)
            if name.endswith((".c", ".h", ".py")) or "." not in name:
                try:
                    texts[os.path.relpath(path, SRC)] = open(path, encoding="utf-8").read()
                except (UnicodeDecodeError, OSError):
                    continue
    return texts


def tests_named(texts):
    """What can stand in backticks: cases, functions of test programs, names of scenarios in tables."""
    names = set()
    for text in texts.values():
        names |= set(re.findall(r"START_TEST\((\w+)\)", text))
        names |= {n[5:] if n.startswith("test_") else n for n in re.findall(r"^\s*def (\w+)\(", text, re.M)}
        names |= set(re.findall(r"^(\w+)\(", text, re.M))
        names |= set(re.findall(r'\{ "(\w+)"', text))
    return names


def missing(cell, texts, names):
    """What the cell names and does not exist."""
    bad = []
    for word in re.findall(r"`([^`]+)`", cell):
        plain = word[5:] if word.startswith("test_") else word
        path = word.split()[0]
        if plain not in names and not os.path.exists(os.path.join(SRC, path)) and \
                not any(f.startswith(path + ".") or os.path.basename(f) == path for f in texts):
            bad.append(word)
    for word in re.findall(r"(?<![\w/`])((?:check|test|sim)_\w+)", re.sub(r"`[^`]*`", "", cell)):
        if not any(re.search(r"/%s(\.c|\.py)?$" % word, f) for f in texts):
            bad.append(word)
    for word in re.findall(r"\bS\d+-[\w-]+\.txt", cell):
        if not os.path.exists(os.path.join(SRC, "tests/data/raft", word)):
            bad.append(word)
    return bad


def main():
    doc = open(os.path.join(SRC, "doc/testing.md"), encoding="utf-8").read()
    texts = sources()
    names = tests_named(texts)
    have, bad = set(), 0
    for number, line in enumerate(doc.splitlines(), 1):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("| S") or len(cells) < 2 or not numbers(cells[0]):
            continue
        for word in missing(cells[-1], texts, names):
            print("doc/testing.md:%d: %s does not exist" % (number, word))
            bad = 1
        named = re.search(r"`|\b(check|test|sim)_\w|\bS\d+-\w|tests/|\bseeds\b", cells[-1])
        if not named and "not covered, because" not in cells[-1]:
            print("doc/testing.md:%d: names no test" % number)
            bad = 1
        have |= numbers(cells[0])
    for number in sorted(NEEDED - have):
        print("doc/testing.md: no row for S%d" % number)
        bad = 1
    for name in sorted(os.listdir(os.path.join(SRC, "tests/data/raft"))):
        if name.startswith("S") and name not in doc:
            print("doc/testing.md: does not mention tests/data/raft/%s" % name)
            bad = 1
    return bad


sys.exit(main())
