/*
 * Prepared queries, from the body to what they find: the first line is a name, the rest a query as JSON.  It is refused with a
 * sentence, or kept; then the name is explained and executed, as it may be, and what a template becomes has its bound.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/record/mpack.h"
#include "common/record/schema_json.h"
#include "raftd/fsm/query/query_render.h"
#include "raftd/fsm/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UUID "00000000-0000-4000-8000-000000000001"
#define ARENA_MAX (32u << 20)

static struct world {
	char top[64], dir[80];
	struct fsm *f;
} world;

/* Prepared and applied; the error of either. */
static enum tv_err
write_it(uint16_t op, const void *rec, struct arena *a)
{
	struct buf args = BUF_INIT(ARENA_MAX), ready = BUF_INIT(ARENA_MAX), payload = BUF_INIT(ARENA_MAX);
	struct raft_entry e = { .index = fsm_applied(world.f) + 1, .term = 1, .type = RAFT_ENTRY_OP };
	struct fsm_result res = { .err = TV_OK };
	struct span text = SPAN_NONE;
	enum tv_err err;

	schema_pack(op_find(op)->args, rec, &args);
	err = fsm_prepare(world.f, &(uint16_t){ op }, buf_span(&args), 1000, UUID, &ready, a, &text);
	if (err == TV_OK) {
		fsm_entry_write(&payload, op, buf_span(&ready));
		e.payload = payload.data;
		e.size = (uint32_t)payload.len;
		TV_ASSERT(fsm_apply(world.f, &e, 1, a, &res) == TV_OK);
		err = res.err;
		text = res.text;
	}
	TV_ASSERT(err == TV_OK || text.len > 0);
	buf_done(&args);
	buf_done(&ready);
	buf_done(&payload);
	return err;
}

static enum tv_err
read_it(uint16_t op, const void *rec, struct arena *a)
{
	struct buf args = BUF_INIT(ARENA_MAX), out = BUF_INIT(ARENA_MAX), json = BUF_INIT(ARENA_MAX);
	struct fsm_answer ans;
	struct rd in;

	schema_pack(op_find(op)->args, rec, &args);
	fsm_read(world.f, op_find(op), buf_span(&args), a, &out, &ans);
	TV_ASSERT(ans.err == TV_OK || ans.text.len > 0);
	if (ans.err == TV_OK) {
		in = rd_span_over(buf_span(&out));
		TV_ASSERT(op_find(op)->answers == OP_ONE || mpr_array(&in) == 1);
		TV_ASSERT(schema_json(op_find(op)->answer, &in, &json) == TV_OK && rd_end(&in) == TV_OK);
	}
	buf_done(&args);
	buf_done(&out);
	buf_done(&json);
	return ans.err;
}

static void
remove_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *de;

	while (d != NULL && (de = readdir(d)) != NULL)
		if (de->d_name[0] != '.')
			(void)unlinkat(dirfd(d), de->d_name, 0);
	if (d != NULL)
		closedir(d);
	(void)rmdir(path);
}

static void
world_close(void)
{
	fsm_close(world.f);
	remove_dir(world.dir);
	remove_dir(world.top);
}

static void
world_open(void)
{
	struct fsm_options opt = { .dir = world.dir, .cache_bytes = 256u << 10, .datacenter = "dc1" };
	struct span tag = span_str("a");
	struct catalog_register q = { .Node = span_str("n"), .Address = span_str("10.0.0.1"), .has_service = true,
	    .Service = { .Service = span_str("web"), .Tags = { &tag, 1, true } }, .has_check = true,
	    .Check = { .CheckID = span_str("c"), .ServiceID = span_str("web"), .Status = span_str("warning") } };
	struct arena a = ARENA_INIT(ARENA_MAX);
	char why[512];

	if (world.f != NULL)
		return;
	snprintf(world.top, sizeof(world.top), "%s/tv-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (mkdtemp(world.top) == NULL)
		abort();
	snprintf(world.dir, sizeof(world.dir), "%s/state", world.top);
	if (fsm_open(&opt, &world.f, why, sizeof(why)) != TV_OK || atexit(world_close) != 0)
		abort();
	TV_ASSERT(write_it(OP_CATALOG_REGISTER, &q, &a) == TV_OK);
	arena_done(&a);
}

static size_t
bytes_of(const struct prepared_service *s)
{
	size_t n = s->Service.len + s->Near.len;

	for (uint32_t i = 0; i < s->Tags.n; i++)
		n += s->Tags.v[i].len;
	for (uint32_t i = 0; i < s->NodeMeta.n; i++)
		n += s->NodeMeta.kv[i][1].len;
	return n;
}

static void
play(const struct prepared_query *q, struct span name, struct arena *a)
{
	struct prepared_ask ask = { .Name = name, .Near = span_str("_agent"), .Agent = span_str("n"), .Limit = 3 };
	struct prepared_read read = { span_str(UUID) };
	struct buf why = BUF_INIT(65536);
	struct prepared_query out;

	if (query_is_template(q)) {
		enum tv_err err = query_render(q, name, a, &out, &why);

		TV_ASSERT(err == TV_OK || err == TV_ENOMEM || why.len > 0 || why.failed);
		TV_ASSERT(err != TV_OK || bytes_of(&out.Service) <= QUERY_RENDERED_MAX);
	}
	buf_done(&why);
	if (write_it(OP_QUERY_CREATE, q, a) == TV_OK) {
		enum tv_err explained = read_it(OP_QUERY_EXPLAIN, &ask, a);

		TV_ASSERT(read_it(OP_QUERY_EXECUTE, &ask, a) == explained);
		TV_ASSERT(read_it(OP_QUERY_GET, &read, a) == TV_OK);
		ask.Name = q->Name;
		if (q->Name.len > 0)		/* as it was tried when it was made */
			TV_ASSERT(read_it(OP_QUERY_EXPLAIN, &ask, a) == TV_OK);
		TV_ASSERT(world.f->tally[FT_QUERIES] == 1);
		TV_ASSERT(write_it(OP_QUERY_DELETE, &read, a) == TV_OK);
	}
	TV_ASSERT(world.f->tally[FT_QUERIES] == 0);
	ask.Name = q->Name;
	TV_ASSERT(read_it(OP_QUERY_EXPLAIN, &ask, a) != TV_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size == 0 ? NULL : memchr(data, '\n', size);
	size_t n = end == NULL ? 0 : (size_t)(end - data);
	struct prepared_query q = { .ID = SPAN_NONE };
	struct arena a = ARENA_INIT(ARENA_MAX);
	char why[256];
	json_t *v;

	if (end == NULL)
		return 0;
	v = json_first_value(span_of(end + 1, size - n - 1), why, sizeof(why));
	if (v != NULL && schema_from_json(&prepared_query_schema, v, 0, &a, &q, why, sizeof(why)) == TV_OK) {
		world_open();
		play(&q, span_of(data, n), &a);
	}
	json_decref(v);
	arena_done(&a);
	return 0;
}
