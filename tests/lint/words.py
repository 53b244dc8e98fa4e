#!/usr/bin/env python3
"""Words that no log line, error or help text uses: one error has one wording, and a process is no person.

Looks at the string literals of the programs; literals that stand beside each other are one text.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = "common", "ctl", "gossipd", "raftd", "rpcd"
WORDS = {  # what must not come back: what to write instead
    "does not read": "malformed ...",
    "cannot be looked at": "cannot be checked",
    "looked at yet": "checked yet",
    "who asks": "the client, or the requesting server",
    "whom to ask": "agent to ask",
    "nobody answers": "does not answer",
    "nobody can": "no server can",
    "asked for by": "requested by",
    "handing leadership over": "transferring leadership",
    "no room": "no space",
    "has room": "has space",
    "goes on by itself": "resumes by itself",
    "in clear": "plaintext",
    "was turned away": "rejected",
    "take this server in": "add this server",
    "server told": "reported by any server",
    "member told": "reported by any member",
    "written afresh": "rewritten",
}
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.S)


def texts(source):
    """(line, text) of each run of literals."""
    text, begin, end = None, 0, 0
    for m in TOKEN.finditer(source):
        if not m.group().startswith('"'):
            continue
        if text is not None and not source[end:m.start()].strip(" \t\n\\"):
            text += m.group()[1:-1]
        else:
            if text is not None:
                yield source.count("\n", 0, begin) + 1, text
            text, begin = m.group()[1:-1], m.start()
        end = m.end()
    if text is not None:
        yield source.count("\n", 0, begin) + 1, text


def wrong_words(text):
    return [w for w in WORDS if re.search(r"\b%s\b" % w, text, re.I)]


def self_test():
    source = 'f("a peer\'s answer does "\n  "not read"); /* "who asks" */\ng("it reads", "no rooms");'
    found = [(line, w) for line, text in texts(source) for w in wrong_words(text)]
    assert found == [(1, "does not read")], found


def main():
    self_test()
    looked_at = wrong = 0
    for path in sorted(p for d in FOLDERS for p in glob.glob(os.path.join(TOP, d, "**", "*.[ch]"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            source = f.read()
        for line, text in texts(source):
            looked_at += 1
            for word in wrong_words(text):
                print('%s:%d: "%s": write "%s"' % (os.path.relpath(path, TOP), line, word, WORDS[word]))
                wrong += 1
    return 1 if wrong or not looked_at else 0


sys.exit(main())
