#!/usr/bin/env python3
"""Sets of access rules against a plain evaluator: random policies and requests, each answered by tests/unit/acl_eval too.

    tests/unit/check_acl_model.py [-n SETS] [-s SEED]

The evaluator has no tables: for each request it goes through all rules of all policies, as the documentation says it.
"""
import argparse
import json
import os
import random
import subprocess
import sys

BUILD = os.environ.get("TV_BUILD") or os.getcwd()
NAMED = ["agent", "event", "key", "node", "query", "service", "session"]
PLAIN = ["acl", "keyring", "mesh", "operator", "peering"]
RESOURCES = NAMED + PLAIN + ["intention"]
RANK = {"read": 1, "list": 2, "write": 3, "deny": 4}    # which rule prevails
GIVES = {"deny": 0, "read": 1, "list": 2, "write": 3}   # what it allows
ASKS = 6                                                # of each set


# -- the model ----------------------------------------------------------------------------------------

def prevailing(rules, field):
    """The rule whose field prevails over the others', the first of equals; None without any."""
    given = [r for r in rules if r.get(field)]
    return max(given, key=lambda r: RANK[r[field]]) if given else None


def merged(rules, resource, prefix, name):
    """(access, rule, by intentions) of all rules about that name, or None."""
    about = "service" if resource == "intention" else resource
    same = [r for r in rules if r["resource"] == about and r["prefix"] == prefix and r["name"] == name]
    rule = prevailing(same, "policy")
    if rule is None:
        return None
    if resource != "intention":
        return rule["policy"], rule, False
    asked = prevailing(same, "intentions")
    if asked is not None:
        return asked["intentions"], asked, True
    return ("read" if rule["policy"] in ("read", "write") else "deny"), rule, False


def covering(rules, resource, name, exact=True):
    if resource in PLAIN:
        name = ""
    if exact and merged(rules, resource, False, name):
        return merged(rules, resource, False, name)
    for n in range(len(name), -1, -1):
        found = merged(rules, resource, True, name[:n])
        if found:
            return found
    return None


def meant(rules, resource):
    """Operator stands for mesh and peering where nothing is said of them."""
    silent = resource in ("mesh", "peering") and not any(r["resource"] == resource for r in rules)
    return "operator" if silent else resource


def default(resource, allow):
    return "write" if allow and resource != "acl" else "deny"


def extremes(rules, resource, allow):
    """The most that some name has, and the least that every name has."""
    resource = meant(rules, resource)
    about = "service" if resource == "intention" else resource
    kinds = {(r["prefix"], r["name"]) for r in rules if r["resource"] == about}
    rest = merged(rules, resource, True, "")
    all_of = [merged(rules, resource, *kind)[0] for kind in kinds] + ([] if rest else [default(resource, allow)])
    return max(all_of, key=GIVES.get), min(all_of, key=GIVES.get)


def answer(rules, resource, name, allow):
    """A line as acl_eval writes it."""
    resource = meant(rules, resource)
    found = covering(rules, resource, name)
    access, why = default(resource, allow), "default"
    if found:
        rule = found[1]
        access, why = found[0], f"{rule['in']} {rule['line']} {int(rule['prefix'])} {int(found[2])}"
        if rule["prefix"] is False and name != rule["name"]:
            raise AssertionError("the model is wrong")
    if resource == "intention" and name == "*":
        most, least = extremes(rules, resource, allow)
        access, why = ("write" if least == "write" else "read" if most != "deny" else "deny"), "all"
    below = covering(rules, resource, name, exact=False)
    about = "service" if resource == "intention" else resource
    writes = (below[0] if below else default(resource, allow)) == "write"
    for r in rules:
        if r["resource"] == about and r["name"].startswith(name):
            writes = writes and merged(rules, resource, r["prefix"], r["name"])[0] == "write"
    return f"{access} {int(writes)} {why}"


# -- policies and requests ------------------------------------------------------------------------------

def random_name(rng):
    """Short, of few letters: so that rules meet."""
    return "".join(rng.choice("ab/*\xe9") for _ in range(rng.choice([0, 0, 1, 1, 2, 2, 3, 4, 6])))


def random_rule(rng, few):
    resource = rng.choice(few)
    if resource in PLAIN:
        return {"resource": resource, "prefix": True, "name": "", "policy": rng.choice(["deny", "read", "write"])}
    rule = {"resource": resource, "prefix": rng.random() < 0.6, "name": random_name(rng),
            "policy": rng.choice(["deny", "read", "write", "write"] + (["list"] if resource == "key" else []))}
    if resource == "service" and rng.random() < 0.5:
        rule["intentions"] = rng.choice(["deny", "read", "write"])
    return rule


def as_text(rng, rules):
    """A policy's text with one rule a line, as HCL or as JSON; sets each rule's line."""
    hcl = rng.random() < 0.6
    lines = []
    for number, r in enumerate(rules, 1):
        word = r["resource"] + ("_prefix" if r["prefix"] and r["resource"] in NAMED else "")
        fields = {k: r[k] for k in ("policy", "intentions") if k in r}
        r["line"] = number
        if r["resource"] in PLAIN:
            lines.append(f'{word} = "{r["policy"]}"' if hcl else f'"{word}": "{r["policy"]}"')
        elif hcl:
            lines.append(f'{word} "{r["name"]}" {{ ' + rng.choice([" ", ", "]).join(f'{k} = "{v}"' for k, v in fields.items()) +
                         " }" + rng.choice(["", " # x", " // } {", " /* \" */"]))
        else:
            lines.append(f"{json.dumps(word)}: {json.dumps({r['name']: fields}, ensure_ascii=rng.random() < 0.5)}")
    return "\n".join(lines) if hcl else "{" + ",\n".join(lines) + "}"


def once_each(rules):
    """Of rules about a resource without names in one text, the last one counts, in the line where it stands."""
    last = {r["resource"]: r for r in rules if r["resource"] in PLAIN}
    return [r for r in rules if r["resource"] not in PLAIN or last[r["resource"]] is r]


def hexed(text):
    return text.encode().hex() or "-"


def unhexed(word):
    return bytes.fromhex(word).decode() if len(word) % 2 == 0 and set(word) <= set("0123456789abcdef") else word


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("-n", type=int, default=10000, help="sets of policies")
    ap.add_argument("-s", type=int, default=94392085)
    args = ap.parse_args()
    rng = random.Random(args.s)
    asked, expected = [], []
    for _ in range(args.n):
        few, rules, allow = rng.sample(NAMED + PLAIN, rng.choice([1, 1, 2, 4])), [], rng.random() < 0.5
        for policy in range(rng.choice([0, 1, 1, 2, 3])):
            own = [random_rule(rng, few) for _ in range(rng.choice([0, 1, 2, 4, 8, 16]))]
            asked.append("policy " + hexed(as_text(rng, own)))
            expected.append("ok")
            for r in own:
                r["in"] = policy
            rules += once_each(own)
        asked.append("set " + ("allow" if allow else "deny"))
        expected.append(None)
        if "service" in few:
            few.append("intention")
        for _ in range(ASKS):
            resource = rng.choice(few + [rng.choice(RESOURCES)])
            name = rng.choice([r["name"] for r in rules] or [""]) if rng.random() < 0.3 else random_name(rng)
            asked.append(f"ask {resource} {hexed(name)}")
            expected.append(answer(rules, resource, name, allow))
        resource = rng.choice(few)
        asked.append("any " + resource)
        expected.append(" ".join(extremes(rules, resource, allow)))
    program = os.path.join(BUILD, "tests", "unit", "acl_eval")
    done = subprocess.run([program], input="\n".join(asked) + "\n", stdout=subprocess.PIPE, text=True, check=False)
    got = done.stdout.splitlines()
    if done.returncode != 0 or len(got) != len(expected):
        sys.exit(f"acl_eval ended with {done.returncode} after {len(got)} of {len(expected)} answers")
    start = 0
    for at, (want, is_) in enumerate(zip(expected, got)):
        start = at if at > 0 and asked[at - 1].startswith("any") else start
        if want is not None and want != is_:
            for line in asked[start:at + 1]:
                verb, *rest = line.split()
                print(verb, *[unhexed(x) for x in rest])
            sys.exit(f"seed {args.s}: {is_!r} instead of {want!r}")
    kinds = {}
    for line, want in zip(asked, expected):
        if line.startswith("ask"):
            kinds[want.split()[0]] = kinds.get(want.split()[0], 0) + 1
    print(f"{args.n} sets, {sum(kinds.values())} requests as the model says:", kinds)


if __name__ == "__main__":
    main()
