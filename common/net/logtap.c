/* Log lines for readers, see logtap.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/logtap.h"

#define WAITING_BYTES_MAX (256u << 10)

struct waiting {
	struct waiting *next;
	struct log_line line;		/* texts in `bytes` */
	size_t size;
	char bytes[];			/* area, text */
};

struct logtap_reader {
	struct logtap *tap;
	struct logtap_reader *next;
	enum log_level level;
	void (*fn)(void *ctx, const struct log_line *line);	/* NULL: removed */
	void *ctx;
};

struct logtap {
	struct ev_loop *loop;
	ev_async wake;
	struct logtap_reader *readers;
	bool telling;
	pthread_mutex_t lock;		/* of what is below */
	struct waiting *first, **end;
	size_t bytes;
	uint64_t lost;
};

static struct waiting *
waiting_new(enum log_level level, const char *area, const char *text)
{
	size_t area_len = strlen(area) + 1, text_len = strlen(text) + 1;
	struct waiting *w = malloc(sizeof(*w) + area_len + text_len);

	if (w == NULL)
		return NULL;
	memcpy(w->bytes, area, area_len);
	memcpy(w->bytes + area_len, text, text_len);
	w->next = NULL;
	w->size = sizeof(*w) + area_len + text_len;
	w->line = (struct log_line){ clock_wall_ns() / 1000000, level, w->bytes, w->bytes + area_len };
	return w;
}

/* In the thread that logs. */
static void
on_line(void *ctx, enum log_level level, const char *area, const char *text)
{
	struct logtap *t = ctx;
	struct waiting *w = waiting_new(level, area, text);
	bool was_empty;

	pthread_mutex_lock(&t->lock);
	was_empty = t->first == NULL && t->lost == 0;
	if (w != NULL && t->bytes + w->size <= WAITING_BYTES_MAX) {
		*t->end = w;
		t->end = &w->next;
		t->bytes += w->size;
		w = NULL;
	} else {
		t->lost++;
	}
	pthread_mutex_unlock(&t->lock);
	free(w);
	if (was_empty)
		ev_async_send(t->loop, &t->wake);
}

/* Lines of the most talkative level that anybody wants. */
static void
retune(struct logtap *t)
{
	enum log_level level = LOG_LVL_ERR;

	for (struct logtap_reader *r = t->readers; r != NULL; r = r->next)
		if (r->level > level)
			level = r->level;
	log_tap(level, t->readers != NULL ? on_line : NULL, t);
}

static void
sweep(struct logtap *t)
{
	for (struct logtap_reader **at = &t->readers; *at != NULL;) {
		struct logtap_reader *r = *at;

		if (r->fn != NULL) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		free(r);
	}
	retune(t);
}

static void
write_line(struct logtap *t, const struct log_line *line)
{
	for (struct logtap_reader *r = t->readers; r != NULL; r = r->next)
		if (r->fn != NULL && line->level <= r->level)
			r->fn(r->ctx, line);
}

static void
on_wake(struct ev_loop *loop UNUSED, ev_async *a, int revents UNUSED)
{
	struct logtap *t = a->data;
	struct waiting *w, *next;
	struct log_line line;
	char text[96];
	uint64_t lost;

	pthread_mutex_lock(&t->lock);
	w = t->first;
	lost = t->lost;
	t->first = NULL;
	t->end = &t->first;
	t->bytes = 0;
	t->lost = 0;
	pthread_mutex_unlock(&t->lock);
	t->telling = true;
	for (; w != NULL; w = next) {
		next = w->next;
		write_line(t, &w->line);
		free(w);
	}
	if (lost > 0) {
		log_line_lost(&line, text, sizeof(text), lost);
		write_line(t, &line);
	}
	t->telling = false;
	sweep(t);
}

void
log_line_lost(struct log_line *line, char *text, size_t cap, uint64_t lost)
{
	snprintf(text, cap, "%" PRIu64 " lines were lost: they came faster than they were read", lost);
	*line = (struct log_line){ clock_wall_ns() / 1000000, LOG_LVL_WARN, "monitor", text };
}

struct logtap_reader *
logtap_add(struct logtap *t, enum log_level level, void (*fn)(void *ctx, const struct log_line *line), void *ctx)
{
	struct logtap_reader *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return NULL;
	*r = (struct logtap_reader){ t, t->readers, level, fn, ctx };
	t->readers = r;
	retune(t);
	return r;
}

void
logtap_remove(struct logtap_reader *r)
{
	if (r == NULL)
		return;
	r->fn = NULL;
	if (!r->tap->telling)
		sweep(r->tap);
}

struct logtap *
logtap_new(struct ev_loop *loop)
{
	struct logtap *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->loop = loop;
	t->end = &t->first;
	pthread_mutex_init(&t->lock, NULL);
	ev_async_init(&t->wake, on_wake);
	t->wake.data = t;
	ev_async_start(loop, &t->wake);
	ev_unref(loop);			/* does not keep the loop alive */
	return t;
}

void
logtap_free(struct logtap *t)
{
	if (t == NULL)
		return;
	log_tap(LOG_LVL_ERR, NULL, NULL);
	ev_ref(t->loop);
	ev_async_stop(t->loop, &t->wake);
	for (struct waiting *w = t->first, *next; w != NULL; w = next) {
		next = w->next;
		free(w);
	}
	while (t->readers != NULL) {
		struct logtap_reader *r = t->readers;

		t->readers = r->next;
		free(r);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}
