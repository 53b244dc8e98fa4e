#!/usr/bin/env python3
"""The floor under the tests: tests/expected.txt names every test program with its number of cases.

    tests/lint/expected.py                              does the list say what the tree holds? (in `make check`)
    tests/lint/expected.py --update                     writes the list: after each test that came or went
    tests/lint/expected.py --judge check FOLDER...      did `make check` in this build folder run all that is expected? (lints:
                                                        where the sources are)
    tests/lint/expected.py --judge-one PART NAME COUNT  the same of one program of system or interop
    tests/lint/expected.py --skip PART NAME REASON      may this be skipped where all of it should run (CI=true)?

A line is "PART PROGRAM CASES"; CASES is - where a program has none that can be counted.  PART is "check" (TESTS of the make
files), "system" or "interop".  tests/skips.txt names what may be skipped in continuous integration, and why.
"""
import ast
import glob
import os
import re
import subprocess
import sys

SRC = os.environ.get("srcdir") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIST, SKIPS = os.path.join(SRC, "tests", "expected.txt"), os.path.join(SRC, "tests", "skips.txt")
HEAD = "# Test programs and their cases: tests/lint/expected.py --update writes this, run-all and .ci/run hold it.\n"


# -- what the tree holds ----------------------------------------------------------------------------

def read(path):
    with open(os.path.join(SRC, path), encoding="utf-8") as f:
        return f.read()


def makefile(path, variables):
    """Variables of a make file and of those that it includes, as if every condition held."""
    text = re.sub(r"\\\n", " ", read(path))
    for line in text.splitlines():
        if line.startswith("include "):
            makefile(line.split()[1], variables)
        found = re.match(r"(\w+)\s*(\+?=)(.*)", line)
        if found:
            name, how, value = found.groups()
            variables[name] = (variables.get(name, "") if how == "+=" else "") + " " + value


def expand(text, variables):
    return re.sub(r"\$\((\w+)\)", lambda m: " ".join(expand(variables.get(m.group(1), ""), variables)), text).split()


def unit_cases(program, variables):
    """Cases of a program with Check: those of its sources."""
    sources = expand(variables.get(re.sub(r"\W", "_", program) + "_SOURCES", ""), variables)
    return sum(len(re.findall(r"^START_TEST\(", read(s), re.M)) for s in sources if s.endswith(".c")) or None


def python_cases(path):
    """How many functions a test gives to main()."""
    tree = ast.parse(read(path))
    tests = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    nodes = list(ast.walk(tree))
    lists = {t.id: len(n.value.elts) for n in nodes if isinstance(n, ast.Assign) and isinstance(n.value, (ast.List, ast.Tuple))
             for t in n.targets if isinstance(t, ast.Name)}
    for n in nodes:
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "main":
            return sum(starred(a, tests, lists, path) if isinstance(a, ast.Starred) else 1 for a in n.args)
    raise SystemExit("%s does not end in main(...)" % path)


def starred(arg, tests, lists, path):
    """main(*[...]): of a list that is written down, or all functions whose names begin with test_."""
    names = [n.id for n in ast.walk(arg) if isinstance(n, ast.Name)]
    for name in names:
        if name in lists:
            return lists[name]
    if "globals" in names:
        return len(tests)
    raise SystemExit("%s: tests/lint/expected.py cannot count what main() gets" % path)


def tree():
    variables = {}
    makefile("Makefile.am", variables)
    lines = set()
    for program in expand(variables["TESTS"], variables):
        lines.add("check %s %s" % (program, unit_cases(program, variables) or "-"))
    for part in ("system", "interop"):
        for path in glob.glob(os.path.join(SRC, "tests", part, "test_*.py")):
            path = os.path.relpath(path, SRC)
            lines.add("%s %s %d" % (part, os.path.basename(path)[:-3], python_cases(path)))
    return sorted(lines)


# -- what the lists say -----------------------------------------------------------------------------

def listed():
    return [line for line in read("tests/expected.txt").splitlines() if line and line[0] != "#"]


def expected(part):
    """{program: cases, or None}"""
    return {name: None if count == "-" else int(count) for p, name, count in map(str.split, listed()) if p == part}


def skips():
    """[(pattern of "part program: reason", why)]"""
    rows = [line.split("\t") for line in read("tests/skips.txt").splitlines() if line and line[0] != "#"]
    for row in rows:
        assert len(row) == 2 and row[1].strip(), "tests/skips.txt: a pattern, a tab and a reason: %r" % row
    return rows


def may_skip(text):
    return any(re.fullmatch(pattern, text) for pattern, _ in skips())


# -- verdicts ---------------------------------------------------------------------------------------

def lint():
    have, want = set(listed()), set(tree())
    for line in sorted(want - have):
        print("tests/expected.txt lacks: " + line)
    for line in sorted(have - want):
        print("tests/expected.txt has, and the tree does not: " + line)
    skips()
    if have != want:
        print("tests/lint/expected.py --update writes it anew; is a test lost?")
    return 1 if have != want else 0


def built(folder):
    """Programs that `make check` of this folder knows, and what configure said of Check."""
    said = subprocess.run(["make", "-s", "-C", folder, "tests-known"], capture_output=True, text=True, check=True).stdout.split()
    return set(said[1:]), said[0]


def executed(folder, program):
    """How a program of `make check` ended, and how many cases of Check it ran, by its files; (None, 0): it did not run."""
    base = os.path.join(folder, program)
    try:
        with open(base + ".trs") as f:
            result = re.search(r":test-result: (\w+)", f.read()).group(1)
        with open(base + ".log", errors="replace") as f:
            return result, sum(map(int, re.findall(r"^\d+%: Checks: (\d+),", f.read(), re.M)))
    except FileNotFoundError:
        return None, 0


def judge_check(folder):
    """After `make check`: every program that is expected ran, and as many of its cases as it has."""
    known, check = built(folder)
    wrong, elsewhere = [], not os.path.samefile(folder, SRC)
    if check == "no":
        wrong.append("unit tests are not built: install Check (Debian: check) and configure again, or ./configure --without-check")
    for program, count in sorted(expected("check").items()):
        unit = program.startswith("tests/unit/check_")
        if unit and check != "yes" or elsewhere and program.startswith("tests/lint/"):
            continue
        result, ran = executed(folder, program) if program in known else (None, 0)
        if result is None:
            wrong.append("%s is expected, and did not run" % program)
        elif result == "PASS" and count is not None and ran < count:
            wrong.append("%s ran %d of %d cases" % (program, ran, count))
        elif result == "SKIP" and os.environ.get("CI") == "true" and not may_skip("check " + program):
            wrong.append("%s was skipped; what may be is in tests/skips.txt" % program)
    for text in wrong:
        print("FAIL: " + text)
    return 1 if wrong else 0


def judge_one(part, name, count):
    want = expected(part).get(name)
    if want is None or int(count) < want:
        print("FAIL: %s: %s of %s cases were executed" % (name, count, want if want is not None else "no known number of"))
        return 1
    return 0


def main(args):
    if not args:
        return lint()
    if args == ["--update"]:
        lines = tree()
        with open(LIST, "w", encoding="utf-8") as f:
            f.write(HEAD + "".join(line + "\n" for line in lines))
        return 0
    if args[:2] == ["--judge", "check"] and len(args) == 3:
        return judge_check(args[2])
    if args[0] == "--judge-one" and len(args) == 4:
        return judge_one(*args[1:])
    if args[0] == "--skip" and len(args) == 4:
        return 0 if may_skip("%s %s: %s" % tuple(args[1:])) else 1
    print(__doc__)
    return 2


sys.exit(main(sys.argv[1:]))
