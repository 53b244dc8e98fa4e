/* Files, names, and what a loss of power leaves of them; see memfs.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "tests/sim/memfs_int.h"

#define MOUNTS_MAX 16

static struct memfs *mounts[MOUNTS_MAX];

/* realloc() that doubles; the simulator has no use for a lack of memory. */
static void *
grown(void *v, size_t *cap, size_t need, size_t size)
{
	size_t n = *cap > 0 ? *cap : 8;

	if (need <= *cap)
		return v;
	while (n < need)
		n *= 2;
	v = realloc(v, n * size);
	TV_ASSERT(v != NULL);
	*cap = n;
	return v;
}

/* -- content */

static void
page_drop(struct memfs_page *p)
{
	if (p != NULL && --p->refs == 0)
		free(p);
}

/* The page, for writing to. */
static struct memfs_page *
page_own(struct memfs_content *c, size_t at)
{
	struct memfs_page *old, *p;

	if (at >= c->n) {
		c->v = realloc(c->v, (at + 1) * sizeof(c->v[0]));
		TV_ASSERT(c->v != NULL);
		memset(c->v + c->n, 0, (at + 1 - c->n) * sizeof(c->v[0]));
		c->n = at + 1;
	}
	old = c->v[at];
	if (old != NULL && old->refs == 1)
		return old;
	p = calloc(1, sizeof(*p));
	TV_ASSERT(p != NULL);
	if (old != NULL)
		memcpy(p->b, old->b, MEMFS_PAGE);
	p->refs = 1;
	page_drop(old);
	c->v[at] = p;
	return p;
}

static void
content_put(struct memfs_content *c, uint64_t at, const uint8_t *bytes, size_t len)
{
	if (at + len > c->size)
		c->size = at + len;
	while (len > 0) {
		size_t in = at % MEMFS_PAGE, n = MEMFS_PAGE - in < len ? MEMFS_PAGE - in : len;

		memcpy(page_own(c, (size_t)(at / MEMFS_PAGE))->b + in, bytes, n);
		at += n;
		bytes += n;
		len -= n;
	}
}

static void
content_resize(struct memfs_content *c, uint64_t size)
{
	size_t pages = (size_t)((size + MEMFS_PAGE - 1) / MEMFS_PAGE);

	while (c->n > pages)
		page_drop(c->v[--c->n]);
	if (size < c->size && size % MEMFS_PAGE != 0 && pages <= c->n && c->v[pages - 1] != NULL)
		memset(page_own(c, pages - 1)->b + size % MEMFS_PAGE, 0, MEMFS_PAGE - size % MEMFS_PAGE);
	c->size = size;
}

static void
content_done(struct memfs_content *c)
{
	while (c->n > 0)
		page_drop(c->v[--c->n]);
	free(c->v);
	*c = (struct memfs_content){ 0 };
}

static void
content_share(struct memfs_content *to, const struct memfs_content *from)
{
	content_done(to);
	to->size = from->size;
	to->n = from->n;
	to->v = malloc((from->n + 1) * sizeof(to->v[0]));
	TV_ASSERT(to->v != NULL);
	for (size_t i = 0; i < from->n; i++) {
		to->v[i] = from->v[i];
		if (to->v[i] != NULL)
			to->v[i]->refs++;
	}
}

static size_t
content_get(const struct memfs_content *c, uint64_t at, uint8_t *bytes, size_t len)
{
	size_t done = 0;

	if (at >= c->size)
		return 0;
	if (len > c->size - at)
		len = (size_t)(c->size - at);
	while (done < len) {
		size_t in = (at + done) % MEMFS_PAGE, n = MEMFS_PAGE - in, page = (size_t)((at + done) / MEMFS_PAGE);

		if (n > len - done)
			n = len - done;
		if (page < c->n && c->v[page] != NULL)
			memcpy(bytes + done, c->v[page]->b + in, n);
		else
			memset(bytes + done, 0, n);
		done += n;
	}
	return len;
}

/* -- what is not on the disk yet */

static void
note_change(struct memfs_node *n, bool truncate, uint64_t at, const void *bytes, size_t len)
{
	struct memfs_change c = { .truncate = truncate, .at = at, .len = (uint32_t)len };

	if (len > 0) {
		c.bytes = malloc(len);
		TV_ASSERT(c.bytes != NULL);
		memcpy(c.bytes, bytes, len);
	}
	n->changes = grown(n->changes, &n->change_cap, n->change_count + 1, sizeof(c));
	n->changes[n->change_count++] = c;
}

/* Whole pages go to the disk, also what an earlier sync lost of them. */
static void
note_pages(struct memfs_node *n, uint64_t at, size_t len)
{
	uint64_t from = at - at % MEMFS_PAGE, to = at + len + MEMFS_PAGE - 1;
	uint8_t page[MEMFS_PAGE];

	for (to -= to % MEMFS_PAGE; from < to; from += MEMFS_PAGE)
		note_change(n, false, from, page, content_get(&n->seen, from, page, sizeof(page)));
}

static void
forget_changes(struct memfs_node *n)
{
	for (size_t i = 0; i < n->change_count; i++)
		free(n->changes[i].bytes);
	n->change_count = 0;
}

/* The whole of one change. */
static void
carry_out(struct memfs_content *disk, const struct memfs_change *c)
{
	if (c->truncate)
		content_resize(disk, c->at);
	else
		content_put(disk, c->at, c->bytes, c->len);
}

/* Each sector of it by chance; true when any was kept. */
static bool
carry_out_some(struct memfs_content *disk, const struct memfs_change *c, unsigned sector, struct rng *rng, double keep)
{
	bool any = false;
	size_t done = 0;

	while (done < c->len) {
		size_t n = sector - (size_t)((c->at + done) % sector);

		if (n > c->len - done)
			n = c->len - done;
		if (rng_unit(rng) < keep) {
			content_put(disk, c->at + done, c->bytes + done, n);
			any = true;
		}
		done += n;
	}
	return any;
}

/*
 * What chance wants of the changes.  Those between two truncations arrive in any order, which is the same as a choice
 * among them: a later one that did not arrive leaves the earlier one's bytes.
 */
static void
lose_some(const struct memfs_node *n, struct memfs_content *disk, struct rng *rng, double keep)
{
	unsigned sector = n->fs->rules.sector;
	size_t last = 0;

	for (size_t i = 0; i < n->change_count; i++)	/* truncations before this one are kept */
		if (n->changes[i].truncate && rng_unit(rng) < keep)
			last = i + 1;
	for (size_t i = 0; i < n->change_count; i++) {
		const struct memfs_change *c = &n->changes[i];

		if (c->truncate && i >= last)
			break;
		if (c->truncate)
			carry_out(disk, c);
		else
			(void)carry_out_some(disk, c, sector, rng, keep);
	}
	if (disk->size < n->seen.size && rng_unit(rng) < keep / 2)
		content_resize(disk, n->seen.size);	/* the length came through, the data did not */
}

/* -- names */

static struct memfs_entry *
dir_entry(const struct memfs_dir *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->v[i].name, name) == 0)
			return &d->v[i];
	return NULL;
}

static void
dir_remove(struct memfs_dir *d, const char *name)
{
	struct memfs_entry *e = dir_entry(d, name);
	struct memfs_node *was;

	if (e == NULL)
		return;
	was = e->node;
	*e = d->v[--d->n];
	memfs_drop(was);
}

static void
dir_set(struct memfs_dir *d, const char *name, struct memfs_node *node)
{
	struct memfs_entry *e;

	memfs_hold(node);
	dir_remove(d, name);
	d->v = grown(d->v, &d->cap, d->n + 1, sizeof(d->v[0]));
	e = &d->v[d->n++];
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->node = node;
}

static void
dir_done(struct memfs_dir *d)
{
	while (d->n > 0)
		memfs_drop(d->v[--d->n].node);
	free(d->v);
	*d = (struct memfs_dir){ 0 };
}

/* One change of names.  One that has lost what it stands on does nothing: its file's name was never made durable. */
static void
change_names(struct memfs_dir *d, const struct memfs_rename *r, struct memfs_node *node)
{
	struct memfs_entry *e;

	if (r->call == MEMFS_CREATE || r->call == MEMFS_MKDIR) {
		dir_set(d, r->name, node);
	} else if (r->call == MEMFS_RENAME) {
		e = dir_entry(d, r->name);
		if (e == NULL || e->node != node)
			return;
		dir_set(d, r->to, node);
		dir_remove(d, r->name);
	} else {
		e = dir_entry(d, r->name);
		if (e != NULL && e->node == node)
			dir_remove(d, r->name);
	}
}

static struct memfs_rename *
journal_add(struct memfs_node *dir, struct memfs_node *node, enum memfs_call call, const char *name, const char *to)
{
	struct memfs *fs = dir->fs;
	struct memfs_rename *r;

	fs->journal = grown(fs->journal, &fs->journal_cap, fs->journal_count + 1, sizeof(*r));
	r = &fs->journal[fs->journal_count++];
	*r = (struct memfs_rename){ .call = call, .dir = dir, .node = node };
	snprintf(r->name, sizeof(r->name), "%s", name);
	snprintf(r->to, sizeof(r->to), "%s", to);
	memfs_hold(dir);
	memfs_hold(node);
	return r;
}

static void
note_rename(struct memfs_node *dir, struct memfs_node *node, enum memfs_call call, const char *name, const char *to)
{
	change_names(&dir->seen_names, journal_add(dir, node, call, name, to), node);
}

/* Is `node` n, or a directory that n lies below? */
static bool
leads_to(const struct memfs_node *node, const struct memfs_node *n)
{
	if (node == n)
		return true;
	for (size_t i = 0; i < node->seen_names.n; i++)
		if (leads_to(node->seen_names.v[i].node, n))
			return true;
	return false;
}

/* Does a sync of n bring this change? */
static bool
brought_by(const struct memfs *fs, const struct memfs_rename *r, const struct memfs_node *n)
{
	if (fs->rules.names == MEMFS_JOURNAL || r->dir == n)
		return true;
	return fs->rules.names == MEMFS_OWN && leads_to(r->node, n);
}

static bool
same_name(const struct memfs_rename *a, const struct memfs_rename *b)
{
	return a->dir == b->dir && (strcmp(a->name, b->name) == 0 || strcmp(a->name, b->to) == 0 ||
	    strcmp(a->to, b->name) == 0 || (a->to[0] != '\0' && strcmp(a->to, b->to) == 0));
}

/* Those that a sync of n brings, and the earlier ones about the same names: a name's own history has an order. */
static void
mark_due(struct memfs_node *n)
{
	struct memfs *fs = n->fs;

	for (size_t i = fs->journal_count; i-- > 0;) {
		struct memfs_rename *r = &fs->journal[i];

		r->due = brought_by(fs, r, n);
		for (size_t k = i + 1; k < fs->journal_count && !r->due; k++)
			r->due = fs->journal[k].due && same_name(r, &fs->journal[k]);
	}
}

static void
sync_names(struct memfs_node *n)
{
	struct memfs *fs = n->fs;
	size_t left = 0;

	mark_due(n);
	for (size_t i = 0; i < fs->journal_count; i++) {
		struct memfs_rename r = fs->journal[i];

		if (!r.due) {
			fs->journal[left++] = r;
			continue;
		}
		change_names(&r.dir->disk_names, &r, r.node);
		memfs_drop(r.dir);
		memfs_drop(r.node);
	}
	fs->journal_count = left;
}

/* -- nodes */

static struct memfs_node *
node_new(struct memfs *fs, bool is_dir)
{
	struct memfs_node *n = calloc(1, sizeof(*n));

	TV_ASSERT(n != NULL);
	*n = (struct memfs_node){ .fs = fs, .id = fs->next_id++, .refs = 1, .is_dir = is_dir };
	fs->nodes = grown(fs->nodes, &fs->node_cap, fs->node_count + 1, sizeof(n));
	fs->nodes[fs->node_count++] = n;
	return n;
}

void
memfs_hold(struct memfs_node *n)
{
	n->refs++;
}

void
memfs_drop(struct memfs_node *n)
{
	struct memfs *fs = n->fs;

	if (--n->refs > 0)
		return;
	dir_done(&n->seen_names);
	dir_done(&n->disk_names);
	content_done(&n->seen);
	content_done(&n->disk);
	forget_changes(n);
	free(n->changes);
	for (size_t i = 0; i < fs->node_count; i++)
		if (fs->nodes[i] == n) {
			fs->nodes[i] = fs->nodes[--fs->node_count];
			break;
		}
	free(n);
}

/* -- calls */

const char *
memfs_call_name(enum memfs_call call)
{
	static const char *const names[] = { "create", "write", "truncate", "sync", "sync-dir", "rename", "unlink", "mkdir",
	    "rmdir" };

	return names[call];
}

static int
ask(struct memfs *fs, enum memfs_call call, const char *name)
{
	return fs->fn == NULL ? 0 : fs->fn(fs->ctx, fs, call, name);
}

struct memfs_node *
memfs_find(struct memfs_node *dir, const char *name)
{
	struct memfs_entry *e = dir->is_dir ? dir_entry(&dir->seen_names, name) : NULL;

	return e != NULL ? e->node : NULL;
}

int
memfs_make(struct memfs_node *dir, const char *name, bool is_dir, struct memfs_node **out)
{
	enum memfs_call call = is_dir ? MEMFS_MKDIR : MEMFS_CREATE;
	int err = ask(dir->fs, call, name);
	struct memfs_node *n;

	TV_ASSERT(strlen(name) < MEMFS_NAME_MAX);
	if (err != 0)
		return -err;
	n = node_new(dir->fs, is_dir);
	note_rename(dir, n, call, name, "");
	memfs_drop(n);
	*out = n;
	return 0;
}

int
memfs_remove(struct memfs_node *dir, const char *name, bool is_dir)
{
	struct memfs_node *n = memfs_find(dir, name);
	enum memfs_call call = is_dir ? MEMFS_RMDIR : MEMFS_UNLINK;
	int err;

	if (n == NULL)
		return -ENOENT;
	if (n->is_dir != is_dir)
		return is_dir ? -ENOTDIR : -EISDIR;
	if (is_dir && n->seen_names.n > 0)
		return -ENOTEMPTY;
	err = ask(dir->fs, call, name);
	if (err != 0)
		return -err;
	note_rename(dir, n, call, name, "");
	return 0;
}

int
memfs_move(struct memfs_node *dir, const char *name, const char *to)
{
	struct memfs_node *n = memfs_find(dir, name), *there = memfs_find(dir, to);
	int err;

	if (n == NULL)
		return -ENOENT;
	if (there != NULL && there->is_dir && there->seen_names.n > 0)
		return -ENOTEMPTY;
	err = ask(dir->fs, MEMFS_RENAME, name);
	if (err != 0)
		return -err;
	note_rename(dir, n, MEMFS_RENAME, name, to);
	return 0;
}

int
memfs_write(struct memfs_node *n, const char *name, uint64_t at, const void *bytes, size_t len)
{
	int err = ask(n->fs, MEMFS_WRITE, name);

	if (err != 0) {		/* some of it may be there all the same, in whole sectors */
		uint64_t end = at + rng_below(&n->fs->rng, len);

		end -= end % n->fs->rules.sector;
		len = end > at ? (size_t)(end - at) : 0;
	}
	if (len > 0) {
		content_put(&n->seen, at, bytes, len);
		if (n->stale)
			note_pages(n, at, len);
		else
			note_change(n, false, at, bytes, len);
	}
	return -err;
}

int
memfs_truncate(struct memfs_node *n, const char *name, uint64_t size)
{
	int err = ask(n->fs, MEMFS_TRUNCATE, name);

	if (err != 0)
		return -err;
	content_resize(&n->seen, size);
	note_change(n, true, size, NULL, 0);
	return 0;
}

int
memfs_sync(struct memfs_node *n, const char *name)
{
	int err = ask(n->fs, n->is_dir ? MEMFS_SYNC_DIR : MEMFS_SYNC, name);

	if (err != 0) {
		lose_some(n, &n->disk, &n->fs->rng, rng_unit(&n->fs->rng));
		n->stale = true;
	} else {
		for (size_t i = 0; i < n->change_count; i++)
			carry_out(&n->disk, &n->changes[i]);
		sync_names(n);
	}
	forget_changes(n);
	return -err;
}

void
memfs_forget(struct memfs_node *n)
{
	if (n->change_count > 0)
		return;			/* what was not written out stays */
	content_share(&n->seen, &n->disk);
	n->stale = false;
}

size_t
memfs_read(const struct memfs_node *n, uint64_t at, void *bytes, size_t len)
{
	return content_get(&n->seen, at, bytes, len);
}

/* -- file systems */

struct memfs *
memfs_new(const struct memfs_rules *rules, uint64_t seed)
{
	struct memfs *fs = calloc(1, sizeof(*fs));

	TV_ASSERT(fs != NULL);
	fs->rules = *rules;
	fs->next_id = 2;
	rng_seed(&fs->rng, seed);
	fs->root = node_new(fs, true);
	return fs;
}

void
memfs_free(struct memfs *fs)
{
	if (fs == NULL)
		return;
	TV_ASSERT(fs->mount[0] == '\0' && fs->open_files == 0);
	for (size_t i = 0; i < fs->journal_count; i++) {
		memfs_drop(fs->journal[i].dir);
		memfs_drop(fs->journal[i].node);
	}
	memfs_drop(fs->root);
	TV_ASSERT(fs->node_count == 0);
	free(fs->nodes);
	free(fs->journal);
	free(fs);
}

void
memfs_watch(struct memfs *fs, memfs_fn *fn, void *ctx)
{
	fs->fn = fn;
	fs->ctx = ctx;
}

uint64_t
memfs_bytes(const struct memfs *fs)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < fs->node_count; i++)
		sum += fs->nodes[i]->seen.size;
	return sum;
}

unsigned
memfs_open_files(const struct memfs *fs)
{
	return fs->open_files;
}

void
memfs_mount(struct memfs *fs, const char *name)
{
	TV_ASSERT(fs->mount[0] == '\0' && memfs_mounted(name, strlen(name)) == NULL);
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (mounts[i] == NULL) {
			mounts[i] = fs;
			snprintf(fs->mount, sizeof(fs->mount), "%s", name);
			return;
		}
	TV_ASSERT(!"too many mounts");
}

void
memfs_unmount(struct memfs *fs)
{
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (mounts[i] == fs)
			mounts[i] = NULL;
	fs->mount[0] = '\0';
}

struct memfs *
memfs_mounted(const char *name, size_t len)
{
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (mounts[i] != NULL && strlen(mounts[i]->mount) == len && memcmp(mounts[i]->mount, name, len) == 0)
			return mounts[i];
	return NULL;
}

/* -- loss of power, and death of a program */

struct copying {
	const struct memfs *from;
	struct memfs *to;
	struct memfs_node **map;	/* by position in from->nodes */
	struct rng *rng;		/* NULL: nothing is lost */
	double keep;
};

static struct memfs_node *
copy_of(const struct copying *c, const struct memfs_node *n)
{
	for (size_t i = 0; i < c->from->node_count; i++)
		if (c->from->nodes[i] == n)
			return c->map[i];
	TV_ASSERT(!"unknown node");
	return NULL;
}

static void
copy_content(struct copying *c, const struct memfs_node *n, struct memfs_node *to)
{
	content_share(&to->disk, &n->disk);
	if (c->rng != NULL) {
		lose_some(n, &to->disk, c->rng, c->keep);
		content_share(&to->seen, &to->disk);
		return;
	}
	to->stale = n->stale;
	content_share(&to->seen, &n->seen);
	for (size_t i = 0; i < n->change_count; i++)
		note_change(to, n->changes[i].truncate, n->changes[i].at, n->changes[i].bytes, n->changes[i].len);
}

static void
copy_nodes(struct copying *c)
{
	c->to->next_id = c->from->next_id;
	for (size_t i = 0; i < c->from->node_count; i++) {
		const struct memfs_node *n = c->from->nodes[i];

		c->map[i] = n == c->from->root ? c->to->root : node_new(c->to, n->is_dir);
		c->map[i]->id = n->id;
		copy_content(c, n, c->map[i]);
	}
}

static void
copy_dir(const struct copying *c, struct memfs_dir *to, const struct memfs_dir *from)
{
	for (size_t i = 0; i < from->n; i++)
		dir_set(to, from->v[i].name, copy_of(c, from->v[i].node));
}

/* Which changes of names got through; those that a kill leaves undecided are noted. */
static void
copy_journal(struct copying *c)
{
	const struct memfs *from = c->from;
	bool on = true;

	for (size_t i = 0; i < from->journal_count; i++) {
		const struct memfs_rename *r = &from->journal[i];
		bool kept;

		if (c->rng == NULL) {
			(void)journal_add(copy_of(c, r->dir), copy_of(c, r->node), r->call, r->name, r->to);
			continue;
		}
		kept = rng_unit(c->rng) < c->keep;
		on = on && kept;	/* a journal ends somewhere */
		if (from->rules.names == MEMFS_JOURNAL ? on : kept)
			change_names(&copy_of(c, r->dir)->disk_names, r, copy_of(c, r->node));
	}
}

static void
copy_names(struct copying *c)
{
	for (size_t i = 0; i < c->from->node_count; i++) {
		copy_dir(c, &c->map[i]->disk_names, &c->from->nodes[i]->disk_names);
		if (c->rng == NULL)
			copy_dir(c, &c->map[i]->seen_names, &c->from->nodes[i]->seen_names);
	}
	copy_journal(c);
	for (size_t i = 0; c->rng != NULL && i < c->from->node_count; i++)
		for (size_t k = 0; k < c->map[i]->disk_names.n; k++) {
			const struct memfs_entry *e = &c->map[i]->disk_names.v[k];

			dir_set(&c->map[i]->seen_names, e->name, e->node);
		}
	for (size_t i = 0; i < c->from->node_count; i++)
		if (c->map[i] != c->to->root)
			memfs_drop(c->map[i]);		/* what has no name is gone */
}

static struct memfs *
copy(struct copying *c, uint64_t seed)
{
	c->to = memfs_new(&c->from->rules, seed);
	c->map = calloc(c->from->node_count, sizeof(c->map[0]));
	TV_ASSERT(c->map != NULL);
	copy_nodes(c);
	copy_names(c);
	free(c->map);
	return c->to;
}

struct memfs *
memfs_crash(const struct memfs *fs, struct rng *rng, double keep)
{
	struct copying c = { .from = fs, .rng = rng, .keep = keep };

	return copy(&c, rng_u64(rng));
}

struct memfs *
memfs_kill(const struct memfs *fs)
{
	struct copying c = { .from = fs };

	return copy(&c, fs->rng.s[0]);
}

/* -- damage */

static unsigned
rotten_files(struct memfs_node *dir, const char *prefix, struct memfs_node **out, unsigned max)
{
	unsigned n = 0;

	for (size_t i = 0; i < dir->seen_names.n && n < max; i++) {
		const struct memfs_entry *e = &dir->seen_names.v[i];

		if (e->node->is_dir)
			n += rotten_files(e->node, prefix, out + n, max - n);
		else if (e->node->seen.size > 0 && strncmp(e->name, prefix, strlen(prefix)) == 0)
			out[n++] = e->node;
	}
	return n;
}

bool
memfs_rot(struct memfs *fs, struct rng *rng, const char *prefix)
{
	struct memfs_node *files[64], *n;
	unsigned count = rotten_files(fs->root, prefix, files, 64);
	uint64_t at;
	uint8_t byte = 0;

	if (count == 0)
		return false;
	n = files[rng_below(rng, count)];
	TV_ASSERT(n->change_count == 0);
	at = rng_below(rng, n->seen.size);
	(void)content_get(&n->seen, at, &byte, 1);
	byte ^= (uint8_t)(1u << rng_below(rng, 8));
	content_put(&n->seen, at, &byte, 1);
	content_put(&n->disk, at, &byte, 1);
	return true;
}
