#!/usr/bin/env python3
"""Checks that this node runs: TCP, HTTP and scripts, against servers and scripts that do not behave (S158, S188, S189).

Also what becomes of them when one of the processes dies, and what is out of reach from inside.
"""
import glob
import http.server
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from checking import (certificate, in_catalog, one, processes, register, rss_kb, state, the_process,  # noqa: E402
                      wait_state)
from cluster import Cluster, main, rpcd_conf, skip  # noqa: E402
from inject import inside, missing  # noqa: E402
from waiting import wait_for  # noqa: E402

HUNDRED_MB = 100 << 20
AT_FDCWD = -100


# -- a server that does not behave ---------------------------------------------------

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        s = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with s.lock:
            s.asked.append((self.command, self.path, list(self.headers.items()), body))
        path, _, rest = self.path[1:].partition("/")
        try:
            getattr(self, "do_" + path)(rest)
        except (BrokenPipeError, ConnectionResetError):
            pass

    do_GET = do_POST = do_PUT = do_HEAD = serve

    def do_status(self, code):
        self.answer(int(code), b"says " + code.encode())

    def do_state(self, _):
        self.answer(self.server.state, b"state")

    def do_to(self, url):
        self.answer(302, b"", Location=url.replace("%7C", "/"))          # as "|" is sent

    def do_slow(self, _):
        self.server.stop.wait(60)

    def do_drip(self, _):
        self.send_response(200)
        self.end_headers()
        while not self.server.stop.wait(0.05):
            self.wfile.write(b".")
            self.wfile.flush()

    def do_big(self, _):
        self.send_response(200)
        self.send_header("Content-Length", str(HUNDRED_MB))
        self.end_headers()
        for _ in range(HUNDRED_MB >> 16):
            self.wfile.write(b"b" * 65536)
            self.server.sent += 65536

    def do_headers(self, _):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.stop.is_set():
            self.wfile.write(b"X: %s\r\n" % (b"y" * 1000))
            self.server.sent += 1000

    def do_line(self, _):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not self.server.stop.is_set():
            self.wfile.write(b"y" * 65536)
            self.server.sent += 65536

    def do_early(self, _):
        while not self.server.stop.is_set():
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            self.server.sent += 2500

    def do_rubbish(self, _):
        self.wfile.write(b"\0\1\2 this is no HTTP\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, tls=None):
        super().__init__((address, 0), Handler)
        self.lock, self.asked, self.state, self.sent = threading.Lock(), [], 200, 0
        self.stop = threading.Event()
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = "%s://%s:%d" % ("https" if tls else "http", address, self.server_address[1])
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *rest):
        self.stop.set()
        self.shutdown()
        self.server_close()


# -- checks ------------------------------------------------------------------------

def http():
    with Cluster("127.60.151") as c, Server("127.60.151.20") as s, Server("127.60.151.21") as other:
        node = one(c)
        assert processes(node, "network") == [] and len(processes(node, "monitor")) == 1
        port = s.server_address[1]
        checks = {
            "ok": ("/status/200", "passing", "HTTP GET %s/status/200: 200 OK Output: says 200" % s.url),
            "created": ("/status/201", "passing", ": 201 Created Output: says 201"),
            "busy": ("/status/429", "warning", ": 429 Too Many Requests Output: says 429"),
            "teapot": ("/status/418", "critical", "Output: says 418"),
            "broken": ("/status/503", "critical", ": 503 Service Unavailable Output: says 503"),
            "same": ("/to/http:||127.60.151.20:%d|status|200" % port, "passing", "200 OK Output: says 200"),
            "relative": ("/to/|status|200", "passing", "200 OK Output: says 200"),
            "other": ("/to/" + other.url.replace("/", "|") + "|status|200", "critical",
                      "302 Found Output: the redirect to the host 127.60.151.21 is not followed"),
            "scheme": ("/to/file:|||etc|passwd", "critical", "unsupported protocol scheme \"file\""),
            "circle": ("/to/|to||to|", "critical", ""),
            "slow": ("/slow/", "critical", "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
            "drip": ("/drip/", "critical", "Client.Timeout exceeded while reading body"),
            "big": ("/big/", "passing", "200 OK Output: bbbbb"),
            "headers": ("/headers/", "critical", "response headers are longer than 64 KiB"),
            "line": ("/line/", "critical", "Get \"%s/line/\"" % s.url),
            "early": ("/early/", "critical", "response headers are longer than 64 KiB"),
            "rubbish": ("/rubbish/", "critical", "Get \"%s/rubbish/\"" % s.url),
        }
        for name, (path, _, _) in checks.items():
            # One of a hundred megabytes a second is enough work for a test's server.
            register(node, name, HTTP=s.url + path, Interval="5s" if name in ("big", "headers", "line", "early") else "1s")
        register(node, "refused", HTTP="http://127.0.0.1:1/")
        register(node, "nope", HTTP="nope://x")
        register(node, "nowhere", HTTP="http://no-such-host.invalid/")
        register(node, "tcp", TCP="127.60.151.20:%d" % port)
        register(node, "tcp-name", TCP="localhost:1")
        register(node, "tcp-refused", TCP="127.0.0.1:1")
        register(node, "not-followed", HTTP=s.url + "/to/|status|200", DisableRedirects=True)
        register(node, "post", HTTP=s.url + "/status/200", Method="POST", Body="the body",
                 Header={"X-Own": ["1", "2"], "Host": ["web.example"], "User-Agent": ["me"]})
        register(node, "tiny", HTTP=s.url + "/status/200", OutputMaxSize=3)
        for name, (_, status, text) in checks.items():
            wait_state(node, name, status, text)
        pid = the_process(node, "network")
        wait_state(node, "refused", "critical", 'Get "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused')
        wait_state(node, "nope", "critical", 'Get "nope://x": unsupported protocol scheme "nope"')
        wait_state(node, "nowhere", "critical", "dial tcp: lookup no-such-host.invalid: ")
        wait_state(node, "tcp", "passing", "TCP connect 127.60.151.20:%d: Success" % port)
        wait_state(node, "tcp-name", "critical", "127.0.0.1:1: connect: connection refused")
        wait_state(node, "tcp-refused", "critical", "dial tcp 127.0.0.1:1: connect: connection refused")
        wait_state(node, "not-followed", "critical", "HTTP GET %s/to/|status|200: 302 Found Output: " % s.url)
        assert wait_state(node, "tiny", "passing")[1].endswith(" Output: 200")
        wait_state(node, "post", "passing", "HTTP POST %s/status/200: 200 OK" % s.url)
        assert not other.asked, other.asked
        with s.lock:
            method, _, headers, body = next(a for a in s.asked if a[0] == "POST")
            plain = next(a for a in s.asked if a[1] == "/status/201")
        assert body == b"the body" and ("X-Own", "1") in headers and ("X-Own", "2") in headers, (headers, body)
        assert dict(headers)["Host"] == "web.example" and dict(headers)["User-Agent"] == "me", headers
        assert dict(plain[2]) == {"Host": s.url[7:], "User-Agent": "Consul Health Check", "Accept": "text/plain, text/*, */*",
                                  "Connection": "close"}, plain
        assert len(state(node, "big")[1]) < 4096 + 200
        assert rss_kb(pid) < 64 << 10, "%d KB" % rss_kb(pid)
        before = len([a for a in s.asked if a[1] == "/big/"])
        wait_for("the large answer is asked for twice more", lambda: len([a for a in s.asked if a[1] == "/big/"]) >= before + 2)
        assert rss_kb(pid) < 64 << 10, "%d KB" % rss_kb(pid)
        assert the_process(node, "network") == pid
        # The catalog has it, and a state that changes gets there at once.
        register(node, "state", HTTP=s.url + "/state/")
        wait_for("it passes in the catalog", lambda: (in_catalog(node, "state") or {}).get("Status") == "passing")
        s.state = 500
        wait_for("it is critical in the catalog", lambda: in_catalog(node, "state")["Status"] == "critical")
        assert in_catalog(node, "state")["Definition"] == {}
        for name in node.get("/v1/agent/checks").json():
            node.put("/v1/agent/check/deregister/" + name).ok()
        wait_for("the process has gone with the last check", lambda: not processes(node, "network"))
        assert int(node.stats("rpcd")["check_process_deaths"]) == 0


def redirects_anywhere():
    with Cluster("127.60.152") as c, Server("127.60.152.20") as s, Server("127.60.152.21") as other:
        node = one(c, follow_redirects=True)
        register(node, "other", HTTP=s.url + "/to/" + other.url.replace("/", "|") + "|status|200",
                 Header={"Authorization": ["secret"]})
        wait_state(node, "other", "passing", "200 OK Output: says 200")
        assert "Authorization" in dict(s.asked[0][2]) and "Authorization" not in dict(other.asked[0][2]), other.asked


def tls():
    with tempfile.TemporaryDirectory() as folder, Cluster("127.60.153") as c:
        context, names = certificate(folder, "web.example"), []
        context.sni_callback = lambda sock, name, ctx: names.append(name)
        with Server("127.60.153.20", tls=context) as s:
            node = one(c)
            register(node, "unknown", HTTP=s.url + "/status/200")
            register(node, "skip", HTTP=s.url + "/status/200", TLSSkipVerify=True)
            register(node, "named", HTTP=s.url + "/status/200", TLSSkipVerify=True, TLSServerName="web.example")
            wait_state(node, "unknown", "critical", "certificate")
            wait_state(node, "skip", "passing", "200 OK Output: says 200")
            wait_state(node, "named", "passing", "HTTP GET %s/status/200: 200 OK" % s.url)
            assert "web.example" in names, names
            with s.lock:
                assert {dict(a[2])["Host"] for a in s.asked} == {s.url[8:]}, s.asked


def thresholds():
    with Cluster("127.60.154") as c, Server("127.60.154.20") as s:
        node = one(c)
        register(node, "t", HTTP=s.url + "/state/", SuccessBeforePassing=3, FailuresBeforeCritical=3)
        wait_state(node, "t", "passing")
        seen = []
        s.state = 500
        asked = len(s.asked)
        while not seen or seen[-1][1] != "critical":
            status = state(node, "t")[0]
            seen.append((len(s.asked) - asked, status))
            assert len(seen) < 2000
            time.sleep(0.02)
        assert all(n >= 3 for n, status in seen if status == "critical"), seen[-5:]
        # The service goes with its check.
        node.put("/v1/agent/service/register", json.dumps({"Name": "w", "Check": {
            "HTTP": s.url + "/state/", "Interval": "1s", "DeregisterCriticalServiceAfter": "1m"}})).ok()
        wait_state(node, "service:w", "critical")


SCRIPT = ("trap '' TERM INT HUP; sleep 1001 & (setsid sleep 1002 &) ; (setsid sh -c 'sleep 1003 & sleep 1004' &); "
          "echo begun; sleep 1005")


def sleepers():
    return subprocess.run(["pgrep", "-u", "_check", "-f", "^sleep 100[1-5]$"], capture_output=True, text=True).stdout.split()


def script(node, name, text, **keys):
    register(node, name, **dict({"Args": ["/bin/sh", "-c", text]}, **keys))


def need_root():
    if os.geteuid() != 0:
        skip("needs root, for the user _check")


def scripts():
    need_root()
    with Cluster("127.60.155") as c:
        node = one(c, enable_script_checks=True)
        script(node, "good", "echo out; echo err >&2")
        script(node, "warns", "exit 1")
        script(node, "bad", "exit 2", Status="passing")
        script(node, "killed", "kill -9 $$", Status="passing")
        script(node, "long", "i=0; while [ $i -lt 600 ]; do echo 123456789; i=$((i+1)); done", OutputMaxSize=100)
        script(node, "flood", "head -c 10000000 /dev/zero | tr '\\0' x; echo end")
        script(node, "never", SCRIPT)
        script(node, "floods for ever", "yes")
        script(node, "leaves", "(setsid sleep 1001 &) ; sleep 0.1; echo gone")
        script(node, "who", "id -un; id -Gn; pwd; env | sort; cat; ls /proc/self/fd | wc -l; grep -E '^(NoNewPrivs|CapEff)' /proc/self/status")
        register(node, "none", Args=["/no/such/program"])
        register(node, "folder", Args=["/etc"])
        script(node, "kills", "kill -9 $PPID; kill -9 -1; echo alive")
        assert wait_state(node, "good", "passing")[1] == "out\nerr\n"
        wait_state(node, "warns", "warning")
        wait_state(node, "bad", "critical")
        wait_state(node, "killed", "critical")
        out = wait_state(node, "long", "passing")[1]
        assert out == "Captured 100 of 6000 bytes\n...\n" + "123456789\n" * 10, out
        out = wait_state(node, "flood", "passing")[1]
        assert out.startswith("Captured 4096 of 10000004 bytes\n...\nxxx") and out.endswith("xend\n"), out[:100]
        assert wait_state(node, "never", "critical", "begun")[1] == "Timed out (2s) running check\n\nbegun\n"
        wait_state(node, "floods for ever", "critical", "Timed out (2s) running check\n\nCaptured 4096 of")
        wait_state(node, "leaves", "passing", "gone\n")
        who = wait_state(node, "who", "passing")[1].split("\n")
        assert who[:3] == ["_check", "_check", "/"], who
        env = dict(line.split("=", 1) for line in who[3:] if "=" in line)
        assert set(env) <= {"PATH", "HOME", "LANG", "SHELL", "PWD", "OLDPWD", "SHLVL", "_"}, who
        assert "NoNewPrivs:\t1" in who and "CapEff:\t0000000000000000" in who, who
        wait_state(node, "none", "critical", "fork/exec /no/such/program: no such file or directory")
        wait_state(node, "folder", "critical", "fork/exec /etc: permission denied")
        wait_state(node, "kills", "passing", "alive")
        pid = the_process(node, "scripts")
        assert rss_kb(pid) < 64 << 10, "%d KB" % rss_kb(pid)
        # A check that goes takes what it runs with it.
        wait_for("the script runs", lambda: len(sleepers()) >= 5)
        for name in node.get("/v1/agent/checks").json():
            node.put("/v1/agent/check/deregister/" + name.replace(" ", "%20")).ok()
        wait_for("nothing is left of it", lambda: not sleepers())
        assert int(node.stats("rpcd")["check_process_deaths"]) == 0


def scripts_are_off():
    with Cluster("127.60.156") as c:
        node = one(c, enable_script_checks=True)
        script(node, "s", "echo hi")
        wait_state(node, "s", "passing")
        node.stop("rpcd")
        node.write("rpcd.conf", rpcd_conf(node.addr))
        node.start("rpcd")
        node.up()
        wait_state(node, "s", "critical", "Scripts are disabled on this agent")
        answer = node.put("/v1/agent/check/register", json.dumps({"Name": "x", "Args": ["/bin/true"], "Interval": "1s"}))
        assert answer.status == 500 and answer.text.startswith("Scripts are disabled on this agent from remote calls"), answer
        assert processes(node, "scripts") == []


def all_is_gone_with_rpcd():
    """kill -9 of the process of scripts, and of rpcd, while a script runs."""
    need_root()
    with Cluster("127.60.157") as c:
        node = one(c, enable_script_checks=True)
        script(node, "never", SCRIPT, Timeout="60s", Status="passing")
        wait_for("the script runs", lambda: len(sleepers()) >= 5)
        old = set(sleepers())
        os.kill(the_process(node, "scripts"), signal.SIGKILL)
        wait_for("what it ran is gone", lambda: not old & set(sleepers()))
        wait_for("it runs again", lambda: len(sleepers()) >= 5)
        assert state(node, "never")[0] == "passing"
        node.kill("rpcd")
        wait_for("nothing is left", lambda: not sleepers())


def index_of(node, name):
    return in_catalog(node, name)["ModifyIndex"]


def deaths():
    """No check shows a state that was never true, and nothing is written when nothing changed."""
    with Cluster("127.60.158") as c, Server("127.60.158.20") as s:
        node = one(c)
        register(node, "good", HTTP=s.url + "/status/200", FailuresBeforeCritical=3)
        register(node, "bad", TCP="127.0.0.1:1", Status="passing")
        wait_for("both are in the catalog", lambda: in_catalog(node, "good") and in_catalog(node, "good")["Status"] == "passing" and
                 in_catalog(node, "bad") and "refused" in in_catalog(node, "bad")["Output"])
        was = index_of(node, "good"), index_of(node, "bad")

        def unchanged(what):
            asked = len(s.asked)
            wait_for("checks go on after " + what, lambda: len(s.asked) >= asked + 2)
            assert state(node, "good")[0] == "passing" and state(node, "bad")[0] == "critical", what
            assert (index_of(node, "good"), index_of(node, "bad")) == was, what

        os.kill(the_process(node, "network"), signal.SIGKILL)
        unchanged("the death of the process")
        assert int(node.stats("rpcd")["check_process_deaths"]) == 1
        assert "was killed by signal 9" in node.log("rpcd")
        wait_for("it is saved", lambda: b'"Status":"passing"' in open(node.data + "/rpcd/checks.json.journal", "rb").read())
        node.kill("rpcd")
        node.start("rpcd")
        node.up()
        unchanged("the death of rpcd")
        node.stop("rpcd")
        node.start("rpcd")
        node.up()
        unchanged("a restart of rpcd")
        # Without the monitor there would be no checks any more.
        node.may_end("rpcd", 1)
        dials = the_process(node, "network")
        os.kill(processes(node, "monitor")[0], signal.SIGKILL)
        os.kill(dials, signal.SIGKILL)
        node.wait_end("rpcd")
        assert "is gone, and checks cannot be run without" in node.log("rpcd")


def log_level():
    """That of a reload holds for the processes that are there, and for those that come."""
    with Cluster("127.97.31") as c:
        node = one(c)
        register(node, "t", TCP="127.0.0.1:1")
        wait_state(node, "t", "critical", "refused")
        assert "tcp 127.0.0.1:1: critical" not in node.log("rpcd")
        node.set_common(log_level="debug")
        node.signal(signal.SIGHUP, "rpcd")
        wait_for("runs are logged", lambda: "check: tcp 127.0.0.1:1: critical" in node.log("rpcd"))
        pid = the_process(node, "network")
        os.kill(pid, signal.SIGKILL)
        wait_for("another one runs", lambda: set(processes(node, "network")) - {pid})
        told = node.log("rpcd").count("check: tcp 127.0.0.1:1: critical")
        wait_for("it logs them, too", lambda: node.log("rpcd").count("check: tcp 127.0.0.1:1: critical") > told)
        node.set_common(log_level="error")
        node.signal(signal.SIGHUP, "rpcd")

        def quiet():
            said, runs = node.log("rpcd").count("check: tcp "), int(node.stats("rpcd")["check_runs"])
            wait_for("more runs", lambda: int(node.stats("rpcd")["check_runs"]) > runs)
            return node.log("rpcd").count("check: tcp ") == said
        wait_for("runs are not logged any more", quiet)


def walls():
    """From inside of the process that dials: raftd's data, keys, sockets, programs, other processes."""
    if missing() is not None:
        skip(missing())
    with Cluster("127.60.159") as c:
        node = one(c)
        register(node, "t", TCP="127.0.0.1:1")
        wait_state(node, "t", "critical", "refused")
        pid = the_process(node, "network")
        with open("/proc/%d/status" % pid) as f:
            status = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
        uid = pwd.getpwnam("_check").pw_uid
        assert status["Uid"].split() == [str(uid)] * 4 and status["Groups"].split() == [], status
        assert int(status["CapEff"], 16) == 0 and status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2"
        assert sorted(os.listdir("/proc/%d/fd" % pid))[:1] == ["0"]
        monitor = processes(node, "monitor")[0]
        assert sorted(int(fd) for fd in os.listdir("/proc/%d/fd" % monitor)) == [0, 1, 2, 3, 4]
        database = next(p for p in glob.glob(node.data + "/raftd/**", recursive=True) if os.path.isfile(p))

        def c_open(path, flags=0):
            return "openat", AT_FDCWD, path.encode() + b"\0", flags, 0o600
        tries = {
            "open raftd's database": c_open(database),
            "open rpcd's folder": c_open(node.data + "/rpcd"),
            "open the server key": c_open(c.keys + "/server.key"),
            "open the cluster key": c_open(c.keys + "/cluster.key"),
            "open the configuration": c_open(node.data + "/../conf/rpcd.conf"),
            "open /etc/passwd": c_open("/etc/passwd"),
            "write in /tmp": c_open("/tmp/tv-walls-%d" % os.getpid(), os.O_WRONLY | os.O_CREAT),
            "run a program": ("execve", b"/bin/true\0", 0, 0),
            "fork": ("fork",),
            "trace rpcd": ("ptrace", 16, node.pid("rpcd"), 0, 0),
            "become root": ("setuid", 0),
            "signal raftd": ("kill", node.pid("raftd"), signal.SIGKILL),
            "signal its monitor": ("kill", monitor, signal.SIGKILL),
            "open a unix socket": ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
            "open a raw socket": ("socket", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
            "open a packet socket": ("socket", socket.AF_PACKET, socket.SOCK_RAW, 0),
        }
        results = inside(pid, *tries.values())
        failed = ["%s (result %d)" % (n, r) for n, r in zip(tries, results) if r >= 0]
        assert not failed, "rpcd: check may: " + "; ".join(failed)
        assert the_process(node, "network") == pid
    with Cluster("127.60.160") as c:
        need_root()
        node = one(c, enable_script_checks=True)
        paths = [node.data + "/raftd", node.data + "/rpcd", c.keys + "/server.key", c.keys + "/cluster.key"]
        script(node, "s", "for p in %s; do if cat $p/* $p >/dev/null 2>&1 || ls $p >/dev/null 2>&1; then echo reached $p; fi; done; "
               "for s in gossipd raftd rpcd; do python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "
               "%s/$s.sock 2>/dev/null && echo connected $s; done; for p in %s; do kill -9 $p 2>/dev/null && echo killed $p; done; echo end"
               % (" ".join(paths), node.run, " ".join(str(node.pid(d)) for d in node.daemons)), Timeout="20s")
        assert wait_state(node, "s", "passing", "end")[1] == "end\n", state(node, "s")


if __name__ == "__main__":
    main(http, redirects_anywhere, tls, thresholds, scripts, scripts_are_off, all_is_gone_with_rpcd, deaths, log_level, walls)
