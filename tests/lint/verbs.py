#!/usr/bin/env python3
"""clusterctl(8) and the table of clusterctl's verbs (ctl/verbs.c) say the same: each form that `clusterctl help` shows is an
item of the page, with the same options and arguments, and no item is without one.  The options of all commands are items too.
"""
import os
import re
import subprocess
import sys

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def told(*words):
    return subprocess.run(["ctl/clusterctl", "help", *words], check=True, capture_output=True, text=True).stdout


def forms():
    """{"kv get [--stale] [--dc DC] KEY", ...} and the options of all commands, from the program."""
    overview = told()
    names = re.findall(r"^  ([a-z-]+) ", overview, re.M)
    found = {f for n in names for f in re.findall(r"^(?:usage:|      ) clusterctl (.*)$", told(n), re.M)}
    return found, set(re.findall(r"\[(--[^]]*)\]", overview.split("COMMAND")[0]))


def plain(item):
    """"Cm kv get Oo Fl -stale Oc Ar key" as the program writes it: "kv get [--stale] KEY"."""
    out, closing, style, glue = [], 0, str, True
    for word in re.findall(r'"[^"]*"|\S+', item):
        if word in ("Cm", "Li"):
            style = str
        elif word == "Ar":
            style = str.upper
        elif word == "Fl":
            style = "-{}".format
        elif word == "Ns":
            glue = True
        elif word in ("Oo", "Op"):
            out += ["" if glue else " ", "["]
            glue, closing = True, closing + (word == "Op")
        elif word == "Oc":
            out.append("]")
        else:
            text = word if word in ("|", "=") else style(word.replace(r"\&", ""))
            out += ["" if glue or word in ("|", "...") or out[-1:] == ["|"] else " ", text]
            glue = False
    return "".join(out) + "]" * closing


def main():
    with open(os.path.join(SRC, "man", "clusterctl.8"), encoding="utf-8") as f:
        text = f.read()
    head, commands = text.split("\n.Sh HANDLERS")[0].split("The commands are:\n")
    items = {plain(i) for i in re.findall(r"^\.It (Cm .*)$", commands, re.M)}
    shared = {plain(i) for i in re.findall(r"^\.It (.*)$", head, re.M)} - {"--help"}
    known, globals_ = forms()
    for form in sorted(known - items):
        print("man/clusterctl.8: no item for: clusterctl " + form)
    for item in sorted(items - known):
        print("man/clusterctl.8: clusterctl has no such form: " + item)
    for option in sorted(shared ^ globals_):
        print("man/clusterctl.8 and ctl/verbs.c do not both have: " + option)
    return 0 if known and known == items and shared == globals_ else 1


sys.exit(main())
