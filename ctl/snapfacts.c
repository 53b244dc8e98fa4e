/* See snapfacts.h. */
#include <string.h>

#include "raftd/fsm/copy/archive.h"
#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/table/tables.h"

#include "ctl/snapfacts.h"

#define NO_LIMIT (UINT64_MAX / 2)	/* it is only walked over */

/* It may be a pipe, which has no position. */
struct counted {
	FILE *file;
	uint64_t bytes;
};

static enum tv_err
source(void *ctx, void *p, size_t n, size_t *got)
{
	struct counted *c = ctx;

	*got = fread(p, 1, n, c->file);
	c->bytes += *got;
	return *got == 0 && ferror(c->file) ? TV_ESYS : TV_OK;
}

static void
count(struct snap_facts *out, struct span key, struct span val)
{
	const struct fsm_table *table = key.len > 0 ? fsm_table_find(key.p[0]) : NULL;
	const char *name = table != NULL ? table->shown : "Unknown";
	unsigned i = 0;

	while (i < out->table_count && strcmp(out->tables[i].name, name) != 0)
		i++;
	if (i == SNAP_TABLES_MAX)
		return;
	if (i == out->table_count)
		out->tables[out->table_count++] = (struct snap_table){ .name = name };
	out->tables[i].count++;
	out->tables[i].bytes += key.len + val.len;
}

static enum tv_err
walk(struct archive_in *a, struct snap_facts *out, char *why, size_t cap)
{
	struct span key, val;
	struct snap_in in;
	enum tv_err err = snap_in_open_with(&in, archive_state_read, a, archive_state_bytes(a));

	if (err == TV_EINVAL)
		snprintf(why, cap, "its state.bin is of version %u, newer than this clusterctl knows (%u): use the one "
		    "that came with the servers that saved it", in.version, SNAP_VERSION);
	if (err == TV_EFORMAT && archive_why(a)[0] == '\0')
		snprintf(why, cap, "its state.bin is not of Triumvir's format; it is a snapshot of another program");
	out->index = in.index;
	out->term = in.term;
	while (err == TV_OK && (err = snap_in_next(&in, &key, &val)) == TV_OK)
		count(out, key, val);
	out->records = in.seen;
	snap_in_close(&in);
	if (err == TV_EOF)
		err = archive_finish(a);
	if (err != TV_OK && why[0] == '\0')
		snprintf(why, cap, "%s", archive_why(a)[0] != '\0' ? archive_why(a) :
		    err == TV_ECORRUPT ? "state.bin is damaged" : tv_strerror(err));
	return err;
}

bool
snap_facts_read(FILE *f, struct snap_facts *out, char *why, size_t cap)
{
	struct counted from = { .file = f };
	struct archive_in *a;
	json_error_t at;
	enum tv_err err;

	memset(out, 0, sizeof(*out));
	why[0] = '\0';
	a = archive_open(source, &from, NO_LIMIT, &err, why, cap);
	if (a == NULL)
		return false;
	err = walk(a, out, why, cap);
	if (err == TV_OK) {
		struct span meta = archive_meta(a);

		out->meta = json_loadb((const char *)meta.p, meta.len, 0, &at);
		if (out->meta == NULL)
			snprintf(why, cap, "its meta.json is not JSON: %s", at.text);
		out->state_bytes = archive_state_bytes(a);
		out->file_bytes = from.bytes;
		snprintf(out->meta_sum, sizeof(out->meta_sum), "%s", archive_sum(a, false));
		snprintf(out->state_sum, sizeof(out->state_sum), "%s", archive_sum(a, true));
	}
	archive_close(a);
	return out->meta != NULL;
}

void
snap_facts_done(struct snap_facts *f)
{
	json_decref(f->meta);
	f->meta = NULL;
}
