/*
 * Places for work that many owners share: runs of checks, questions for names.  Each class of work has a number of
 * places, and so has each owner within a class, so that what one of them has to wait for does not keep the others
 * waiting.  What gets no place waits; owners take turns, and so do classes.  Pure: the clock is handed in.
 */
#ifndef TV_RPCD_CHECK_FAIR_H
#define TV_RPCD_CHECK_FAIR_H

#include <stdbool.h>
#include <sys/queue.h>

#include "common/base/err.h"
#include "common/base/mono.h"
#include "common/base/rd.h"

enum fair_class {
	FAIR_QUICK,			/* took a moment the last time */
	FAIR_NEW,			/* was never done */
	FAIR_SLOW,			/* took long, or had no answer */
	FAIR_CLASSES
};

struct fair_conf {
	unsigned places;		/* all together */
	struct {
		unsigned places, of_one;	/* of the class; in it, of one owner */
	} class[FAIR_CLASSES];
};

struct fair;
struct fair_owner;

struct fair_item {			/* in the user's struct, zeroed before its first use */
	STAILQ_ENTRY(fair_item) turn;
	TAILQ_ENTRY(fair_item) arrival;
	struct fair_owner *owner;	/* NULL: neither waits nor has a place */
	enum fair_class class;
	bool placed;
	struct mono since;		/* it waits; once it is placed: it has the place */
};

/* NULL: no memory. */
struct fair *fair_new(const struct fair_conf *conf);
/* Its items are no longer used. */
void fair_free(struct fair *f);
/* From now on; an item that has a place keeps it.  Limits of 0 count as 1. */
void fair_limits(struct fair *f, const struct fair_conf *conf);
/* Begins to wait, at the end of this owner's queue; the name is copied.  TV_ENOMEM: it does not. */
enum tv_err fair_add(struct fair *f, struct fair_item *it, struct span owner, enum fair_class class, struct mono now);
/* Gives the next one in turn its place; NULL: none waits, or there is no place for it. */
struct fair_item *fair_next(struct fair *f, struct mono now);
/* It waits no more, or gives its place back.  Nothing, if it does neither. */
void fair_remove(struct fair *f, struct fair_item *it);
/* Of those that wait: the one that came first, and the one behind; NULL: none. */
struct fair_item *fair_first(const struct fair *f);
struct fair_item *fair_behind(const struct fair_item *it);
unsigned fair_waiting(const struct fair *f);
/* Does anything of this owner wait? */
bool fair_owner_waits(struct fair *f, struct span owner);
unsigned fair_placed(const struct fair *f);
/* The owner with most places, borrowed until the next call: to be named where others wait.  0: no place is taken. */
unsigned fair_greatest(const struct fair *f, struct span *owner);

#endif
