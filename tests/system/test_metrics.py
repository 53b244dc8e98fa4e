#!/usr/bin/env python3
"""Metrics for Prometheus: the text is what its format allows, and says what happened."""
import math
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from clockfault import ClockFault, missing  # noqa: E402
from cluster import TOP, Cluster, main, skip  # noqa: E402
from tlskit import tls  # noqa: E402
from waiting import need, wait_for  # noqa: E402

NET = os.environ.get("TV_NET", "127.74.0")
CALM = {"election_timeout": "2s"}        # a busy machine moves no leader
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r"(%s)(?:\{((?:[a-zA-Z_]\w*=\"(?:[^\"\\\n]|\\[\\\"n])*\",?)+)\})? (\S+)" % NAME)
LABEL = re.compile(r"([a-zA-Z_]\w*)=\"((?:[^\"\\\n]|\\[\\\"n])*)\"(?:,|$)")
# What may follow the name of a family in its lines.
ENDS = {"counter": ("",), "gauge": ("",), "summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}
LATENCIES = ("triumvir_rpcd_http_seconds", "triumvir_rpcd_link_seconds", "triumvir_raft_commit_seconds",
             "triumvir_raft_sync_seconds")


def parse(text):
    """{family: (type, [(end, labels, value)])} in the order of the text; AssertionError for what format 0.0.4 does not allow."""
    families, helped = {}, []
    assert text.endswith("\n"), text[-100:]
    for line in text[:-1].split("\n"):
        head = re.fullmatch(r"# (HELP|TYPE) (%s) ((?:[^\\]|\\\\|\\n)+)" % NAME, line)
        if head and head.group(1) == "HELP":
            assert head.group(2) not in helped, "a second time: " + line
            helped.append(head.group(2))
        elif head:
            assert head.group(2) == helped[-1] and helped[-1] not in families and head.group(3) in ENDS, line
            families[helped[-1]] = (head.group(3), [])
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            name, labels, number = sample.groups()
            kind, lines = families[helped[-1]]
            end = name[len(helped[-1]):]
            assert name.startswith(helped[-1]) and end in ENDS[kind], line
            pairs = dict(LABEL.findall(labels or ""))
            assert (end, pairs) not in [s[:2] for s in lines], "a second time: " + line
            lines.append((end, pairs, float(number)))
    assert helped == list(families), "without TYPE: %s" % (set(helped) - set(families))
    return families


def value(families, name, end=""):
    return [v for e, labels, v in families[name][1] if e == end and not labels][0]


# Families of several lines, each with this label.
LABELLED = {"triumvir_raft_peer_lag": ("gauge", "peer"), "triumvir_rpcd_endpoint_requests": ("counter", "endpoint")}


def judge(families):
    """What holds for any text of ours."""
    for name, (kind, lines) in families.items():
        assert lines, name
        if name in LABELLED:
            assert (kind, {end for end, _, _ in lines}) == (LABELLED[name][0], {""}), lines
            assert all(set(labels) == {LABELLED[name][1]} and v >= 0 for _, labels, v in lines), lines
            continue
        if kind in ("counter", "gauge"):
            assert len(lines) == 1 and lines[0][1] == {} and lines[0][2] >= 0, (name, lines)
            continue
        count, total = value(families, name, "_count"), value(families, name, "_sum")
        assert count == int(count) and total >= 0 and (count > 0 or total == 0), (name, count, total)
        if kind == "summary":
            quantiles = [(float(labels["quantile"]), v) for end, labels, v in lines if end == ""]
            assert [q for q, _ in quantiles] == [0.5, 0.9, 0.99], name
            assert all(math.isnan(v) for _, v in quantiles) if count == 0 else sorted(quantiles, key=lambda q: q[1]) == quantiles, lines
        else:
            buckets = [(float(labels["le"]), v) for end, labels, v in lines if end == "_bucket"]
            assert [b for b, _ in buckets] == sorted({b for b, _ in buckets}) and buckets[-1] == (math.inf, count), (name, lines)
            assert [v for _, v in buckets] == sorted(v for _, v in buckets), (name, lines)
            # No more than all at the ends of their buckets, no less than all at the beginnings.
            whole = buckets[-2][1] == count
            steps = [(b, v - before) for (b, v), before in zip(buckets, [0] + [v for _, v in buckets])]
            assert not whole or total <= sum(b * n for b, n in steps if n) * 1.0001, (name, total, steps)


HEAD = "# HELP a x\n# TYPE a counter\n"
HISTOGRAM = "# HELP h x\n# TYPE h histogram\n%sh_sum 3\nh_count 2\n"
BUCKETS = 'h_bucket{le="1"} %d\nh_bucket{le="2"} %d\nh_bucket{le="+Inf"} %d\n'


def test_the_judge_is_strict():
    for good in HEAD + "a 1\n", HISTOGRAM % (BUCKETS % (1, 2, 2)), "# HELP a b\\\\c\\nd\n# TYPE a gauge\na 1e+09\n":
        judge(parse(good))
    for bad in ("a 1\n", HEAD, HEAD + "a 1", HEAD + "a 1\n\n", HEAD + "a 1\na 2\n", HEAD + "b 1\n", HEAD + "a_sum 1\n", HEAD + "a -1\n",
                HEAD + "a  1\n", HEAD + "a x\n", HEAD + 'a{b="c} 1\n', HEAD + 'a{b="\\x"} 1\n', HEAD + "a 1\n" + HEAD + "a 1\n",
                HEAD + "# HELP b x\na 1\n", "# TYPE a counter\na 1\n", "# HELP a b\\c\n# TYPE a gauge\na 1\n",
                HISTOGRAM % (BUCKETS % (2, 1, 2)), HISTOGRAM % (BUCKETS % (1, 1, 1)), HISTOGRAM % (BUCKETS % (2, 2, 2)),
                HISTOGRAM % 'h_bucket{le="+Inf"} 2\nh_bucket{le="1"} 1\n', HISTOGRAM % ""):
        try:
            judge(parse(bad))
        except (AssertionError, IndexError, KeyError, ValueError):
            continue
        raise AssertionError("taken for good: %r" % bad)


def scrape(node):
    r = node.get("/v1/agent/metrics?format=prometheus").ok()
    assert r.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", r.headers
    families = parse(r.text)
    judge(families)
    return families


def whole(node, *names):
    """The metrics once all daemons of the node have answered."""
    families = scrape(node)
    need(all(n in families for n in names), list(families))
    return families


def test_format():
    with Cluster(NET) as c:
        n1 = c.add("n1", 1, raftd={"bootstrap": True}, rpcd={"prometheus_retention_time": "0s"}).start()
        c1 = c.client("c1", 2, n1)
        c.formed([n1, c1])
        off = n1.get("/v1/agent/metrics?format=prometheus")
        assert (off.status, off.text) == (415, "Prometheus is not enabled since its retention time is not positive"), off
        n1.write("rpcd.conf", {"http_addresses": [n1.addr], "http_admin": True})
        n1.put("/v1/agent/reload").ok()
        for node, names in (n1, LATENCIES + ("triumvir_events_wan_events_heard",)), (c1, LATENCIES[:2] + ("triumvir_gossipd_probes",)):
            a = wait_for("all of %s answer" % node.name, lambda: whole(node, *names))
            b = wait_for("again", lambda: whole(node, *names))
            assert list(a) == list(b), "another order"
            for name, (kind, lines) in a.items():
                if name == "triumvir_rpcd_endpoint_requests":
                    before, after = ({labels["endpoint"]: v for _, labels, v in f[name][1]} for f in (a, b))
                    assert all(after[e] >= v for e, v in before.items()) and after["GET /v1/agent/metrics"] > 0, (before, after)
                elif kind == "counter":
                    assert value(b, name) >= value(a, name), "%s went back" % name
            kinds = [a[n][0] for n in ("triumvir_rpcd_http_requests", "triumvir_rpcd_uptime_s", "triumvir_gossipd_probes",
                                       "triumvir_serf_lan_members", "triumvir_rpcd_http_p99_us", "triumvir_members_lan")]
            assert kinds == ["counter", "gauge", "counter", "gauge", "gauge", "gauge"], kinds
            # Every number of info is there, by its name, but for what rpcd adds for programs that expect Consul.
            for section, values in node.get("/v1/agent/self").json()["Stats"].items():
                if section not in ("keyring", "agent", "build", "consul", "runtime"):
                    numbers = {"triumvir_%s_%s" % (section, n) for n, v in values.items()
                               if re.fullmatch("0|[1-9][0-9]*", v) and n not in ("node_id", "store_id", "cluster_id", "protocol_version")}
                    assert numbers <= set(a), numbers - set(a)


def told_in_the_manual():
    """triumvir-metrics(7): {name for Prometheus: "gauge" or "counter"} of its lists, and all else that it calls by a name."""
    with open(os.path.join(TOP, "man", "triumvir-metrics.7")) as f:
        before, lists = f.read().split(".Sh ALL NAMES\n")
    told, section, kind = {}, None, None
    for line in lists.split(".Sh EXAMPLES")[0].split("\n"):
        if line.startswith(".Ss "):
            section = line[4:]
        elif line in ("Gauges:", "Counters:"):
            kind = line[:-2].lower()
        elif section and line and not line.startswith("."):
            for name in line.split():
                assert told.setdefault("triumvir_%s_%s" % (section, name), kind) == kind, name
    return told, {re.sub(r"\W", "_", word) for word in re.findall(r"(?:triumvir|consul)[._][\w.]*\w", before)
                  if "SECTION" not in word}


def with_https(folder):
    """Keys of rpcd.conf: some metrics are about certificates, and there only where there are any."""
    tls(folder, "ca", "create")
    tls(folder, "cert", "create", "--server")
    cert, key, ca = (os.path.join(folder, n) for n in ("dc1-server-consul-0.pem", "dc1-server-consul-0-key.pem", "consul-agent-ca.pem"))
    if os.geteuid() == 0:
        shutil.chown(key, "root", "_keys")
    os.chmod(key, 0o640)
    return {"https_port": 8501, "tls.https.cert_file": cert, "tls.https.key_file": key, "tls.https.ca_file": ca}


def test_the_manual_has_all_names():
    """Each metric of a server and of a client is in triumvir-metrics(7), as what it is there, and nothing else is."""
    lists, named = told_in_the_manual()
    with Cluster(NET) as c:
        servers = c.servers(2, raftd=dict(CALM), rpcd=dict(with_https(c.dir), prometheus_retention_time="1h"))
        c1 = c.client("c1", 9, servers[0], rpcd={"prometheus_retention_time": "1h"})
        n1 = c.formed(servers)          # the leader: some are its alone
        n1.put("/v1/agent/service/register", {"Name": "db", "Check": {"TTL": "60m"}}).ok()
        seen = wait_for("all of the server", lambda: whole(n1, *LATENCIES, "triumvir_events_wan_events_heard", "triumvir_state_nodes"))
        seen = dict(wait_for("all of the client", lambda: whole(c1, "triumvir_gossipd_probes")), **seen)
        kinds = {name: family[0] for name, family in seen.items()}
        missing = {n: k for n, k in kinds.items() if lists.get(n) != k and n not in named}
        assert not missing, "triumvir-metrics(7) lacks %s" % missing
        gone = (set(lists) | {n for n in named if n.count("_") > 1}) - set(kinds)
        assert not gone, "triumvir-metrics(7) has what is not there: %s" % gone
        # In JSON they have the same names, with dots.
        json_names = {re.sub(r"\W", "_", g["Name"]) for g in n1.get("/v1/agent/metrics").json()["Gauges"]}
        plain = {n for n, k in kinds.items() if k in ("gauge", "counter") and n in scrape(n1) and n.startswith("triumvir_")}
        assert plain <= json_names, plain - json_names


def test_alerts_name_what_there_is():
    """The rules in the chapter "Alerts" of doc/operations.md: each metric exists, counters are rated, each alert is explained."""
    lists, named = told_in_the_manual()
    with open(os.path.join(TOP, "doc", "operations.md")) as f:
        chapter = f.read().split("\n## Alerts\n")[1].split("\n## ")[0]
    table = {a for row in re.findall(r"^\| ([A-Z][\w, ]*) \|", chapter, re.M) for a in row.split(", ")}
    rules = re.findall(r"^          - alert: (\w+)\n            expr: (.+)\n(?:            for: \d+[sm]\n)?", chapter, re.M)
    assert len(rules) == chapter.count("alert: ") >= 15 and table == {name for name, _ in rules}, (table, rules)
    for name, expr in rules:
        for metric, ranged in re.findall(r"(triumvir_\w+)(\[)?", expr):
            known = metric.removesuffix("_bucket")
            assert known in lists or known in named, (name, metric)
            assert bool(ranged) == (lists.get(known) == "counter" or known != metric or "changes(" in expr), (name, expr)


def test_who_leads_and_how_well():
    """Is there a leader, and is it this server; of the leader: are all well, how many may fail, who lacks how much."""
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=dict(CALM), rpcd={"prometheus_retention_time": "1h"})
        leader = c.formed(servers)
        others = [n for n in servers if n is not leader]

        def healthy():
            m = whole(leader, "triumvir_raft_autopilot_healthy")
            need(value(m, "triumvir_raft_autopilot_healthy") == 1, m)
            return m

        m = wait_for("all are well", healthy)
        assert [value(m, "triumvir_raft_" + n) for n in ("is_leader", "has_leader", "autopilot_failure_tolerance")] == [1, 1, 1], m
        for consul, ours in ("server_isLeader", "is_leader"), ("autopilot_healthy",) * 2, ("autopilot_failure_tolerance",) * 2:
            assert value(m, "consul_" + consul) == value(m, "triumvir_raft_" + ours), consul
        assert {labels["peer"] for _, labels, _ in m["triumvir_raft_peer_lag"][1]} == {n.name for n in others}, m
        assert {k for k in leader.stats("raft") if k.startswith("peer_lag.")} == {"peer_lag." + n.name for n in others}
        for n in others:
            m = wait_for("its raftd answers", lambda: whole(n, "triumvir_raft_has_leader"))
            assert (value(m, "triumvir_raft_is_leader"), value(m, "triumvir_raft_has_leader")) == (0, 1), m
            assert not {"triumvir_raft_autopilot_healthy", "triumvir_raft_peer_lag"} & set(m), list(m)
        others[0].kill()
        for i in range(50):
            leader.kv_put("k%d" % i, b"v")

        def behind():
            m = whole(leader, "triumvir_raft_autopilot_healthy")
            lag = {labels["peer"]: v for _, labels, v in m["triumvir_raft_peer_lag"][1]}
            need(value(m, "triumvir_raft_autopilot_healthy") == 0 and value(m, "triumvir_raft_autopilot_failure_tolerance") == 0, m)
            need(lag[others[0].name] >= 50 > lag[others[1].name], lag)
            return True

        wait_for("one is missing", behind)
        others[1].kill()

        def alone():
            m = whole(leader, "triumvir_raft_has_leader")
            need((value(m, "triumvir_raft_is_leader"), value(m, "triumvir_raft_has_leader")) == (0, 0), m)
            need(not {"triumvir_raft_autopilot_healthy", "triumvir_raft_peer_lag"} & set(m), list(m))
            return True

        wait_for("it leads no more", alone)


def test_a_clock_that_is_off():
    """It is told once on both sides, in info and in the metrics: there the figure is large on the server that is wrong alone."""
    if missing():
        skip(missing())
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=dict(CALM), rpcd={"prometheus_retention_time": "1h"})
        c.formed(servers)
        wrong, others = servers[2], servers[:2]
        clock = ClockFault(os.path.join(c.dir, "clock"))
        wrong.stop("raftd")
        wrong.env.update(clock.env)
        clock.jump(600)
        wrong.start("raftd")

        def offset(node):
            return value(whole(node, "triumvir_raftd_clock_offset_ms"), "triumvir_raftd_clock_offset_ms")

        def seen():
            need(599000 < offset(wrong) < 601000, offset(wrong))
            need(all(offset(n) < 1000 for n in others), [offset(n) for n in others])
            need(all("%s +600." % wrong.name in n.stats("raftd")["clock_offsets"] for n in others), others[0].stats("raftd"))
            return True

        wait_for("all see it", seen)
        for n in others:
            assert re.search(r"\[WARN\] raft: the clock of %s \(%s:8300\) is (600|599)\.\d s ahead of this server's" %
                             (wrong.name, wrong.addr), n.log("raftd")), n.log("raftd")
            assert "the clock of %s " % n.name in wrong.log("raftd") and "behind this server's" in wrong.log("raftd")
        clock.jump(0)
        wait_for("all agree", lambda: need(all(offset(n) < 1000 for n in servers), "not yet") or True)
        wait_for("it is told", lambda: all("(%s:8300) and of this server agree again" % wrong.addr in n.log("raftd") for n in others))
        assert all(n.log("raftd").count("the clock of ") == 1 for n in others), others[0].log("raftd")


def counted(node):
    """Counts what it is asked, in node.asked."""
    plain, node.asked = node.http, 0

    def http(*args, **kw):
        node.asked += 1
        return plain(*args, **kw)

    node.http = http


def test_what_was_done_is_counted():
    with Cluster(NET) as c:
        n1 = c.add("n1", 1, raftd={"bootstrap": True}, rpcd={"prometheus_retention_time": "360h"}).start()
        c1 = c.client("c1", 2, n1, rpcd={"prometheus_retention_time": "360h"})
        c.formed([n1, c1])
        c1.up()
        c1.kv_put("k", b"v")
        counted(n1)
        counted(c1)
        a, ca = wait_for("n1", lambda: whole(n1, *LATENCIES)), wait_for("c1", lambda: whole(c1, *LATENCIES[:2]))
        asked, casked = n1.asked, c1.asked
        for i in range(30):
            n1.kv_put("k%d" % i, b"v")
        for i in range(40):
            assert c1.kv_get("k%d" % (i % 30)) == b"v"
        b, cb = wait_for("n1", lambda: whole(n1, *LATENCIES)), wait_for("c1", lambda: whole(c1, *LATENCIES[:2]))

        def grew(before, after, name, end=""):
            return value(after, name, end) - value(before, name, end)

        # The scrapes themselves are requests, too.
        assert grew(a, b, "triumvir_rpcd_http_requests") == n1.asked - asked >= 31, (a, b)
        assert grew(ca, cb, "triumvir_rpcd_http_requests") == c1.asked - casked >= 41, (ca, cb)
        for m in a, b, ca, cb:
            assert value(m, "triumvir_rpcd_http_requests") == \
                value(m, "triumvir_rpcd_http_seconds", "_count") + value(m, "triumvir_rpcd_http_under_way")
            assert value(m, "consul_api_http", "_count") == value(m, "triumvir_rpcd_http_seconds", "_count")
        assert grew(ca, cb, "triumvir_rpcd_link_seconds", "_count") >= 40
        assert 30 <= grew(a, b, "triumvir_raft_commit_seconds", "_count") <= grew(a, b, "triumvir_raft_commit_index")
        assert grew(a, b, "triumvir_raft_sync_seconds", "_count") >= 1
        for m in a, b:
            assert value(m, "triumvir_raft_sync_seconds", "_count") == value(m, "triumvir_raft_syncs")
            # A write is committed after its sync, so it takes longer than the shortest.
            assert value(m, "triumvir_raft_commit_max_us") >= 1 and value(m, "triumvir_raft_sync_max_us") >= 1
        samples = {s["Name"]: s for s in n1.get("/v1/agent/metrics").json()["Samples"]}
        loops = ["triumvir.%s.loop_%s" % (of, what) for of in ("raft", "rpcd") for what in ("turn", "cpu")]
        assert set(samples) - {"triumvir.rpcd.link"} == \
            {"consul.raft.commitTime", "triumvir.raft.sync", "consul.api.http", *loops}, list(samples)
        for s in samples.values():
            assert s["Count"] > 0 and s["Min"] <= s["Mean"] <= s["Max"] and s["Stddev"] >= 0 and s["Labels"] == {}, s
            assert abs(s["Mean"] * s["Count"] - s["Sum"]) <= s["Sum"] * 1e-9, s
        assert samples["consul.raft.commitTime"]["Count"] >= value(b, "consul_raft_commitTime", "_count")
        for of in loops[::2]:
            turn, cpu = samples[of], samples[of.replace("turn", "cpu")]
            assert turn["Count"] == cpu["Count"] and cpu["Min"] > 0, (turn, cpu)
        info = n1.stats("raft")
        assert int(info["commit_max_us"]) >= int(info["commit_p99_us"]) >= int(info["commit_p50_us"]) > 0, info
        assert not any(n.endswith("_histogram") for values in n1.get("/v1/agent/self").json()["Stats"].values() for n in values)


main(test_the_judge_is_strict, test_format, test_the_manual_has_all_names, test_alerts_name_what_there_is, test_who_leads_and_how_well, test_a_clock_that_is_off, test_what_was_done_is_counted)
