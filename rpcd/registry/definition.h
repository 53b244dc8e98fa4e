/*
 * Definitions of services and checks as clients write them, over HTTP or in files, and what the registry makes of them.
 * Pure: bytes in, records or a sentence out.
 */
#ifndef TV_RPCD_REGISTRY_DEFINITION_H
#define TV_RPCD_REGISTRY_DEFINITION_H

#include "rpcd/registry/registry.h"

RECORD_TITLED("CheckDefinition", check_def,
	(STR, ID), (STR, CheckID), (STR, Name), (STR, Notes, SF_FREE), (STR, Status), (STR, ServiceID), (STR, Token),
	(DURATION, TTL), (DURATION, Interval), (DURATION, DeregisterCriticalServiceAfter),
	/* What is run: PROBES in definition.c says which of these are, and how. */
	(STR, HTTP), (STR, TCP), (STR, UDP), (STR, GRPC), (STR, H2PING), (STR, AliasNode), (STR, AliasService),
	(STR, DockerContainerID), (STRS, Args, SF_FREE), (STRS, ScriptArgs, SF_FREE),
	(STR, Method), (STR, Body, SF_FREE), (STR, TLSServerName),
	(JSON, Header),				/* {"Name": ["value"]} */
	(BOOL, TLSSkipVerify), (BOOL, GRPCUseTLS), (BOOL, TCPUseTLS), (BOOL, DisableRedirects),
	(JSON, H2PingUseTLS),			/* true where it is not given */
	(STR, Shell),				/* in a container */
	(DURATION, Timeout), (I64, OutputMaxSize),
	(I64, SuccessBeforePassing), (I64, FailuresBeforeWarning), (I64, FailuresBeforeCritical),
	(CONST, ProxyHTTP, NULL), (CONST, ProxyGRPC, NULL),	/* of no effect here */
	(STR, Namespace))

#define SERVICE_DEF_ROWS \
	(STR, ID), (STR, Name), (STR, Address), (STR, SocketPath), (STR, Token), (STRS, Tags), (MAP, Meta), \
	(OBJMAP, TaggedAddresses, service_address), (I64, Port), (BOOL, EnableTagOverride), \
	(OPT, Weights, has_weights, weights)
#define SERVICE_DEF_CHECKS (OPT, Check, has_check, check_def), (OBJS, Checks, check_def)
RECORD_TITLED("ServiceDefinition", sidecar_def,
	(STR, Kind), SERVICE_DEF_ROWS, (OBJ, Proxy, service_proxy), SERVICE_DEF_CHECKS,
	(JSON, Connect),			/* to be refused by name */
	(STR, Namespace))
RECORD_TITLED("ServiceConnect", connect_def, (BOOL, Native), (OPT, SidecarService, has_sidecar, sidecar_def))
RECORD_TITLED("ServiceDefinition", service_def,
	(STR, Kind), (OBJ, Proxy, service_proxy), (OBJ, Connect, connect_def), SERVICE_DEF_ROWS, SERVICE_DEF_CHECKS,
	(STR, Namespace))

#define DEFINITION_TEXT_MAX 1024	/* bytes of the sentence of a refusal, its NUL included */

/*
 * The record of a check.  0, or the status of the answer that refuses it, and why; out borrows from d and the arena,
 * and is not complete then.  Whether scripts are allowed is for the caller to judge: out->run.Args has one, which runs
 * here or in a container.
 */
unsigned definition_check(const struct check_def *d, struct arena *a, struct local_record *out,
    char why[DEFINITION_TEXT_MAX]);

struct service_records {
	struct local_record service;
	struct local_record *checks;
	uint32_t n;
};
/*
 * Is it a service that no name of DNS leads to, or has it such a tag?  Then a sentence in why, for the log, which is
 * not all printable: what is of the service stands in it as it is.
 */
bool definition_hidden_from_dns(const struct service *s, char why[DEFINITION_TEXT_MAX]);
/* The same of a service with its checks.  out borrows from d and the arena. */
unsigned definition_service(const struct service_def *d, struct arena *a, struct service_records *out,
    char why[DEFINITION_TEXT_MAX]);

#define SIDECAR_PORT_MIN 21000
#define SIDECAR_PORT_MAX 21255
#define SIDECAR_PORTS (SIDECAR_PORT_MAX - SIDECAR_PORT_MIN + 1)

struct sidecar_ports {			/* given to sidecars that are not registered yet */
	bool taken[SIDECAR_PORTS];
};

/*
 * The sidecar of a service that definition_service() has taken and that has one (Connect.has_sidecar): what was not
 * given follows from the service.  It keeps the port that it has in the registry; a new one gets the lowest that is
 * free there and in `more`, which then has it.  Each may be NULL.  As definition_service(), whatever is refused.
 */
unsigned definition_sidecar(const struct service_def *d, struct registry *r, struct sidecar_ports *more,
    struct arena *a, struct service_records *out, char why[DEFINITION_TEXT_MAX]);

#endif
