#!/usr/bin/env python3
"""Patroni, as Debian ships it, with Triumvir as its store: two PostgreSQL servers elect their primary by a session and a lock.

Where PostgreSQL is not installed, TV_POSTGRES is the folder of its programs and TV_POSTGRES_LIBS that of their libraries.
"""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system", "lib"))
from cluster import CALM, Cluster, main, skip  # noqa: E402
from waiting import wait_for  # noqa: E402

NET = "127.109.20"
TTL = 20                                # seconds, the least that Patroni takes: half of it is the session's
CONF = """scope: batman
name: {name}
restapi: {{listen: '{addr}:8008', connect_address: '{addr}:8008'}}
consul: {{host: '{api}', register_service: true, service_check_interval: 1s}}
bootstrap:
  dcs: {{ttl: {ttl}, loop_wait: 1, retry_timeout: 3, postgresql: {{use_pg_rewind: false}}}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}]
  pg_hba: [host all all 127.0.0.0/8 md5, host replication all 127.0.0.0/8 md5]
postgresql:
  listen: '{addr}:5432'
  connect_address: '{addr}:5432'
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {home}/pgpass
  authentication:
    superuser: {{username: postgres, password: one}}
    replication: {{username: copier, password: two}}
  parameters: {{unix_socket_directories: '{home}', fsync: 'off', shared_buffers: 16MB, max_connections: 20}}
"""


def postgres():
    """The folder of initdb and postgres; None."""
    for at in sorted(glob.glob("/usr/lib/postgresql/*/bin") + [os.environ.get("TV_POSTGRES", "")], reverse=True):
        if at and os.path.exists(os.path.join(at, "initdb")):
            return at
    return None


def environment(**more):
    libs = [at for at in (os.environ.get("TV_POSTGRES_LIBS"), os.environ.get("LD_LIBRARY_PATH")) if at]
    return dict(os.environ, **more, **({"LD_LIBRARY_PATH": ":".join(libs)} if libs else {}))


class Patroni:
    """One node of it; PostgreSQL does not run as root."""

    def __init__(self, node):
        self.node, self.name, self.addr = node, "pg-" + node.name, node.addr
        self.user = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
        self.home = os.path.join(os.path.dirname(node.data), "pg")
        os.mkdir(self.home, 0o700)
        os.chmod(os.path.dirname(node.data), 0o755)
        os.chmod(os.path.dirname(os.path.dirname(node.data)), 0o755)
        self.conf = os.path.join(self.home, "patroni.yml")
        with open(self.conf, "w") as f:
            f.write(CONF.format(name=self.name, addr=self.addr, api="%s:8500" % node.addr, ttl=TTL, bin=postgres(), home=self.home,
                                data=os.path.join(self.home, "data")))
        for at in self.home, self.conf:
            os.chown(at, self.user.pw_uid, self.user.pw_gid)
        self.log = os.path.join(self.home, "log")
        self.process = None

    def start(self):
        who = {} if os.geteuid() else {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([shutil.which("patroni"), self.conf], stdout=log, stderr=log, cwd=self.home,
                                            env=environment(HOME=self.home), start_new_session=True, **who)

    def kill(self):
        """Of a sudden, with its PostgreSQL."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
        for pid in self.servers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for("PostgreSQL of %s is gone" % self.name, lambda: not self.servers())

    def servers(self):
        """PostgreSQL's processes of this node: those that are in its folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/cwd" % pid).startswith(self.home):
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def sql(self, text):
        """What psql prints; raises OSError where it fails."""
        p = subprocess.run([os.path.join(postgres(), "psql"), "-h", self.addr, "-U", "postgres", "-At", "-c", text, "postgres"],
                           capture_output=True, text=True, timeout=20, env=environment(PGPASSWORD="one", PGCONNECT_TIMEOUT="5"))
        if p.returncode != 0:
            raise OSError(p.stderr)
        return p.stdout.strip()

    def is_primary(self):
        try:
            return self.sql("select pg_is_in_recovery()") == "f"
        except OSError:
            return False


def test_primary_moves():
    if shutil.which("patroni") is None or postgres() is None:
        skip("patroni or PostgreSQL is not there")
    with Cluster(NET) as c:
        servers = c.servers(3, raftd=CALM)
        nodes = [c.client("c%d" % i, 3 + i, servers[0]) for i in (1, 2)]
        leader = c.formed(servers)
        for n in nodes:
            n.up()
        both = [Patroni(n) for n in nodes]
        try:
            both[0].start()
            wait_for("the first is primary", lambda: both[0].is_primary(), 120)
            both[1].start()
            wait_for("the other copies it", lambda: both[0].sql("select state from pg_stat_replication") == "streaming", 120)
            session = leader.get("/v1/kv/service/batman/leader").json()[0]["Session"]
            assert leader.get("/v1/session/info/" + session).json()[0]["Node"] == nodes[0].name
            both[0].sql("create table t (n int)")
            both[0].sql("insert into t values (1)")

            def role(tag):
                found = leader.get("/v1/health/service/batman?passing&tag=" + tag).json()
                return [s["Service"]["Address"] for s in found]
            wait_for("the catalog has the primary", lambda: role("primary") == [both[0].addr] or role("master") == [both[0].addr], 60)
            wait_for("and the replica", lambda: role("replica") == [both[1].addr], 60)
            # The leader of the cluster goes: the primary stays where it is.
            leader.kill()
            leader = c.leader([n for n in servers if n is not leader])
            assert leader.get("/v1/kv/service/batman/leader").json()[0]["Session"] == session
            both[0].sql("insert into t values (2)")
            # The primary's machine goes: the other takes over when the session has ended, with all that was written.
            both[0].kill()
            nodes[0].kill()
            wait_for("the other is primary", lambda: both[1].is_primary(), 120)
            assert both[1].sql("select n from t order by n").split() == ["1", "2"]
            wait_for("the catalog says so", lambda: both[1].addr in role("primary") + role("master"), 60)
            nodes[0].start()
            both[0].start()
            wait_for("the first copies the second", lambda: both[1].sql("select state from pg_stat_replication") == "streaming", 120)
        except BaseException:
            for p in both:
                if os.path.exists(p.log):
                    with open(p.log) as f:
                        print("--- %s\n%s" % (p.name, "".join(f.readlines()[-40:])), flush=True)
            raise
        finally:
            for p in both:
                p.kill()


main(test_primary_moves)
