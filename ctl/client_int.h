/*
 * What client.c, client_set.c and client_tls.c share of a client.
 */
#ifndef TV_CTL_CLIENT_INT_H
#define TV_CTL_CLIENT_INT_H

#include <curl/curl.h>

#include "ctl/client.h"

struct client {
	CURL *curl;
	struct endpoint at;
	struct buf ca;		/* certificates of CAs, see client_tls_load() */
	struct curl_slist *connect_to;	/* at.connect_to for libcurl, or NULL */
	char *token;		/* or NULL; wiped */
	const char *token_from;	/* see client_new() */
	struct curl_slist *more;	/* see client_set_header() */
	bool foreign;		/* no rpcd, see client_new_url() */
	bool keep_bytes;
	bool quiet;		/* see client_quiet() */
	struct mono deadline;	/* of all requests; 0: each has its own */
	/* In a set, while a request is under way; out: NULL when there is none. */
	struct client_answer *out;
	struct curl_slist *headers;
	struct span left;	/* of the body */
};

/* All of a request but sending it; *body moves on as it is sent.  The headers go to client_settle(). */
struct curl_slist *client_prepare(struct client *c, const char *method, const char *path, struct span *body,
    long timeout_s, struct client_answer *out);
/* Lets the request end with the deadline. */
void client_limit(struct client *c);
/* The request ended: what *out says of that.  Frees the headers.  True for a 2xx answer. */
bool client_settle(struct client *c, CURLcode rc, struct curl_slist *headers, struct client_answer *out);

/* -- ctl/client_tls.c -- */

/* Reads the CAs that are named; false after a sentence to stderr. */
bool client_tls_load(struct client *c);
/* All that a request by TLS needs of libcurl. */
void client_tls_prepare(struct client *c);
/* What to do about a request that failed, where TLS is why, or its want; static.  NULL: it is about something else. */
const char *client_tls_remedy(const struct client *c, CURLcode rc, const char *error);

#endif
