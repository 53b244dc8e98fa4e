"""What the tests of checks share: registering, waiting for states, the processes."""
import glob
import json
import os
import ssl
import subprocess

from waiting import wait_for


def register(node, name, **keys):
    node.put("/v1/agent/check/register", json.dumps(dict({"Name": name, "Interval": "1s", "Timeout": "2s"}, **keys))).ok()


def state(node, name):
    c = node.get("/v1/agent/checks").json().get(name)
    return None if c is None else (c["Status"], c["Output"])


def wait_state(node, name, status, *texts):
    def look():
        s = state(node, name)
        return s if s and s[0] == status and all(t in s[1] for t in texts) else None
    try:
        return wait_for("%s is %s: %s" % (name, status, ", ".join(texts)), look)
    except AssertionError as e:
        raise AssertionError("%s; it is %s" % (e, state(node, name)))


def in_catalog(node, name):
    found = [c for c in node.get("/v1/health/node/" + node.name).json() if c["CheckID"] == name]
    return found[0] if found else None


def processes(node, role):
    """Those of this node's rpcd, by what they run: "network", "scripts", or "monitor"."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                text = f.read()
            with open(path[:-4] + "cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except (OSError, ValueError):
            continue
        pid, name, (status, parent) = int(text.split()[0]), text[text.index("(") + 1:text.rindex(")")], \
            text[text.rindex(")") + 2:].split()[:2]
        if status != "Z" and name == "rpcd: check":
            found.append((pid, int(parent), words[1].decode() if words[0] == b"rpcd: check" else "monitor"))
    monitors = {pid for pid, parent, what in found if what == "monitor" and parent == node.pid("rpcd")}
    return sorted(monitors) if role == "monitor" else sorted(p for p, parent, what in found if what == role and parent in monitors)


def the_process(node, role):
    return wait_for("a process for " + role, lambda: processes(node, role))[0]


def cpu_s(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_kb(pid):
    with open("/proc/%d/status" % pid) as f:
        return int([line for line in f if line.startswith("VmRSS")][0].split()[1])


def one(c, **rpcd):
    node = c.servers(1, rpcd=rpcd)[0]
    c.formed([node])
    return node


def certificate(folder, name):
    """A self-signed certificate: (SSL context of a server, path)."""
    key, cert = os.path.join(folder, name + ".key"), os.path.join(folder, name + ".pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:" + name],
                   check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    return tls
