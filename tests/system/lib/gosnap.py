"""What `consul snapshot save` does with an archive before it believes it: unpacks, decodes meta.json into its own types as
Go's encoding/json does, and compares checksums.  Standard library only."""
import base64
import gzip
import hashlib
import io
import json
import tarfile

UINT64, INT64 = (0, 2**64 - 1), (-2**63, 2**63 - 1)


class Refused(ValueError):
    """The sentence that its reader would print, more or less."""


class Number(str):
    """A number as it is written: 1.0 and 1e0 are no integers to Go."""


def integer(lowest, highest):
    def decode(v, where):
        if not isinstance(v, Number) or not v.lstrip("-").isdigit() or not lowest <= int(v) <= highest:
            raise Refused("json: cannot unmarshal %r into Go struct field %s of type int" % (v, where))
        return int(v)
    return decode


def text(v, where):
    if type(v) is not str:
        raise Refused("json: cannot unmarshal %r into Go struct field %s of type string" % (v, where))
    return v


def octets(v, where):
    """[]byte is base64 with padding."""
    try:
        return base64.b64decode(text(v, where), validate=True)
    except ValueError as e:
        raise Refused("illegal base64 data in %s: %s" % (where, e)) from e


def struct(**fields):
    zero = dict.fromkeys(fields)

    def decode(v, where):
        if type(v) is not dict:
            raise Refused("json: cannot unmarshal %r into Go struct field %s" % (v, where))
        out = dict(zero)
        for key, value in v.items():
            name = next((n for n in fields if n == key), None) or next(
                (n for n in fields if n.lower() == key.lower()), None)
            if name is not None and value is not None:      # null leaves a field as it is
                out[name] = fields[name](value, where + "." + name)
        return out
    return decode


def array(of):
    def decode(v, where):
        if type(v) is not list:
            raise Refused("json: cannot unmarshal %r into Go struct field %s" % (v, where))
        return [of(x, where) for x in v]
    return decode


server = struct(Suffrage=integer(*INT64), ID=text, Address=text)
snapshot_meta = struct(Version=integer(*INT64), ID=text, Index=integer(*UINT64), Term=integer(*UINT64), Peers=octets,
                       Configuration=struct(Servers=array(server)), ConfigurationIndex=integer(*UINT64),
                       Size=integer(*INT64))


def decode_meta(raw):
    decoder = json.JSONDecoder(parse_int=Number, parse_float=Number)
    try:
        value, end = decoder.raw_decode(raw.decode())
    except ValueError as e:
        raise Refused("failed to decode snapshot metadata: %s" % e) from e
    # Earlier versions hash what their parser took, and that may end with the value.
    if end != len(raw):
        raise Refused("hash check failed for \"meta.json\": %d bytes behind the value" % (len(raw) - end))
    return snapshot_meta(value, "SnapshotMeta")


def check_sums(files, sums):
    seen = set()
    for line in sums.decode().splitlines():
        digest, _, name = line.partition("  ")
        if name not in files:
            raise Refused("list missing hash for %r" % name)
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise Refused("hash check failed for %r" % name)
        seen.add(name)
    if seen != set(files):
        raise Refused("file missing for %r" % (set(files) - seen))


def verify(archive):
    """The decoded SnapshotMeta, or Refused."""
    try:
        plain = gzip.decompress(archive)
    except (OSError, EOFError) as e:
        raise Refused("failed to decompress snapshot: %s" % e) from e
    files, at = {}, 0
    with tarfile.open(fileobj=io.BytesIO(plain)) as t:
        for m in t:
            if m.name not in ("meta.json", "state.bin", "SHA256SUMS") or not m.isreg():
                raise Refused("unexpected file %r in snapshot" % m.name)
            files[m.name] = t.extractfile(m).read()
            at = m.offset_data + (m.size + 511) // 512 * 512
    # Two empty blocks end it, and after them nothing may be left to read.
    if plain[at:] != bytes(1024):
        raise Refused("%d unread uncompressed bytes remain" % (len(plain) - at - 1024))
    sums = files.pop("SHA256SUMS")
    meta = decode_meta(files["meta.json"])
    check_sums(files, sums)
    return meta


def peers(packed):
    """The addresses in Peers: msgpack without str8 and bin, as it was."""
    assert packed[0] & 0xf0 == 0x90, packed
    out, at = [], 1
    for _ in range(packed[0] & 15):
        if packed[at] & 0xe0 == 0xa0:
            n, at = packed[at] & 31, at + 1
        else:
            assert packed[at] == 0xda, packed
            n, at = int.from_bytes(packed[at + 1:at + 3], "big"), at + 3
        out.append(packed[at:at + n].decode())
        at += n
    assert at == len(packed), packed
    return out
