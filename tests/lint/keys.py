#!/usr/bin/env python3
"""The manual pages of the configuration files and the option tables say the same.

Each daemon prints its tables with -n.  Every key printed has an item in man/NAME.conf.5, no item is
without a key, and the item names the default, the bounds and the choices that the table has.
What --help names as options are those of man/NAME.8, and the manual pages that it names are there.
"""
import os
import re
import subprocess
import sys
import tempfile

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DAEMONS = ["gossipd", "raftd", "rpcd"]
# Their defaults depend on the machine or on other keys: the page says how.
DERIVED = {"node_name", "bind", "advertise", "advertise_wan", "cluster_key", "server_key", "server_pub"}
NS = {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
SIZE = {"k": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def normal(word):
    """One spelling for each value: 1m0s and 60s, 512k and 524288."""
    if re.fullmatch(r"\d+[kMGT]", word):
        return str(int(word[:-1]) * SIZE[word[-1]])
    parts = re.findall(r"(\d+)(ns|us|\u00b5s|ms|s|m|h)", word)
    if parts and "".join(n + u for n, u in parts) == word:
        return "%dns" % sum(int(n) * NS[u] for n, u in parts)
    return word


def tables(daemon):
    """{file: {key: (value or None, [bounds and choices])}} from `daemon -n`."""
    with tempfile.TemporaryDirectory() as empty:
        out = subprocess.run([os.path.join(daemon, daemon), "-n", "-c", empty], check=True, capture_output=True,
                             text=True).stdout
    files, blocks, words, keys = {}, [], [], None
    for line in out.splitlines():
        text = line.strip()
        head = re.fullmatch(r"# --- .*/(\S+) ---", text)
        pair = re.fullmatch(r"(?:# )?([A-Za-z0-9_]+) = (.*)", text)
        if head:
            keys = files.setdefault(head.group(1), {})
        elif text.endswith("{"):
            blocks.append(text[:-1].strip())
        elif text == "}":
            blocks.pop()
        elif pair:
            value = None if text.startswith("#") else pair.group(2)
            keys[".".join(blocks + [pair.group(1)])] = (value, words)
            words = []
        elif text.startswith("#"):
            last = re.search(r"\(([^()]*)\)$", text)
            words = []
            if last and "|" in last.group(1):
                words = last.group(1).split("|")
            elif last:
                bounds = re.fullmatch(r"(?:at least |at most )?(\S+?)(?: to (\S+))?", last.group(1))
                words = [w for w in bounds.groups() if w] if bounds else []
    return files


def items(page):
    """{key: set of normalised words} of the .It items with a key."""
    found, key = {}, None
    for line in open(page, encoding="utf-8"):
        item = re.match(r"\.It (?:Ic|Cm|Va|Sy|Li) (\S+)\s*$", line)
        if item:
            key = item.group(1)
            found[key] = set()
        elif re.match(r"\.(?:Sh|It|El)\b", line) and " Ta " not in line:  # rows of a table are text
            key = key if line.startswith(".El") else None
        elif key:
            found[key] |= {normal(w.strip(',;:.()"')) for w in line.replace("\\(dq", " ").replace("\\-", "-").split()}
    return found


def wanted(key, value, words):
    want = list(words)
    if value is not None and key not in DERIVED:
        want += re.findall(r'"((?:[^"\\]|\\.)*)"', value) if value[0] in '["' else [value]
    return [w for w in want if w]


def usage(daemon):
    """What is wrong with --help, in sentences."""
    text = subprocess.run([os.path.join(daemon, daemon), "--help"], check=True, capture_output=True, text=True).stdout
    shown = set(re.findall(r"^  (-\w)|(?<=, )(--\w+)", text, re.M))
    # The page that is installed names the folder that the program reads.
    folder = re.search(r"instead of (/\S+)", text).group(1)
    with open(os.path.join("man", "built", daemon + ".8"), encoding="utf-8") as f:
        if ".Pa %s .\n" % folder not in f.read():
            yield "man/built/%s.8: does not name %s, where %s looks" % (daemon, folder, daemon)
    with open(os.path.join(SRC, "man", daemon + ".8"), encoding="utf-8") as f:
        items = re.findall(r"^\.It (Fl .*)", f.read(), re.M)
    told = set("-" + w for i in items for w in re.findall(r"Fl (\S+)", i))
    for option in sorted(told ^ {a or b for a, b in shown}):
        yield "%s: %s is %s" % (daemon, option, "not in --help" if option in told else "not in the manual")
    pages = re.findall(r"(\S+)\((\d)\)", text)
    for name, section in pages or [(daemon, "8")]:
        if not pages or not os.path.exists(os.path.join(SRC, "man", name + "." + section)):
            yield "%s: --help names no page %s(%s) that is there" % (daemon, name, section)


def main():
    bad = 0
    for daemon in DAEMONS:
        if not os.access(os.path.join(daemon, daemon), os.X_OK):
            print("%s is not built" % daemon)
            bad = 1
            continue
        for what in usage(daemon):
            print(what)
            bad = 1
        for file, keys in tables(daemon).items():
            page = os.path.join(SRC, "man", file + ".5")
            if not os.path.exists(page):
                print("%s: no such page" % page)
                bad = 1
                continue
            documented = items(page)
            for key in sorted(set(keys) ^ set(documented)):
                print("%s: %s %s" % (page, key, "is missing" if key in keys else "is no key of the table"))
                bad = 1
            for key in sorted(set(keys) & set(documented)):
                for word in wanted(key, *keys[key]):
                    if not all(normal(w) in documented[key] for w in word.split()):
                        print("%s: %s: does not say %s" % (page, key, word))
                        bad = 1
    return bad


sys.exit(main())
