/*
 * A file of services.d, in our own form or, with 'j' as its first byte, in Consul's JSON: refused with a place and a
 * sentence, or definitions that the registry takes, and that change nothing when they are taken again.
 */
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/log.h"
#include "rpcd/registry/def_set.h"
#include "rpcd/registry/registry_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES_MAX 64

static struct mono
now(void)
{
	return MONO_ZERO;
}

/* Nobody answers: what is registered stays dirty. */
static struct route_call *
send_op(struct route *route, const struct op_request *q, registry_reply *done, void *ctx)
{
	(void)route, (void)q, (void)done, (void)ctx;
	return NULL;
}

static void
save(void *ctx, bool durable)
{
	(void)ctx, (void)durable;
}

static void
due(void *ctx, struct mono at)
{
	(void)ctx, (void)at;
}

static void
count(void *ctx, enum registry_change change, enum entry_kind kind, struct span id, struct span place)
{
	(void)kind, (void)id, (void)place;
	++((unsigned *)ctx)[change];
}

static void
take(const struct def_set *s)
{
	struct registry *r = registry_new(&(struct registry_conf){ .node_name = "n", .node_id = "i", .address = "a",
		.entries_max = ENTRIES_MAX, .now = now, .send = send_op, .save = save, .due = due });
	unsigned first[3] = { 0 }, again[3] = { 0 };
	char why[256] = "";

	TV_ASSERT(r != NULL);
	enum tv_err err = registry_definable(r, s->v, s->n, why, sizeof(why));
	TV_ASSERT(err == TV_OK ? why[0] == '\0' : (err == TV_ELIMIT || err == TV_ENOENT) && why[0] != '\0');
	if (err == TV_OK) {
		registry_define(r, s->v, s->n, true, count, first);
		TV_ASSERT(first[DEFINED_NEW] == s->n && first[DEFINED_OTHER] + first[DEFINED_GONE] == 0);
		registry_define(r, s->v, s->n, true, count, again);
		TV_ASSERT(again[0] + again[1] + again[2] == 0);
		registry_define(r, NULL, 0, true, count, again);
		TV_ASSERT(again[DEFINED_GONE] == s->n && registry_count(r, ENTRY_CHECK) == 0);
	}
	registry_free(r);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum def_form form = size == 0 ? DEF_OWN : data[0] == 'j' ? DEF_JSON : data[0] == 'h' ? DEF_HCL : DEF_OWN;
	struct span text = form != DEF_OWN ? span_of(data + 1, size - 1) : span_of(data, size);
	struct def_set s;
	char why[1024] = "";

	log_init("fuzz", LOG_LVL_ERR, LOG_TO_STDERR);
	def_set_init(&s, size % 2 == 0, NULL);
	if (def_set_add(&s, "f", text, form, why, sizeof(why)) == TV_OK) {
		TV_ASSERT(why[0] == '\0');
		def_set_finish(&s);
		for (uint32_t i = 1; i < s.n; i++)
			TV_ASSERT(s.v[i - 1].rec.kind <= s.v[i].rec.kind);
		take(&s);
	} else {
		TV_ASSERT(why[0] == 'f' && why[1] == ':' && why[2] >= '1' && why[2] <= '9');
	}
	def_set_done(&s);
	return 0;
}
