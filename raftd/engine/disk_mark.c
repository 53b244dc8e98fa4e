/* Marks of disks. */
#include "raftd/engine/disk_mark.h"

/* Is a further than b, or as far? */
static bool
reaches(const struct disk_mark *a, const struct disk_mark *b)
{
	return a->term != b->term ? a->term > b->term : a->kept >= b->kept;
}

static void
forget_others(struct disk_marks *b, const struct raft_config *c)
{
	for (unsigned i = b->count; i-- > 0; )
		if (raft_config_find(c, b->of[i].id) == NULL)
			b->of[i] = b->of[--b->count];
}

static struct disk_mark *
find_or_add(struct disk_marks *b, const struct raft_config *c, raft_id id)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->of[i].id == id)
			return &b->of[i].mark;
	if (raft_config_find(c, id) == NULL)
		return NULL;
	if (b->count == RAFT_SERVERS_MAX)
		forget_others(b, c);
	if (b->count == RAFT_SERVERS_MAX)
		return NULL;
	b->of[b->count].id = id;
	b->of[b->count].mark = (struct disk_mark){ 0 };
	return &b->of[b->count++].mark;
}

/*
 * Marks arrive by two links, so in any order.  While one says that its disk went back, what it had is remembered, with the server that says it; only that
 * life of it can say that it was made up for: a later one may not know yet.
 */
void
disk_marks_heard(struct disk_marks *b, const struct raft_config *c, raft_id id, const struct disk_mark *m)
{
	struct disk_mark *known = m->life != 0 ? find_or_add(b, c, id) : NULL;
	bool further;

	if (known == NULL)
		return;
	further = reaches(m, known);
	if (m->went_back) {
		known->went_back = true;
		known->life = m->life;
		if (further)
			*known = *m;
	} else if (further && (!known->went_back || known->life == m->life)) {
		*known = *m;
	}
}

struct disk_mark
disk_marks_of(const struct disk_marks *b, raft_id id)
{
	for (unsigned i = 0; i < b->count; i++)
		if (b->of[i].id == id)
			return b->of[i].mark;
	return (struct disk_mark){ 0 };
}

bool
disk_went_back(const struct disk_found *f, const struct disk_mark *seen)
{
	if (seen->life == 0 || seen->life == f->life)
		return false;
	if (seen->went_back || f->term != seen->term)
		return seen->went_back || f->term < seen->term;
	return f->last < seen->kept || (seen->vote != 0 && f->vote != seen->vote);
}
