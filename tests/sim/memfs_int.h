/* What memfs.c and memfs_calls.c share. */
#ifndef TV_TESTS_SIM_MEMFS_INT_H
#define TV_TESTS_SIM_MEMFS_INT_H

#include "tests/sim/memfs.h"

#define MEMFS_PAGE 4096
#define MEMFS_NAME_MAX 64

struct memfs_page {		/* shared by contents that hold the same bytes */
	unsigned refs;
	uint8_t b[MEMFS_PAGE];
};

struct memfs_content {
	uint64_t size;
	struct memfs_page **v;	/* NULL: zeros */
	size_t n;
};

struct memfs_change {		/* not synced yet */
	bool truncate;
	uint64_t at;		/* of the bytes, or the new size */
	uint32_t len;
	uint8_t *bytes;		/* owned */
};

struct memfs_node;
struct memfs_entry {
	char name[MEMFS_NAME_MAX];
	struct memfs_node *node;	/* held */
};
struct memfs_dir {
	struct memfs_entry *v;
	size_t n, cap;
};

struct memfs_node {
	struct memfs *fs;
	uint64_t id;
	unsigned refs;			/* names, open files, changes of names */
	bool is_dir;
	bool stale;			/* a sync failed: `seen` may have what the disk has not and will not get */
	struct memfs_content seen, disk;
	struct memfs_change *changes;
	size_t change_count, change_cap;
	struct memfs_dir seen_names, disk_names;
};

struct memfs_rename {			/* a change of names that is not durable yet */
	enum memfs_call call;		/* CREATE, MKDIR: node gets the name; UNLINK, RMDIR: loses it; RENAME */
	struct memfs_node *dir, *node;	/* held */
	char name[MEMFS_NAME_MAX], to[MEMFS_NAME_MAX];
	bool due;			/* being synced */
};

struct memfs {
	struct memfs_rules rules;
	struct rng rng;
	char mount[32];			/* "": not mounted */
	struct memfs_node *root;	/* held */
	struct memfs_node **nodes;	/* all that exist */
	size_t node_count, node_cap;
	uint64_t next_id;
	struct memfs_rename *journal;
	size_t journal_count, journal_cap;
	unsigned open_files;
	memfs_fn *fn;
	void *ctx;
};

struct memfs *memfs_mounted(const char *name, size_t len);
struct memfs_node *memfs_find(struct memfs_node *dir, const char *name);
/* Each asks the watcher first.  0 or -errno. */
int memfs_make(struct memfs_node *dir, const char *name, bool is_dir, struct memfs_node **out);
int memfs_remove(struct memfs_node *dir, const char *name, bool is_dir);
int memfs_move(struct memfs_node *dir, const char *name, const char *to);
int memfs_write(struct memfs_node *n, const char *name, uint64_t at, const void *bytes, size_t len);
int memfs_truncate(struct memfs_node *n, const char *name, uint64_t size);
int memfs_sync(struct memfs_node *n, const char *name);
void memfs_forget(struct memfs_node *n);	/* reads come from the disk again */
size_t memfs_read(const struct memfs_node *n, uint64_t at, void *bytes, size_t len);
void memfs_hold(struct memfs_node *n);
void memfs_drop(struct memfs_node *n);

#endif
