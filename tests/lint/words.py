#!/usr/bin/env python3
"""Words that no log line, error or help text uses, no comment, and no name of a static function.

One error has one wording, a process is no person, and a name in a backtrace says what is done to what.  Literals that
stand beside each other are one text.
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
# In a comment: which caller, thread or process is it?
RIDDLES = re.compile(r"(?<!\")\b(nobody|somebody|whoever|whom|he|his|him|who asks|who reads)\b", re.I)
# Names that say nothing where another file has the same one: tell_members and judge_peer are right.
VERBS = set("tell judge look looked take ask keep put note give find finish run start begin stop end add drop fail answer".split())
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


def riddles(source):
    """[(line, word)] of the comments."""
    found = []
    for m in TOKEN.finditer(source):
        if m.group().startswith("/"):
            text = re.sub(r"\n[ \t]*\*?", lambda n: "\n" + " " * (len(n.group()) - 1), m.group())
            for word in re.finditer(RIDDLES.pattern.replace("who ", r"who\s+"), text, re.I):
                found.append((source.count("\n", 0, m.start() + word.start()) + 1, " ".join(word.group().split())))
    return found


def bare_names(source):
    """[(line, name)] of the static functions that have no better name than a verb, each once."""
    code = re.sub(r"__attribute__\(\(.*?\)\)+", lambda m: " " * len(m.group()), source)
    found = {}
    for m in re.finditer(r"^static\b[^;={}()#]*?\b(\w+)\(", code, re.M):
        if m.group(1) in VERBS:
            found.setdefault(m.group(1), source.count("\n", 0, m.start(1)) + 1)
    return [(line, name) for name, line in found.items()]


def faults(name, source):
    """[sentence] about the comments and names of one file."""
    found = [f"{name}:{line}: static {verb}(): a name that says what it does to what" for line, verb in bare_names(source)]
    return found + [f'{name}:{line}: "{word}": which caller, thread or process?' for line, word in riddles(source)]


def self_test():
    source = 'f("a peer\'s answer does "\n  "not read"); /* "who asks" */\ng("it reads", "no rooms");'
    found = [(line, w) for line, text in texts(source) for w in wrong_words(text)]
    assert found == [(1, "does not read")], found
    source = "/* The one who\n * asks; this. */\nint look(int);\t/* whoever */\nchar *his = \"his\";"
    assert riddles(source) == [(1, "who asks"), (3, "whoever")], riddles(source)
    source = "static int\t look(int);\nstatic inline void\nlook_at(int a)\n{\n\tkeep(a);\n}\n\nstatic int\nlook(int a)\n" \
             "{\n}\n\nstatic void __attribute__((noreturn))\n*fail(void)\n{\n}\n\nint\nput(void)\n{\n}\n"
    assert bare_names(source) == [(1, "look"), (14, "fail")], bare_names(source)


def main():
    self_test()
    looked_at = wrong = 0
    for path in sorted(p for d in FOLDERS for p in glob.glob(os.path.join(TOP, d, "**", "*.[ch]"), recursive=True)):
        with open(path, encoding="utf-8") as f:
            source = f.read()
        name = os.path.relpath(path, TOP)
        for sentence in faults(name, source):
            print(sentence)
            wrong += 1
        for line, text in texts(source):
            looked_at += 1
            for word in wrong_words(text):
                print('%s:%d: "%s": write "%s"' % (name, line, word, WORDS[word]))
                wrong += 1
    return 1 if wrong or not looked_at else 0


sys.exit(main())
