"""Each text of the arguments of an operation that changes something: is it the name of an object, to which a right is needed?

A row is (record, field): JUDGED, or why no right to what it says is needed.  Where it is JUDGED test_rights has, for each operation with that
field, a request that is allowed, and the same with the name of another one's object in that field alone, which is refused.  Operations
that need the right to a whole resource (acl, operator, keyring) need no rows, nor do reads, whose answers are judged by what is found.

Endpoints of the agent have a table of their own in test_acl_agent_objects.  Standard library only.
"""
from oprows import OPS, RECORDS

JUDGED = "judged"
DATA = "says something of the object, and names none"
VERB = "what is to be done"
UPSTREAM = "a listener at the proxy's own node; intentions decide who may connect"

FIELDS = {
    ("kv_apply", "Key"): JUDGED,
    ("kv_apply", "Session"): "whoever may write the key may lock it in the name of any session, as in Consul: that session loses nothing",
    ("session", "ID"): "the leader's: what comes with a request is dropped",
    ("session", "Node"): JUDGED,
    ("session", "NodeChecks"): "a check is looked at, not changed: a session on a node may depend on all checks there",
    ("session", "Checks"): "the same",
    ("service_check_ref", "ID"): "the same",
    ("session_destroy", "ID"): JUDGED,
    ("session_read", "ID"): JUDGED,
    ("session_read", "Node"): "not looked at where a session is renewed",
    ("catalog_register", "ID"): JUDGED,
    ("catalog_register", "Node"): JUDGED,
    ("catalog_deregister", "Node"): JUDGED,
    ("catalog_deregister", "ServiceID"): JUDGED,
    ("catalog_deregister", "CheckID"): JUDGED,
    ("catalog_deregister", "ID"): "a condition: of the node that is named, and judged, nothing goes unless it has this id",
    ("service", "ID"): JUDGED,
    ("service", "Service"): JUDGED,
    ("service_proxy", "DestinationServiceName"): JUDGED,
    ("service_proxy", "DestinationServiceID"): "an instance at the proxy's own node, of the service that is judged",
    ("upstream", "DestinationName"): UPSTREAM,
    ("check", "CheckID"): JUDGED,
    ("check", "ServiceID"): JUDGED,
    ("check", "ServiceName"): "not believed: the service with that id says its name",
    ("check", "Node"): "of a transaction: judged as the node of what is named with it; else it has to be the registration's node",
    ("coordinate_update", "Node"): JUDGED,
    ("txn_kv", "Key"): JUDGED,
    ("txn_kv", "Session"): "as in kv_apply",
    ("node", "ID"): JUDGED,
    ("node", "Node"): JUDGED,
    ("txn_service", "Node"): "a service may be on any node, as in a registration: its id there and its name are judged",
    ("prepared_query", "ID"): JUDGED,
    ("prepared_query", "Name"): JUDGED,
    ("prepared_query", "Session"): "the query ends with that session, which loses nothing",
    ("prepared_query", "Token"): "a secret: it is known already",
    ("prepared_service", "Service"): "what a query finds is judged when it is carried out",
    ("prepared_service", "IgnoreCheckIDs"): "the same",
    ("prepared_service", "Near"): "the same",
    ("prepared_read", "ID"): JUDGED,
    ("acl_token", "*"): "of a login: what comes with a request is dropped", ("acl_link", "*"): "the same",
    ("acl_service_identity", "*"): "the same", ("acl_node_identity", "*"): "the same",
    ("acl_bootstrap", "*"): "there is no token yet", ("acl_login", "*"): "the method decides", ("acl_logout", "*"): "the secret is its own",
    ("acl_repl_apply", "*"): "for the rpcd of the same server, with the replication token", ("acl_policy", "*"): "the same",
    ("acl_role", "*"): "the same",
}
PLAIN = {       # DATA
    "session": ("Name", "Behavior", "TTL"), "service_check_ref": ("Namespace",), "catalog_register": ("Address", "Datacenter"),
    "service": ("Tags", "Address", "SocketPath", "Kind"), "service_address": ("Name", "Address"),
    "service_proxy": ("LocalServiceAddress", "LocalServiceSocketPath", "Mode"),
    "upstream": ("DestinationType", "Datacenter", "LocalBindAddress", "LocalBindSocketPath", "LocalBindSocketMode"),
    "mesh_gateway": ("Mode",), "exposed_path": ("Path", "Protocol"),
    "check": ("Name", "Status", "Notes", "Output", "ServiceTags", "Type"),
    "check_definition": ("HTTP", "Method", "Body", "TCP", "UDP", "TLSServerName"), "catalog_deregister": ("Datacenter",),
    "coordinate_update": ("Segment", "Datacenter"), "node": ("Address", "Datacenter"),
    "prepared_template": ("Type", "Regexp"), "prepared_service": ("Tags",), "prepared_failover": ("Datacenters",), "prepared_dns": ("TTL",),
    "txn_kv": ("Verb",), "txn_node": ("Verb",), "txn_service": ("Verb",), "txn_check": ("Verb",), "txn_op": ("Refused",),
}


def decision(record, field):
    if field in PLAIN.get(record, ()):
        return VERB if field == "Verb" else DATA
    return FIELDS.get((record, field)) or FIELDS.get((record, "*"))


def texts(record, path=(), inside=()):
    """(record, field, path) of each text in a record and in those that it holds."""
    for name, kind, of in RECORDS[record]:
        if kind in ("STR", "STRS"):
            yield record, name, ".".join(path + (name,))
        elif kind in ("OBJ", "OPT", "OBJS", "OBJMAP") and of not in inside:
            yield from texts(of, path + (name,), inside + (of,))


def writing():
    """The operations that the table is about."""
    return [r for r in OPS.values() if r.kind in ("WRITE", "LEADER") and r.scope != "ALL" and "OP_INTERNAL" not in r.traits]


def undecided():
    return sorted({"%s.%s" % (record, field) for row in writing() for record, field, _ in texts(row.args)
                   if decision(record, field) is None})


def judged():
    """{(operation, path)}: what needs a case."""
    return {(row.name, path) for row in writing() for record, field, path in texts(row.args) if decision(record, field) == JUDGED}
