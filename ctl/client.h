/*
 * HTTP client of clusterctl: one request at a time to an rpcd, over TCP, by TLS, or over its unix socket (libcurl).
 */
#ifndef TV_CTL_CLIENT_H
#define TV_CTL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/buf.h"
#include "common/base/mono.h"
#include "ctl/endpoint.h"

struct client;

/*
 * Of an rpcd where endpoint_find() says.  token: shown with all requests; NULL: none.  from: where it was found, kept
 * as it is.  Exits 2 with a sentence on a bad address, 1 when CAs cannot be read.
 */
struct client *client_new(const struct endpoint_given *given, const char *token, const char *from);
/* Of an rpcd of our own on this machine, at HOST:PORT in clear text, whatever the environment says. */
struct client *client_new_own(const char *addr, const char *token);
/* NULL: no token is shown. */
const char *client_token_from(const struct client *c);
/* From now on none is. */
void client_forget_token(struct client *c);
/* For one URL (http or https) that is no rpcd: paths are "", no token goes there.  Bodies are JSON. */
struct client *client_new_url(const char *url);
/* One more header for all requests; it replaces the one given before. */
void client_set_header(struct client *c, const char *name, const char *value);
void client_free(struct client *c);
const char *client_addr(const struct client *c);
/* The path of the unix socket; NULL: it is asked over TCP. */
const char *client_socket(const struct client *c);
/* All requests together end within this time from now on, instead of each within its own; > 0. */
void client_within(struct client *c, struct mono limit);
/* Is that time over?  Never without client_within(). */
bool client_late(const struct client *c);

struct client_answer {
	long status;			/* HTTP status, 0 when there was no answer, or not all of it */
	bool broke_off;			/* an answer began, but did not come to its end */
	bool file_failed;		/* of a transfer: our own file did */
	struct buf body;		/* owned: client_answer_done() */
	uint64_t index;			/* X-Consul-Index, or 0 */
	bool filtered;			/* access control leaves something out: X-Consul-Results-Filtered-By-ACLs */
	bool denies;			/* what no rule is about is denied: X-Consul-Default-ACL-Policy */
	char reason[192];		/* X-Consul-Reason, where there is no body that says it */
	bool late;			/* there was no whole answer in time */
	char error[256];		/* why there was no whole answer */
	const char *remedy;		/* what to do about that; NULL: nothing is known */
};

/*
 * Performs METHOD path (already encoded).  body may be SPAN_NONE.  timeout_s: of the whole request.
 * Returns true for a 2xx answer.
 */
bool client_do(struct client *c, const char *method, const char *path, struct span body, long timeout_s,
    struct client_answer *out);
/*
 * By default client_do() tells on a terminal, from two seconds on, for how long it has waited.  on: it does not,
 * since waiting is what was asked for, or another function shows the progress.
 */
void client_quiet(struct client *c, bool on);
/*
 * GETs a path whose answer has no end; its bytes go to `to` as they come.  Returns when the server ends it, or `to`
 * fails; *out then tells what went wrong (status 200 and no error: nothing did).
 */
void client_stream(struct client *c, const char *path, FILE *to, struct client_answer *out);
/*
 * Long transfers, without a limit of time.  tick: now and then, also while nothing moves; bytes so far and in all (0:
 * not known).  download: what a 200 answer brings goes to `to`; upload: PUTs `size` bytes of `from`.  True for a 2xx
 * answer; a file that fails makes it false with a sentence in out->error.
 */
typedef void client_tick(void *ctx, uint64_t done, uint64_t total);
bool client_download(struct client *c, const char *path, FILE *to, client_tick *tick, void *ctx,
    struct client_answer *out);
bool client_upload(struct client *c, const char *path, FILE *from, uint64_t size, client_tick *tick, void *ctx,
    struct client_answer *out);
/*
 * Requests beside each other, at most one of each client, and a descriptor to wait for.  Exits 1 without memory.
 */
struct client_set;
struct client_set *client_set_new(void);
/* When nothing is under way any more; NULL is fine. */
void client_set_free(struct client_set *s);
/*
 * Begins what client_do() does, with a client that is not busy.  The bytes of the body and *out are used until it has
 * ended; then *out is as client_do() leaves it.
 */
void client_begin(struct client_set *s, struct client *c, const char *method, const char *path, struct span body,
    long timeout_s, struct client_answer *out);
bool client_busy(const struct client *c);
/* The client whose request has ended; NULL: fd (-1: none) can be read, or it is `until`.  MONO_NEVER: no limit. */
struct client *client_next(struct client_set *s, int fd, struct mono until);
/* Ends the request of a client, if there is one; its answer has status 0 and is to be freed all the same. */
void client_cancel(struct client_set *s, struct client *c);
void client_answer_done(struct client_answer *a);
/* Prints what went wrong, with a remedy where we know one, to stderr; returns exit status 1. */
int client_complain(struct client *c, const char *what, const struct client_answer *a);
/* true: client_get_json() returns texts as they came; else made fit for a terminal, see json_safe(). */
void client_keep_bytes(struct client *c, bool keep);
bool client_keeps_bytes(const struct client *c);
/* Says on stderr that a list is not all there is, if the answer says so. */
void client_tell_hidden(struct client *c, const struct client_answer *a, const json_t *list);
/* GET and parse; complains itself and returns NULL on failure.  The caller json_decref()s it. */
json_t *client_get_json(struct client *c, const char *what, const char *path);
/* The same as it came, and without a word when it fails. */
json_t *client_try_json(struct client *c, const char *path, long timeout_s);
/* Percent-encodes one path or query component onto b; keep_slash leaves '/' as it is. */
void client_encode(struct buf *b, const char *text, bool keep_slash);
void client_encode_bytes(struct buf *b, struct span text, bool keep_slash);
/*
 * The value that an answer is, or NULL and why.  Keys of objects with a NUL, which jansson does not hold, are as they
 * are shown, "a\x00b", and then so is every text of it.
 */
json_t *client_json(struct span text, json_error_t *why);

#endif
