/* Pages read outside of Berkeley DB: see store_fetch.h. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "raftd/store/bdb/store_behind.h"
#include "raftd/store/bdb/store_env.h"
#include "raftd/store/bdb/store_fetch.h"

#define SLOTS 32

/* A page on its way, or at hand until it is taken. */
struct slot {
	enum { SLOT_FREE, SLOT_READING, SLOT_READY } state;
	bool stale;			/* written to meanwhile: what is being read is of before */
	int fd;
	off_t at;
	ssize_t got;
	uint64_t used;			/* when it was taken for this */
	uint8_t bytes[STORE_PAGE_BYTES];
};

/* For all of the process, as the calls of Berkeley DB are. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	uint64_t clock;
	struct slot slots[SLOTS];
} fetched = { .lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER };

/* What this thread was refused last. */
static _Thread_local struct {
	struct store_behind *b;
	int fd;
	off_t at;
} refused;
static _Thread_local bool cached_only, was_refused;
static _Thread_local uint64_t page_reads;

void
store_cached_only(bool on)
{
	cached_only = on;
	was_refused = false;
}

bool
store_was_refused(void)
{
	return was_refused;
}

uint64_t
store_page_reads(void)
{
	return page_reads;
}

/* Lock held. */
static struct slot *
slot_find(int fd, off_t at)
{
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &fetched.slots[i];

		if (s->state != SLOT_FREE && s->fd == fd && s->at == at)
			return s;
	}
	return NULL;
}

/* Lock held.  A free one, or the oldest that no reader came for; NULL: all are being read. */
static struct slot *
slot_take(void)
{
	struct slot *best = NULL;

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &fetched.slots[i];

		if (s->state == SLOT_FREE)
			return s;
		if (s->state == SLOT_READY && (best == NULL || s->used < best->used))
			best = s;
	}
	return best;
}

/* Lock held, and let go while the disk works.  0 or an errno. */
static int
read_into(struct slot *s)
{
	bool waits;
	ssize_t got = 0;
	int why = 0;

	pthread_mutex_unlock(&fetched.lock);
	/* Seen after the slot is: whatever is written from now on makes it stale. */
	waits = refused.b != NULL && behind_page_waits(refused.b, refused.at);
	if (!waits) {
		got = pread(refused.fd, s->bytes, sizeof(s->bytes), refused.at);
		why = got == -1 ? errno : 0;
	}
	pthread_mutex_lock(&fetched.lock);
	s->got = got;
	s->state = waits || why != 0 || s->stale ? SLOT_FREE : SLOT_READY;
	pthread_cond_broadcast(&fetched.done);
	return why == EINTR ? 0 : why;
}

int
store_fetch(void)
{
	struct slot *s;
	int why = 0;

	pthread_mutex_lock(&fetched.lock);
	s = slot_find(refused.fd, refused.at);
	while (s == NULL && (s = slot_take()) == NULL) {
		pthread_cond_wait(&fetched.done, &fetched.lock);
		s = slot_find(refused.fd, refused.at);
	}
	if (s->state != SLOT_FREE && s->fd == refused.fd && s->at == refused.at) {
		while (s->state == SLOT_READING && s->fd == refused.fd && s->at == refused.at)
			pthread_cond_wait(&fetched.done, &fetched.lock);
	} else {
		s->state = SLOT_READING;
		s->stale = false;
		s->fd = refused.fd;
		s->at = refused.at;
		s->used = ++fetched.clock;
		why = read_into(s);
	}
	pthread_mutex_unlock(&fetched.lock);
	return why;
}

/* -- below Berkeley DB -- */

/* What is at hand; Berkeley DB has it from here on. */
static bool
give_fetched(int fd, void *p, size_t n, off_t at, ssize_t *got)
{
	struct slot *s;
	bool given;

	pthread_mutex_lock(&fetched.lock);
	s = slot_find(fd, at);
	given = s != NULL && s->state == SLOT_READY && n == sizeof(s->bytes);
	if (given) {
		*got = s->got;
		memcpy(p, s->bytes, n);
		s->state = SLOT_FREE;
		pthread_cond_broadcast(&fetched.done);
	}
	pthread_mutex_unlock(&fetched.lock);
	return given;
}

bool
fetch_read(struct store_behind *b, int fd, void *p, size_t n, off_t at, ssize_t *got)
{
	was_refused = false;
	if (give_fetched(fd, p, n, at, got))
		return true;
	if (cached_only && n == STORE_PAGE_BYTES) {
		refused.b = b;
		refused.fd = fd;
		refused.at = at;
		was_refused = true;
		errno = STORE_UNCACHED;
		return false;
	}
	page_reads++;
	*got = pread(fd, p, n, at);
	return *got != -1;
}

void
fetch_changed(int fd, off_t at)
{
	struct slot *s;

	pthread_mutex_lock(&fetched.lock);
	s = slot_find(fd, at);
	if (s != NULL && s->state == SLOT_READY)
		s->state = SLOT_FREE;
	else if (s != NULL)
		s->stale = true;
	pthread_mutex_unlock(&fetched.lock);
}

void
fetch_forget(int fd)
{
	pthread_mutex_lock(&fetched.lock);
	for (int i = 0; i < SLOTS; i++)
		if (fetched.slots[i].fd == fd) {
			fetched.slots[i].stale = true;
			if (fetched.slots[i].state == SLOT_READY)
				fetched.slots[i].state = SLOT_FREE;
		}
	pthread_mutex_unlock(&fetched.lock);
}
