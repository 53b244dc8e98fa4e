/* Questions that the cache follows, and the news of them.  See dns_lookups_int.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/net/source.h"
#include "rpcd/names/dns_lookups_int.h"

#define SLICE 64			/* follows that one turn of the loop looks at */
#define FOUND_BYTES_MAX (16u << 20)

static struct dns_followed *
find_follow(const struct dns_lookups *l, uint64_t id)
{
	return MAP_ENTRY(map_find(&l->by_id, id), struct dns_followed, node);
}

static void
set_lost(struct dns_followed *f, bool lost)
{
	if (f->q.own) {
		f->owner->lost += lost && !f->lost;
		f->owner->lost -= !lost && f->lost;
	}
	f->lost = lost;
}

void
dns_follow_free(struct dns_followed *f, bool forget)
{
	struct dns_lookups *l = f->owner;

	set_lost(f, false);
	cache_unfollow(f->cache);
	if (f->node.hash != 0) {
		map_remove(&l->by_id, &f->node);
		if (l->look_next == f)
			l->look_next = LIST_NEXT(f, link);
		LIST_REMOVE(f, link);
		l->stats.follows--;
	}
	if (forget) {
		struct cache_question q = dns_question_cached(l, &f->q);

		cache_forget(l->conf.cache, &q, f->used_at);
	}
	buf_done(&f->q.args);
	free(f);
}

static void
end_follow(struct dns_followed *f)
{
	struct dns_lookups *l = f->owner;
	uint64_t id = f->node.hash;

	dns_follow_free(f, false);
	l->conf.news(l->ctx, id, NULL);
}

/* Packs it, and says by a hash what it is; 0: no memory. */
static uint64_t
pack_found(const struct msg_dns_found *found, struct buf *out)
{
	buf_reset(out);
	schema_pack(&msg_dns_found_schema, found, out);
	return out->failed ? 0 : keyed_hash(out->data, out->len);
}

void
dns_follow_news(struct dns_followed *f, const struct cache_answer *answer)
{
	struct dns_lookups *l = f->owner;
	struct arena a = ARENA_INIT(DNS_LOOKUP_ARENA_MAX);
	struct buf packed = BUF_INIT(FOUND_BYTES_MAX);
	struct msg_dns_found found;
	bool stale = answer->age.ns > 0;
	uint64_t life = dns_question_life(l, answer, true);

	set_lost(f, stale);
	dns_question_contact(l, &f->q, stale);
	dns_question_read_cached(l, &f->q, &answer->reply, stale, &a, &found);
	found.followed = true;
	uint64_t print = pack_found(&found, &packed);
	if (found.status == DNS_FAILED || life == 0 || print == 0) {
		end_follow(f);
	} else if (print != f->print) {
		f->print = print;
		if (stale && life != UINT64_MAX) {	/* the time that is left makes it no other answer */
			found.life_ms = life;
			(void)pack_found(&found, &packed);
		}
		struct span body = buf_span(&packed);
		if (packed.failed)
			end_follow(f);
		else
			l->conf.news(l->ctx, f->node.hash, &body);
	}
	buf_done(&packed);
	arena_done(&a);
}

static void
on_news(void *ctx, const struct cache_answer *answer)
{
	struct dns_followed *f = ctx;

	if (f->node.hash == 0)
		f->ended = f->ended || answer == NULL;
	else if (answer == NULL)
		end_follow(f);
	else
		dns_follow_news(f, answer);
}

struct dns_followed *
dns_follow_new(struct dns_lookups *l, const struct dns_question *q)
{
	bool followed = false;
	struct dns_followed *f = NULL;
	struct cache_question ask = dns_question_cached(l, q);

	if (l->conf.news != NULL && l->stats.follows < l->conf.follows_max && cache_takes(ask.op, &followed) &&
	    followed)
		f = calloc(1, sizeof(*f) + q->name.len + q->dc.len);
	if (f == NULL)
		return NULL;
	uint8_t *text = f->text;
	f->owner = l;
	f->q = *q;
	f->q.args = BUF_INIT(65536);
	buf_putspan(&f->q.args, ask.args);
	f->q.name = span_place(&text, q->name);
	f->q.dc = span_place(&text, q->dc);
	f->cache = f->q.args.failed ? NULL : cache_follow(l->conf.cache, &ask, on_news, f);
	f->used_at = clock_mono();		/* no earlier than the cache has it */
	if (f->cache == NULL) {
		buf_done(&f->q.args);
		free(f);
		return NULL;
	}
	return f;
}

void
dns_follow_open(struct dns_followed *f, uint64_t id, const struct msg_dns_found *found)
{
	struct dns_lookups *l = f->owner;
	struct buf packed = BUF_INIT(FOUND_BYTES_MAX);

	f->print = pack_found(found, &packed);
	buf_done(&packed);
	map_add(&l->by_id, &f->node, id);
	LIST_INSERT_HEAD(&l->follows, f, link);
	l->stats.follows++;
	set_lost(f, found->stale);
}

void
dns_lookups_unfollow_all(struct dns_lookups *l)
{
	while (!LIST_EMPTY(&l->follows))
		dns_follow_free(LIST_FIRST(&l->follows), false);
}

/* The follow of the next id that has one; NULL: there are no more ids. */
static struct dns_followed *
next_follow(const struct dns_lookups *l, struct rd *ids)
{
	struct dns_followed *f = NULL;
	uint64_t id;

	while (f == NULL && rd_left(ids) >= sizeof(id)) {
		memcpy(&id, rd_bytes(ids, sizeof(id)).p, sizeof(id));
		f = find_follow(l, id);
	}
	return f;
}

void
dns_lookups_use(struct dns_lookups *l, struct span ids)
{
	struct rd in = rd_span_over(ids);
	struct dns_followed *f;

	while ((f = next_follow(l, &in)) != NULL) {
		cache_follow_use(f->cache);
		f->used_at = clock_mono();
	}
}

void
dns_lookups_unfollow(struct dns_lookups *l, struct span ids)
{
	struct rd in = rd_span_over(ids);
	struct dns_followed *f;

	while ((f = next_follow(l, &in)) != NULL)
		/* A list is large, and costs with each change. */
		dns_follow_free(f, f->q.kind == DNS_KIND_NODES || f->q.kind == DNS_KIND_SERVICES);
}

void
dns_follow_look_cb(struct ev_loop *loop UNUSED, ev_timer *w, int events UNUSED)
{
	struct dns_lookups *l = w->data;

	for (unsigned i = 0; i < SLICE && l->look_next != NULL; i++) {
		struct dns_followed *f = l->look_next;
		struct cache_answer now;

		l->look_next = LIST_NEXT(f, link);
		if (f->lost && dns_question_needs_members(&f->q) && cache_followed(f->cache, &now))
			dns_follow_news(f, &now);
	}
	if (l->look_next != NULL)
		ev_timer_again(l->conf.loop, &l->look);
	else
		ev_timer_stop(l->conf.loop, &l->look);
}

void
dns_lookups_members(struct dns_lookups *l)
{
	if (l->lost == 0)
		return;
	l->look_next = LIST_FIRST(&l->follows);
	if (l->look_next != NULL)
		ev_timer_again(l->conf.loop, &l->look);
}
