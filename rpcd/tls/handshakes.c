/* Handshakes in threads; see handshakes.h. */
#include <pthread.h>
#include <stdlib.h>

#include "common/net/source.h"
#include "common/proc/thread.h"
#include "rpcd/tls/handshakes.h"

#define THREADS_MAX 8

TAILQ_HEAD(handshake_list, handshake);

struct handshakes {
	struct handshakes_conf conf;
	struct crowd here;			/* queued, running, or done and not collected */
	unsigned most;
	ev_async wake;
	pthread_t threads[THREADS_MAX];
	unsigned count;				/* of threads */
	pthread_mutex_t lock;			/* guards what follows, and `state` of all */
	pthread_cond_t more;
	struct handshake_list queue, done;
	unsigned queued, idle;			/* idle: threads that wait */
	bool stop;
};

static void *
thread_main(void *arg)
{
	struct handshakes *h = arg;
	struct handshake *k;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		h->idle++;
		while ((k = TAILQ_FIRST(&h->queue)) == NULL && !h->stop)
			pthread_cond_wait(&h->more, &h->lock);
		h->idle--;
		if (k == NULL)
			break;
		TAILQ_REMOVE(&h->queue, k, link);
		h->queued--;
		k->state = HANDSHAKE_RUNS;
		pthread_mutex_unlock(&h->lock);
		h->conf.work(k);
		pthread_mutex_lock(&h->lock);
		TAILQ_INSERT_TAIL(&h->done, k, link);
		ev_async_send(h->conf.loop, &h->wake);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static void
collect_done(struct handshakes *h)
{
	struct handshake_list list = TAILQ_HEAD_INITIALIZER(list);
	struct handshake *k;

	pthread_mutex_lock(&h->lock);
	TAILQ_CONCAT(&list, &h->done, link);
	pthread_mutex_unlock(&h->lock);
	while ((k = TAILQ_FIRST(&list)) != NULL) {
		bool displaced = k->state == HANDSHAKE_DISPLACED;

		TAILQ_REMOVE(&list, k, link);
		k->state = HANDSHAKE_HERE;
		crowd_leave(&h->here, &k->place);
		if (displaced)
			h->conf.refused(k);
		else
			h->conf.done(k);
	}
}

static void
on_wake(struct ev_loop *loop UNUSED, ev_async *w, int events UNUSED)
{
	collect_done(w->data);
}

/* Locked. */
static bool
is_away(const struct crowd_member *m)
{
	return MAP_ENTRY((void *)m, struct handshake, place)->state != HANDSHAKE_QUEUED;
}

struct handshakes *
handshakes_new(const struct handshakes_conf *conf)
{
	struct handshakes *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	h->conf = *conf;
	if (h->conf.threads_max > THREADS_MAX)
		h->conf.threads_max = THREADS_MAX;
	crowd_init(&h->here, &(struct crowd_conf){
		.max = conf->waiting_max + h->conf.threads_max, .source_max = UINT32_MAX, .hash = keyed_hash,
		.largest = true, .stays = is_away,
	});
	TAILQ_INIT(&h->queue);
	TAILQ_INIT(&h->done);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->more, NULL);
	ev_async_init(&h->wake, on_wake);
	h->wake.data = h;
	ev_async_start(conf->loop, &h->wake);
	return h;
}

/* One in the queue gives its place; its owner is told from the loop.  False: none does. */
static bool
displace(struct handshakes *h, uint64_t source)
{
	struct crowd_member *m;
	struct handshake *k = NULL;

	pthread_mutex_lock(&h->lock);
	m = crowd_gives_way(&h->here, source);
	if (m != NULL && m->source->members > 1) {
		k = MAP_ENTRY((void *)m, struct handshake, place);
		TAILQ_REMOVE(&h->queue, k, link);
		h->queued--;
		k->state = HANDSHAKE_DISPLACED;
		TAILQ_INSERT_TAIL(&h->done, k, link);
		ev_async_send(h->conf.loop, &h->wake);
	}
	pthread_mutex_unlock(&h->lock);
	return k != NULL;
}

bool
handshakes_put(struct handshakes *h, struct handshake *k, uint64_t source)
{
	bool short_of_threads;

	if (crowd_is_full(&h->here) && !displace(h, source))
		return false;
	if (!crowd_come(&h->here, &k->place, source))
		return false;
	pthread_mutex_lock(&h->lock);
	TAILQ_INSERT_TAIL(&h->queue, k, link);
	k->state = HANDSHAKE_QUEUED;
	h->queued++;
	if (h->queued > h->most)
		h->most = h->queued;
	short_of_threads = h->queued > h->idle && h->count < h->conf.threads_max;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
	if (short_of_threads && thread_start(&h->threads[h->count], "handshakes", thread_main, h) == 0)
		h->count++;
	return h->count > 0 || !handshakes_withdraw(h, k);
}

bool
handshakes_withdraw(struct handshakes *h, struct handshake *k)
{
	bool queued;

	pthread_mutex_lock(&h->lock);
	queued = k->state == HANDSHAKE_QUEUED;
	if (queued) {
		TAILQ_REMOVE(&h->queue, k, link);
		h->queued--;
		k->state = HANDSHAKE_HERE;
	}
	pthread_mutex_unlock(&h->lock);
	if (queued)
		crowd_leave(&h->here, &k->place);
	return queued;
}

void
handshakes_free(struct handshakes *h)
{
	if (h == NULL)
		return;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_broadcast(&h->more);
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < h->count; i++)
		pthread_join(h->threads[i], NULL);
	collect_done(h);
	ev_async_stop(h->conf.loop, &h->wake);
	crowd_done(&h->here);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void
handshakes_stats(const struct handshakes *h, unsigned *waiting, unsigned *waiting_most, unsigned *threads)
{
	struct handshakes *all = (struct handshakes *)h;

	pthread_mutex_lock(&all->lock);
	*waiting = h->queued;
	pthread_mutex_unlock(&all->lock);
	*waiting_most = h->most;
	*threads = h->count;
}
