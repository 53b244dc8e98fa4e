/*
 * What is to happen in a simulated world, by time.  Events live in slots that do not cost an
 * allocation each; bytes of datagrams come from a pool.
 */
#ifndef TV_TESTS_SIM_SIM_QUEUE_H
#define TV_TESTS_SIM_SIM_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/mono.h"

#define SIM_NO_SLOT UINT32_MAX

enum sim_event_type { SIM_TICK, SIM_PACKET, SIM_REQUEST, SIM_ANSWER, SIM_FAILED };

struct sim_event {
	struct mono at;
	struct mono deadline;		/* of the stream */
	uint64_t stream;
	uint8_t *bytes;			/* from queue_bytes(), or NULL */
	uint32_t len, cap;
	uint32_t to, from;		/* members */
	uint32_t to_life, from_life;	/* an earlier life of `to` does not get it */
	uint32_t next;			/* chain of free slots, or of whoever holds it */
	enum sim_event_type type;
};

struct sim_queue;

struct sim_queue *queue_new(void);
void queue_free(struct sim_queue *q);
/* Bytes for an event. */
uint8_t *queue_bytes(struct sim_queue *q, size_t cap);
void queue_give(struct sim_queue *q, uint8_t *bytes, size_t cap);
/* Enters e at e->at; equal times leave in the order of entry. */
void queue_push(struct sim_queue *q, const struct sim_event *e);
/* When the next one is due; MONO_NEVER: none. */
struct mono queue_next(const struct sim_queue *q);
/* Takes the next one out; its bytes are the caller's to give back. */
struct sim_event queue_pop(struct sim_queue *q);

#endif
