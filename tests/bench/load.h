/*
 * What the load generators have in common: options, keys and values, targets, the closed loop's clock, latencies and
 * the report.  A generator adds a protocol: it opens load.clients clients, each with one request under way.
 */
#ifndef TV_TESTS_BENCH_LOAD_H
#define TV_TESTS_BENCH_LOAD_H

#include <ev.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/clock.h"
#include "common/base/rng.h"

#define LOAD_KEY_CAP 32			/* bytes of a key with its NUL */
#define LOAD_VALUE_MAX 3000		/* bytes */
#define LOAD_TARGETS_MAX 16
#define LOAD_BUCKETS 640

enum load_mode {
	LOAD_PUT,			/* random keys */
	LOAD_FILL,			/* every key once, then end */
	LOAD_GET,			/* whatever the server does by default */
	LOAD_CONSISTENT,		/* linearizable, asked for explicitly */
	LOAD_STALE			/* as the asked server has it */
};

struct load {
	struct ev_loop *loop;
	const char *program;
	enum load_mode mode;
	unsigned clients, per_conn, keys, value_bytes, target_count;
	double seconds;
	bool json;
	const char *path;		/* bench_http: read this in place of a key; NULL: keys */
	const char *ca_file;		/* bench_http: HTTPS, with certificates by these CAs; NULL: plain HTTP */
	const char *token;		/* bench_http: sent with each request; NULL: none */
	struct sockaddr_in targets[LOAD_TARGETS_MAX];

	struct rng rng;
	struct mono count_from, began, ended;
	unsigned filled, under_way;
	uint64_t total, done, errors, histogram[LOAD_BUCKETS];
	int64_t worst_ns;
	ev_timer end;
};

/* Reads "[-c CLIENTS] [-m CLIENTS per connection] [-s SECONDS] [-k KEYS] [-b VALUE_BYTES] [-p PATH] [-t TOKEN] [-a CA_FILE] [-j] MODE
 * IP:PORT..."; ends the process with a usage line when something is wrong.  MODE: put, fill, get, consistent or stale.  program outlives l. */
void load_init(struct load *l, const char *program, int argc, char **argv);

/* A blocking connect to target number % target_count, then set non-blocking and TCP_NODELAY.  Failure ends the process. */
int load_connect(const struct load *l, unsigned number);

/* The next request's key, formatted.  False: this client has nothing more to do (the end came, or all is filled).  A true
 * must be followed by load_answer(). */
bool load_next(struct load *l, char key[LOAD_KEY_CAP], struct mono *sent);

/* Writes value_bytes bytes that (from 12 on) no other moment of a day has. */
void load_value(const struct load *l, struct mono sent, char *out);

/* One answer came; ok: the server did what was asked. */
void load_answer(struct load *l, struct mono sent, bool ok);

/* A connection ended or its protocol broke: says so and ends the process. */
_Noreturn void load_lost(const struct load *l, const char *why);

/* Runs the loop until the time is over or all is filled, prints the report; returns the process' exit status. */
int load_run(struct load *l);

#endif
