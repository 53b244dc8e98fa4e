/*
 * rpcd's checks.json: whatever stands in it, a table comes of it that is written as a text which gives the same table.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "rpcd/agent/checks_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECKS_MAX 32

/* The table itself asks nobody. */
struct route_call *
route_start(struct route *r, const struct op_request *q, route_done *done, void *ctx)
{
	(void)r, (void)q, (void)done, (void)ctx;
	abort();
}

void
route_cancel(struct route_call *c)
{
	(void)c;
	abort();
}

static void
open_table(struct checks *c)
{
	*c = (struct checks){ .conf = { .loop = ev_default_loop(EVFLAG_AUTO), .path = "checks.json",
		.checks_max = CHECKS_MAX } };
}

static void
close_table(struct checks *c)
{
	while (c->first != NULL)
		checks_drop(c->first);
}

static void
look(const struct checks *c)
{
	unsigned n = 0;

	for (const struct local_check *k = c->first; k != NULL; k = k->next, n++)
		TV_ASSERT(k->id[0] != '\0' && checks_status(span_str(k->status)) == k->status && k->name != NULL &&
		    k->notes != NULL && k->output != NULL && k->service_id != NULL);
	TV_ASSERT(n == c->count && n <= CHECKS_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf first = BUF_INIT(16u << 20), second = BUF_INIT(16u << 20);
	struct checks c, again;

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	open_table(&c);
	if (checks_parse(&c, span_of(data, size)) != TV_OK)
		TV_ASSERT(c.first == NULL);
	look(&c);
	checks_print(&c, &first);
	open_table(&again);
	TV_ASSERT(!first.failed && checks_parse(&again, buf_span(&first)) == TV_OK);
	look(&again);
	checks_print(&again, &second);
	TV_ASSERT(span_eq(buf_span(&first), buf_span(&second)));
	close_table(&c);
	close_table(&again);
	buf_done(&first);
	buf_done(&second);
	return 0;
}
