/* Whose keys are wrong; see key_trouble.h. */
#include "config.h"

#include "gossipd/key_trouble.h"

#define JUDGED_MAX 10			/* addresses in JUDGED_PERIOD */
#define JUDGED_PERIOD MONO_S(1)

static bool
counts(const struct key_source *s, struct mono now)
{
	return s->messages > 0 && mono_before(now, mono_add(s->at, KEY_TROUBLE_WINDOW));
}

/* Where it stands in the list; KEY_TROUBLE_SOURCES: nowhere. */
static unsigned
find_source(const struct key_source *list, const struct addr *addr, struct mono now)
{
	unsigned i = 0;

	while (i < KEY_TROUBLE_SOURCES && !(counts(&list[i], now) && addr_eq(&list[i].addr, addr)))
		i++;
	return i;
}

/* A free place, or the one that was heard least recently. */
static struct key_source *
make_room(struct key_source *list, struct mono now)
{
	struct key_source *oldest = &list[0];

	for (unsigned i = 0; i < KEY_TROUBLE_SOURCES; i++) {
		if (!counts(&list[i], now))
			return &list[i];
		if (mono_before(list[i].at, oldest->at))
			oldest = &list[i];
	}
	return oldest;
}

static void
note_source(struct key_source *list, const struct addr *addr, unsigned messages, struct mono now)
{
	unsigned i = find_source(list, addr, now);
	struct key_source *at = i < KEY_TROUBLE_SOURCES ? &list[i] : make_room(list, now);

	if (i == KEY_TROUBLE_SOURCES)
		*at = (struct key_source){ .addr = *addr };
	at->at = now;
	if (at->messages < KEY_TROUBLE_MESSAGES)
		at->messages += messages;
}

void
key_trouble_understood(struct key_trouble *t, const struct addr *from, struct mono now)
{
	note_source(t->understood, from, 1, now);
}

void
key_trouble_unread(struct key_trouble *t, const struct addr *from, enum key_peer peer, struct mono now)
{
	if (peer != KEY_PEER_STRANGER)
		note_source(t->unread, from, peer == KEY_PEER_DIALLED ? KEY_TROUBLE_MESSAGES : 1, now);
}

bool
key_trouble_alone(const struct key_trouble *t, struct mono now, struct addr *from, bool *understands)
{
	unsigned unread = 0, understood = 0, messages = 0;
	const struct key_source *last = NULL;

	for (unsigned i = 0; i < KEY_TROUBLE_SOURCES; i++) {
		const struct key_source *s = &t->unread[i];

		understood += counts(&t->understood[i], now);
		/* A source that we also understand has another key beside ours, or its address is forged. */
		if (!counts(s, now) || find_source(t->understood, &s->addr, now) < KEY_TROUBLE_SOURCES)
			continue;
		unread++;
		messages += s->messages;
		last = last == NULL || mono_before(last->at, s->at) ? s : last;
	}
	if (messages < KEY_TROUBLE_MESSAGES || unread <= understood)
		return false;
	*from = last->addr;
	*understands = understood > 0;
	return true;
}

bool
key_trouble_may_judge(struct key_trouble *t, struct mono now)
{
	if (t->judged == 0 || !mono_before(now, mono_add(t->judged_at, JUDGED_PERIOD))) {
		t->judged_at = now;
		t->judged = 0;
	}
	return t->judged < JUDGED_MAX && t->judged++ < JUDGED_MAX;
}
