/*
 * /v1/internal/ui/: what Consul's web pages ask for: nodes with all that is registered on them, and a summary of each
 * service.
 */
#include <stdlib.h>

#include "common/record/mpack.h"
#include "common/record/records.h"
#include "rpcd/api/api.h"

#define ENTRY_MEMORY (4u << 20)		/* one entry with its checks, decoded */
#define EXTERNAL_SOURCE "external-source"	/* of a service's Meta */

/* -- one node -- */

/* The first of the list, which has one or none. */
static void
finish_node(struct request *r, const struct op_reply *reply)
{
	struct rd in = rd_span_over(reply->value);
	uint32_t n;

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	n = mpr_nil(&in) ? 0 : mpr_array(&in);
	if (in.err == TV_OK && n == 0)
		answer_text(r, 404, "%s", "");
	else
		api_rendered(r, in.err != TV_OK ? in.err : schema_json(&node_dump_schema, &in, &r->answer.body));
}

/* -- services -- */

RECORD_LOCAL(summary,
	(STR, Kind, SF_OMITEMPTY), (STR, Name), (STR, Datacenter), (STRS, Tags, SF_NULLEMPTY),
	(STRS, Nodes, SF_NULLEMPTY), (STRS, ExternalSources, SF_NULLEMPTY), (U64, InstanceCount), (U64, ChecksPassing),
	(U64, ChecksWarning), (U64, ChecksCritical), (CONST, GatewayConfig, "{}"), (BOOL, TransparentProxy),
	(BOOL, ConnectNative), (BOOL, ConnectedWithProxy), (CONST, ConnectedWithGateway, "false"))

/* What is known of a service comes as facts about its name; sorted they lie side by side, and those told twice too. */
enum what { INSTANCE, NODE, TAG, SOURCE, CHECK, PROXY };
struct fact {
	struct span service;
	enum what what;
	struct span a, b;	/* INSTANCE: kind, datacenter; CHECK: node, check; else a alone */
	char mark;		/* CHECK: p, w or c; PROXY: t if transparent; INSTANCE: n if native */
};

struct facts {
	struct fact *v;
	size_t n, cap;
	bool failed;
};

static void
add_fact(struct facts *f, struct span service, enum what what, struct span a, struct span b, char mark)
{
	if (f->n == f->cap) {
		size_t cap = f->cap == 0 ? 256 : f->cap * 2;
		struct fact *v = reallocarray(f->v, cap, sizeof(*v));

		if (v == NULL) {
			f->failed = true;
			return;
		}
		f->v = v;
		f->cap = cap;
	}
	f->v[f->n++] = (struct fact){ service, what, a, b, mark };
}

static int
compare(const void *x, const void *y)
{
	const struct fact *p = x, *q = y;
	int d = span_cmp(p->service, q->service);

	d = d != 0 ? d : (int)p->what - (int)q->what;
	d = d != 0 ? d : span_cmp(p->a, q->a);
	return d != 0 ? d : span_cmp(p->b, q->b);
}

static void
note_checks(struct facts *f, struct span service, const struct health_entry *e)
{
	for (uint32_t i = 0; i < e->Checks.n; i++) {
		const struct check *c = &((const struct check *)e->Checks.v)[i];

		add_fact(f, service, CHECK, e->Node.Node, c->CheckID, c->Status.len > 0 ? (char)c->Status.p[0] : ' ');
	}
}

static void
note_entry(struct facts *f, const struct health_entry *e)
{
	const struct service *s = &e->Service;

	add_fact(f, s->Service, INSTANCE, s->Kind, e->Node.Datacenter, s->Connect.Native ? 'n' : ' ');
	add_fact(f, s->Service, NODE, e->Node.Node, SPAN_NONE, ' ');
	for (uint32_t i = 0; i < s->Tags.n; i++)
		add_fact(f, s->Service, TAG, s->Tags.v[i], SPAN_NONE, ' ');
	for (uint32_t i = 0; i < s->Meta.n; i++)
		if (span_eqs(s->Meta.kv[i][0], EXTERNAL_SOURCE) && s->Meta.kv[i][1].len > 0)
			add_fact(f, s->Service, SOURCE, s->Meta.kv[i][1], SPAN_NONE, ' ');
	note_checks(f, s->Service, e);
	if (!span_eqs(s->Kind, "connect-proxy"))
		return;
	/* Its checks count for what it stands before, too. */
	add_fact(f, s->Proxy.DestinationServiceName, PROXY, SPAN_NONE, SPAN_NONE,
	    span_eqs(s->Proxy.Mode, "transparent") ? 't' : ' ');
	note_checks(f, s->Proxy.DestinationServiceName, e);
}

/* The texts of one kind of fact, each once; null when there is none.  room: for so many; it is used up. */
static struct span_list
texts_of(const struct fact *v, size_t n, enum what what, struct span **room)
{
	struct span_list list = { .v = *room };

	for (size_t i = 0; i < n; i++)
		if (v[i].what == what && (list.n == 0 || !span_eq(list.v[list.n - 1], v[i].a)))
			list.v[list.n++] = v[i].a;
	list.set = list.n > 0;
	*room += list.n;
	return list;
}

/* All facts about one service. */
static void
put_summary(struct buf *out, const struct fact *v, size_t n, struct span *room)
{
	struct summary s = {
		.Name = v->service, .Tags = texts_of(v, n, TAG, &room), .Nodes = texts_of(v, n, NODE, &room),
		.ExternalSources = texts_of(v, n, SOURCE, &room),
	};
	uint64_t proxies = 0, transparent = 0;

	for (size_t i = 0; i < n; i++) {
		bool again = i > 0 && compare(&v[i - 1], &v[i]) == 0;

		if (v[i].what == INSTANCE) {
			s.InstanceCount++;
			s.Kind = v[i].a;
			s.Datacenter = v[i].b;
			s.ConnectNative = s.ConnectNative || v[i].mark == 'n';
		} else if (v[i].what == PROXY) {
			proxies++;
			transparent += v[i].mark == 't';
		} else if (v[i].what == CHECK && !again) {
			s.ChecksPassing += v[i].mark == 'p';
			s.ChecksWarning += v[i].mark == 'w';
			s.ChecksCritical += v[i].mark == 'c';
		}
	}
	s.ConnectedWithProxy = proxies > 0;
	s.TransparentProxy = proxies > 0 && transparent == proxies;
	schema_json_rec(&summary_schema, &s, out);
}

static void
put_summaries(struct buf *out, struct facts *f)
{
	struct span *room = calloc(f->n + 1, sizeof(*room));	/* for the texts of one service */

	out->failed = out->failed || room == NULL;
	if (f->n > 0)
		qsort(f->v, f->n, sizeof(*f->v), compare);
	buf_u8(out, '[');
	for (size_t i = 0, end; room != NULL && i < f->n; i = end) {
		for (end = i + 1; end < f->n && span_eq(f->v[end].service, f->v[i].service); end++)
			;
		buf_puts(out, i > 0 ? "," : "");
		put_summary(out, f->v + i, end - i, room);
	}
	buf_u8(out, ']');
	free(room);
}

/* The facts of all entries that pass the filter; they point into the reply. */
static enum tv_err
read_entries(struct request *r, struct span list, struct facts *f)
{
	struct arena a = ARENA_INIT(ENTRY_MEMORY);
	struct rd in = rd_span_over(list);
	enum tv_err err = TV_OK;

	for (uint32_t n = mpr_nil(&in) ? 0 : mpr_array(&in); n > 0 && in.err == TV_OK && err == TV_OK; n--) {
		struct span packed = mpr_value(&in);
		struct rd one = rd_span_over(packed);
		struct health_entry e = { 0 };

		if (in.err != TV_OK || !api_passes(r, packed))
			continue;
		arena_reset(&a);
		err = schema_unpack(&health_entry_schema, &one, &a, &e);
		if (err == TV_OK)
			note_entry(f, &e);
	}
	arena_done(&a);
	return err != TV_OK ? err : f->failed ? TV_ENOMEM : rd_end(&in);
}

static void
finish_services(struct request *r, const struct op_reply *reply)
{
	struct facts f = { .n = 0 };
	enum tv_err err;

	if (api_failed(r, reply))
		return;
	api_headers(r, reply, true);
	err = read_entries(r, reply->value, &f);
	if (api_filter_failed(r)) {
		;
	} else if (err != TV_OK) {
		answer_text(r, 500, "rpc error making call: %s", err == TV_EFORMAT ? "malformed answer" :
		    tv_strerror(err));
	} else {
		put_summaries(&r->answer.body, &f);
		answer_json(r);
	}
	free(f.v);
}

#define READ_DUMP .query = QUERY_CATALOG, BIND(FROM_PATH(catalog_read, Name))

const struct endpoint api_ui[] = {
	{ "/v1/internal/ui/nodes", "GET", ACCESS_OP, NULL, OP_NODE_DUMP, READ_DUMP, .flags = SHOW_MODE | FILTERED },
	{ "/v1/internal/ui/node/", "GET", ACCESS_OP, NULL, OP_NODE_DUMP, .missing = "Missing node name", READ_DUMP,
	    .finish = finish_node },
	{ "/v1/internal/ui/services", "GET", ACCESS_OP, NULL, OP_SERVICE_DUMP, READ_DUMP, .flags = FILTERED,
	    .finish = finish_services },
	{ .path = NULL },
};
