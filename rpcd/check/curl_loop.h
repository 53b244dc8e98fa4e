/* libcurl's multi interface on a loop. */
#ifndef TV_RPCD_CHECK_CURL_LOOP_H
#define TV_RPCD_CHECK_CURL_LOOP_H

#include <curl/curl.h>
#include <ev.h>
#include <stdbool.h>

struct curl_loop;

struct transfer {			/* in its owner's struct */
	CURL *easy;			/* NULL: none */
	bool ready;			/* ready() was called for the handle */
	/* It is over; the easy handle is good until transfer_end(). */
	void (*done)(struct transfer *t, CURLcode rc);
};

/* NULL: no memory, or libcurl cannot start. */
struct curl_loop *curl_loop_new(struct ev_loop *loop);
/*
 * Sets t->easy, with nothing set but what all have in common and what ready() has set, which may be NULL and is always
 * the same one otherwise: it sets what all its transfers have in common, and is not called for a handle that was kept.
 * False: no memory.
 */
bool transfer_init(struct curl_loop *l, struct transfer *t, void (*ready)(CURL *easy));
/* done comes later, from the loop.  False: no memory. */
bool transfer_start(struct curl_loop *l, struct transfer *t);
/* Ends it without done, if it has not come, and gives the handle back; also where there is none. */
void transfer_end(struct curl_loop *l, struct transfer *t);
/*
 * As transfer_end(), and the handle is kept as it is for another transfer with ready(): what borrows memory must have
 * been set back, and all that is set else must be what each of them sets.
 */
void transfer_keep(struct curl_loop *l, struct transfer *t);

#endif
