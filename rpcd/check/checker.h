/*
 * Between the files of rpcd-check, the program of the process "rpcd: check".  It is told of checks over a socketpair,
 * runs each on its schedule, and reports what changes.  main.c: the start and the walls; checks.c: the table, when one
 * runs, and what comes of it; probe_*.c: one kind each.
 */
#ifndef TV_RPCD_CHECK_CHECKER_H
#define TV_RPCD_CHECK_CHECKER_H

#include <ev.h>

#include "common/base/map.h"
#include "common/base/arena.h"
#include "common/net/chan.h"
#include "common/record/messages.h"
#include "common/record/records.h"
#include "rpcd/check/fair.h"
#include "rpcd/check/role.h"
#include "rpcd/check/schedule.h"
#include "rpcd/check/tail.h"
#include "rpcd/check/verdict.h"

#define OUTPUT_BYTES_MAX (1u << 20)	/* of one check */

struct task;
struct checker;
struct resolver;
struct curl_loop;
struct credentials;

/* A run of a check: the first member of what its probe keeps of it, all of which is zeroed before begin(). */
struct probe_run {
	struct task *check;
	struct mono begun;		/* zero: begin() is still to come */
	ev_timer timer;			/* that begins it, then its timeout: run_arm() */
};

struct probe_kind {
	const char *name;		/* as check_run.Kind */
	enum check_role role;		/* of the process that runs it */
	struct mono timeout;		/* where the check does not say */
	size_t size;			/* of the probe's struct */
	/* From the loop.  The run ends by run_end() or run_endf(), here or later. */
	void (*begin)(struct probe_run *r);
	/* The timeout is over.  NULL: nothing arms the timer, since the probe has another clock. */
	void (*expired)(struct probe_run *r);
	/* How long the name of its target has waited in our own queue so far, which is none of the timeout; or NULL. */
	struct mono (*queued)(const struct probe_run *r);
	/* The run is cancelled, before clear().  NULL: there is nothing else to do. */
	void (*cancelled)(struct probe_run *r);
	/* After begin(): gives back what the run holds. */
	void (*clear)(struct probe_run *r);
};
extern const struct probe_kind probe_tcp, probe_udp, probe_http, probe_grpc, probe_h2ping, probe_script,
	probe_docker;

struct task {
	struct slot slot;		/* first */
	struct fair_item place;		/* it waits for one, or runs in it */
	struct mono began;		/* this run */
	bool ran, slow;			/* at least once; the last time for longer than a second */
	struct checker *checker;
	struct map_node node;		/* whose hash is the handle itself */
	struct buf bytes;		/* packed check_run */
	struct arena arena;
	struct check_run def;		/* borrows bytes and arena */
	struct span id, service;	/* in arena; service: empty: of the node */
	const struct probe_kind *kind;
	struct verdict verdict;
	struct mono timeout;
	uint32_t output_max;
	bool reported;			/* status and output are what rpcd has */
	enum health status;
	uint64_t output_hash;
	struct probe_run *run;		/* under way, or NULL */
	void *kept;			/* the probe's, for the next run; one block of malloc() */
};

struct checker {
	struct ev_loop *loop;
	struct chan *chan;
	enum check_role role;
	const char *docker_socket;	/* empty: none */
	int log_dest;			/* enum log_dest */
	bool best_effort;		/* walls, as in cluster.conf */
	struct msg_check_setup setup;	/* but for its paths */
	struct credentials *credentials;	/* of the network's role, with the first setup */
	struct schedule *schedule;
	struct map tasks;
	ev_timer due, tell;
	struct mono planned;		/* what due is set to; zero: it is not */
	struct fair *places;		/* for runs */
	struct mono late_told;		/* when the log said last that runs are late */
	uint64_t late_before;		/* stats.late at that time */
	struct {			/* the last one of them */
		char id[128], service[128];
		struct mono by;
	} latest;
	struct msg_check_stats stats, told;
	struct resolver *resolver;
	struct curl_loop *curl;
};

/* -- checks.c -- */
enum tv_err checker_setup(struct checker *k, const struct msg_check_setup *setup);
enum tv_err checker_put(struct checker *k, const struct msg_check_put *put);
void checker_drop(struct checker *k, uint64_t handle);
/* Ends the run, whose memory goes, and frees output.  firm: it takes effect whatever the thresholds say. */
void run_end(struct probe_run *r, enum health status, struct buf *output, bool firm);
/* The same with a text, not firm. */
void run_endf(struct probe_run *r, enum health status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same of a program that printed this until its timeout. */
void run_end_program_late(struct probe_run *r, const struct tail *printed);
/* Until the timeout; 1 ms when it is over. */
struct mono run_left(const struct probe_run *r);
/* Sets the timer to the timeout. */
void run_arm(struct probe_run *r);

#endif
