/*
 * Where rpcd is reached, from options and the environment, and whether by TLS.  Pure, but for the environment.
 *
 * What asks for TLS, be it the address, an option or a variable, never ends in clear text: where it cannot be had the
 * call is wrong.  Variables are Consul's, and the same with TRIUMVIR_ for CONSUL_ or CONSUL_HTTP_, which come first.
 */
#ifndef TV_CTL_ENDPOINT_H
#define TV_CTL_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

#define ENDPOINT_SOCKET "unix:" TV_RUNDIR "/rpcd.sock"	/* of this node, where nothing names another */

/* Options of the command line; NULL: not given, and then the environment is looked at. */
struct endpoint_given {
	const char *addr, *ca_file, *ca_path, *client_cert, *client_key, *server_name;
};

struct endpoint {
	char *addr;		/* for messages */
	char *base;		/* "https://HOST:PORT/PREFIX", without a slash at its end */
	char *unix_path;	/* NULL: over TCP */
	bool tls;
	/* With TLS only; as given, NULL: not given. */
	const char *ca_file, *ca_path;		/* one of them; neither: the CAs of the system are trusted */
	const char *ca_from;			/* the option or variable that gave it */
	const char *client_cert, *client_key;	/* both or none */
	bool unverified;			/* whose certificate it is, is not looked at */
	const char *unverified_from;
	char *connect_to;	/* "NAME:PORT:HOST:PORT" where base has the name of the certificate; NULL: it has not */
	char *host;		/* and then the Host of requests, "HOST:PORT" */
};

/*
 * addr: HOST, HOST:PORT, an IPv6 address with or without brackets, http:// or https:// and any of these with a prefix
 * of paths behind it, unix:PATH or unix://PATH.  Without a port 8500, by TLS 8501.  False with a sentence in err: what
 * is given is no address, no truth value, or asks for TLS where there is none.  endpoint_done() either way.
 */
bool endpoint_find(const struct endpoint_given *given, struct endpoint *out, char *err, size_t cap);
void endpoint_done(struct endpoint *e);

/* One truth value as Consul spells them: 1, t, T, TRUE, true, True, and the same of false.  False: it is none. */
bool endpoint_truth(const char *text, bool *value);

#endif
