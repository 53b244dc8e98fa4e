/* gossipd.sock: the keys, told to rpcd for its links. */
#include "config.h"

#include "gossipd/handlers_int.h"

void
handlers_send_keys(struct client *c)
{
	const struct seal_ring *ring = kring_ring(c->h->e->keys);
	struct buf *b = chan_begin(c->chan, MSG_GOSSIP_KEYS, 0, 0);

	if (b == NULL)
		return;
	mpw_array(b, 1);
	mpw_array(b, ring->count);
	for (unsigned i = 0; i < ring->count; i++)
		mpw_bin(b, seal_key_at(ring, i));
	(void)chan_end(c->chan);
}

void
handlers_keys(struct handlers *h)
{
	struct client *next;

	for (struct client *c = h->clients; c != NULL; c = next) {
		next = c->next;
		if (c->keys)
			handlers_send_keys(c);
	}
}
