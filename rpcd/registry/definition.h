/*
 * Definitions of services and checks as clients write them, over HTTP or in files, and what the registry makes of them.
 * Pure: bytes in, records or a sentence out.
 */
#ifndef TV_RPCD_REGISTRY_DEFINITION_H
#define TV_RPCD_REGISTRY_DEFINITION_H

#include "rpcd/registry/registry.h"

struct check_def {
	struct span ID, CheckID, Name, Notes, Status, ServiceID, Token, Namespace;
	int64_t TTL, Interval, DeregisterCriticalServiceAfter;
	struct span HTTP, TCP, UDP, GRPC, H2PING, AliasNode, AliasService, DockerContainerID;
	struct span_list Args, ScriptArgs;
	struct span Method, Body, TLSServerName;
	struct span Header;			/* JSON, {"Name": ["value"]} */
	bool TLSSkipVerify, GRPCUseTLS, TCPUseTLS, DisableRedirects;
	struct span H2PingUseTLS;		/* JSON; true where it is not given */
	struct span Shell;			/* in a container */
	int64_t Timeout, OutputMaxSize, SuccessBeforePassing, FailuresBeforeWarning, FailuresBeforeCritical;
};
extern const struct schema check_def_schema;

struct connect_def {
	bool Native;
	bool has_sidecar;
	struct sidecar_def {			/* as service_def */
		struct span Kind, ID, Name, Address, SocketPath, Token, Namespace;
		struct span_list Tags;
		struct span_map Meta;
		struct obj_list TaggedAddresses;
		int64_t Port;
		bool EnableTagOverride;
		bool has_weights, has_check;
		struct service_proxy Proxy;
		struct weights Weights;
		struct check_def Check;
		struct obj_list Checks;
		struct span Connect;		/* JSON: to be refused by name */
	} SidecarService;
};

struct service_def {
	struct span Kind, ID, Name, Address, SocketPath, Token, Namespace;
	struct span_list Tags;
	struct span_map Meta;
	struct obj_list TaggedAddresses;	/* struct service_address */
	int64_t Port;
	bool EnableTagOverride;
	bool has_weights, has_check;
	struct service_proxy Proxy;
	struct connect_def Connect;
	struct weights Weights;
	struct check_def Check;
	struct obj_list Checks;			/* struct check_def */
};
extern const struct schema service_def_schema;

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
