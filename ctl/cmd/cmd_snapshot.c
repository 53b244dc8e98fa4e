/* clusterctl snapshot: save, restore, inspect, status. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/ctl.h"
#include "ctl/snapfacts.h"

#define MB(n_) ((double)(n_) / 1e6)
#define WHY_BYTES 512

/* Of the file that the call names, to be closed; NULL after a complaint. */
static FILE *
open_archive(struct ctl *ctl)
{
	FILE *f = fopen(ctl->argv[0], "rbe");

	if (f == NULL)
		(void)ctl_complain(ctl, "%s: %s", ctl->argv[0], strerror(errno));
	return f;
}

/* What is in it; false after a complaint in the name of `what`. */
static bool
read_facts(struct ctl *ctl, FILE *f, const char *what, struct snap_facts *facts)
{
	char why[WHY_BYTES];
	bool good = snap_facts_read(f, facts, why, sizeof(why));

	if (!good)
		(void)ctl_complain(ctl, "%s: %s", what, why);
	return good;
}

/* -- what is in a file -- */

static void
print_texts(const struct snap_facts *f)
{
	static const char *const keys[] = { "ID", "Time", "Datacenter", "ClusterID", "Node", "Build" };
	json_t *shown = json_deep_copy(f->meta);

	json_safe(shown);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		printf("%-13s %s\n", keys[i], json_text(shown, keys[i]));
	json_decref(shown);
}

static void
print_facts(const struct snap_facts *f)
{
	print_texts(f);
	printf("%-13s %lld\n", "Index", json_int(f->meta, "Index"));
	printf("%-13s %llu\n", "Raft index", (unsigned long long)f->index);
	printf("%-13s %llu\n", "Term", (unsigned long long)f->term);
	printf("%-13s %lld\n", "Version", json_int(f->meta, "Version"));
	printf("%-13s %llu bytes, %llu unpacked\n", "Size", (unsigned long long)f->file_bytes,
	    (unsigned long long)f->state_bytes);
	printf("%-13s %s  meta.json\n%-13s %s  state.bin\n\n", "SHA-256", f->meta_sum, "", f->state_sum);
	printf("%-13s %12s %15s\n", "Type", "Count", "Bytes");
	for (unsigned i = 0; i < f->table_count; i++)
		printf("%-13s %12llu %15llu\n", f->tables[i].name, (unsigned long long)f->tables[i].count,
		    (unsigned long long)f->tables[i].bytes);
	printf("%-13s %12llu\n", "Total", (unsigned long long)f->records);
}

static void
print_facts_json(const struct snap_facts *f)
{
	json_t *tables = json_object();

	for (unsigned i = 0; i < f->table_count; i++)
		json_object_set_new(tables, f->tables[i].name, json_pack("{s:I,s:I}", "Count",
		    (json_int_t)f->tables[i].count, "Bytes", (json_int_t)f->tables[i].bytes));
	out_json_new(json_pack("{s:O,s:I,s:I,s:I,s:I,s:I,s:{s:s,s:s},s:o}", "Meta", f->meta, "RaftIndex",
	    (json_int_t)f->index, "Term", (json_int_t)f->term, "Records", (json_int_t)f->records, "FileBytes",
	    (json_int_t)f->file_bytes, "StateBytes", (json_int_t)f->state_bytes, "SHA256", "meta.json", f->meta_sum,
	    "state.bin", f->state_sum, "Tables", tables));
}

int
snapshot_inspect(struct ctl *ctl)
{
	FILE *f = open_archive(ctl);
	struct snap_facts facts = { .meta = NULL };
	int rc = 0;

	if (f == NULL)
		return 1;
	if (!read_facts(ctl, f, ctl->argv[0], &facts))
		rc = 1;
	else if (ctl->json)
		print_facts_json(&facts);
	else
		print_facts(&facts);
	snap_facts_done(&facts);
	(void)fclose(f);
	return rc;
}

/* -- save -- */

static void
save_tick(void *ctx, uint64_t done, uint64_t total)
{
	struct progress *p = ctx;

	if (total > 0)
		progress_show(p, "snapshot save: %.1f of %.1f MB", MB(done), MB(total));
	else
		progress_show(p, "snapshot save: waiting for the server");
}

/*
 * Where the snapshot grows: beside the file, so that renaming works, and without a name while the file system can do
 * that, so that nothing stays behind of a command that was interrupted.
 */
struct growing {
	FILE *f;
	char path[PATH_MAX];		/* empty: it has no name yet */
};

/* NULL, or why not.  A device or a pipe must not be replaced by a file. */
static const char *
grow_begin(struct growing *g, const char *file)
{
	char copy[PATH_MAX];
	struct stat st;
	int fd;

	g->path[0] = '\0';
	g->f = NULL;
	if (stat(file, &st) == 0 && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? strerror(EISDIR) : "this is no regular file, and would be replaced";
	if (strlen(file) + sizeof(".XXXXXX") > sizeof(g->path))
		return strerror(ENAMETOOLONG);
	snprintf(copy, sizeof(copy), "%s", file);
	fd = open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)) {
		snprintf(g->path, sizeof(g->path), "%s.XXXXXX", file);
		fd = mkostemp(g->path, O_CLOEXEC);		/* 0600 */
	}
	g->f = fd < 0 ? NULL : fdopen(fd, "w+b");
	return g->f == NULL ? strerror(errno) : NULL;
}

/* A name that no file has, for the moment before the rename, which replaces an older snapshot of the same name. */
static bool
grow_name(struct growing *g, const char *file)
{
	char self[64];

	if (g->path[0] != '\0')
		return true;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fileno(g->f));
	for (unsigned i = 0; i < 100; i++) {
		snprintf(g->path, sizeof(g->path), "%s.%06u", file, ((unsigned)getpid() + i) % 1000000);
		if (linkat(AT_FDCWD, self, AT_FDCWD, g->path, AT_SYMLINK_FOLLOW) == 0)
			return true;
		if (errno != EEXIST)
			break;
	}
	g->path[0] = '\0';
	return false;
}

/* On disk under its own name; NULL, or what failed. */
static const char *
grow_keep(struct growing *g, const char *file)
{
	bool kept = fsync(fileno(g->f)) == 0 && grow_name(g, file) && file_rename(g->path, file) == TV_OK;

	return kept ? NULL : strerror(errno);
}

static void
grow_end(struct growing *g, bool kept)
{
	if (!kept && g->path[0] != '\0')
		(void)unlink(g->path);
	(void)fclose(g->f);
}

static int
download(struct ctl *ctl, FILE *f, uint64_t *index)
{
	struct buf path = BUF_INIT(8192);
	struct progress p;
	struct client_answer a;
	bool done;
	int rc = 0;

	ctl_path(ctl, &path, "/v1/snapshot", NULL, "");
	progress_init(&p);
	done = client_download(ctl_client(ctl), buf_cstr(&path), f, save_tick, &p, &a);
	progress_end(&p);
	if (!done)
		rc = client_complain(ctl->client, ctl->verb->words, &a);
	*index = a.index;
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}

int
snapshot_save(struct ctl *ctl)
{
	char target[PATH_MAX], *name = ctl->argv[0];
	/* A symbolic link stays one; what it names is replaced. */
	const char *file = realpath(name, target) != NULL ? target : name;
	struct snap_facts facts = { .meta = NULL };
	struct growing g;
	const char *failed = grow_begin(&g, file);
	uint64_t index = 0;
	int rc;

	if (failed != NULL)
		return ctl_complain(ctl, "%s: %s", file, failed);
	rc = download(ctl, g.f, &index);
	if (rc == 0 && fflush(g.f) != 0)
		rc = ctl_complain(ctl, "%s: %s", file, strerror(errno));
	rewind(g.f);
	if (rc == 0 && !read_facts(ctl, g.f, "the data received is not a complete snapshot", &facts))
		rc = 1;
	if (rc == 0 && (failed = grow_keep(&g, file)) != NULL)
		rc = ctl_complain(ctl, "%s: %s", file, failed);
	if (rc == 0 && ctl->json)
		print_facts_json(&facts);
	else if (rc == 0)
		printf("Saved and verified snapshot to index %llu\n", (unsigned long long)index);
	snap_facts_done(&facts);
	grow_end(&g, rc == 0);
	return rc;
}

/* -- restore -- */

struct restoring {
	struct client *other;		/* asks for the progress while the first one waits */
	const char *path;		/* of the progress */
	struct progress p;
};

static void
show_phase(struct restoring *r)
{
	json_t *st = client_try_json(r->other, r->path, 5);
	double done, total;

	json_safe(st);
	done = MB(json_int(st, "Done"));
	total = MB(json_int(st, "Total"));
	if (st != NULL && total > 0)
		progress_show(&r->p, "snapshot restore: %s, %.1f of %.1f MB", json_text(st, "Phase"), done, total);
	else if (st != NULL)
		progress_show(&r->p, "snapshot restore: %s", json_text(st, "Phase"));
	json_decref(st);
}

static void
restore_tick(void *ctx, uint64_t done, uint64_t total)
{
	struct restoring *r = ctx;

	if (done < total)
		progress_show(&r->p, "snapshot restore: sent %.1f of %.1f MB", MB(done), MB(total));
	else if (total > 0 && progress_due(&r->p))
		show_phase(r);
}

static int
upload(struct ctl *ctl, FILE *f, uint64_t size)
{
	struct buf path = BUF_INIT(8192), progress = BUF_INIT(8192);
	struct restoring r = { .path = NULL };
	struct client_answer a;
	bool done;
	int rc = 0;

	ctl_path(ctl, &path, "/v1/snapshot", NULL, "");
	ctl_path(ctl, &progress, "/v1/snapshot/restore", NULL, "");
	r.path = buf_cstr(&progress);
	r.other = ctl_new_client(ctl);
	client_quiet(r.other, true);
	progress_init(&r.p);
	done = client_upload(ctl_client(ctl), buf_cstr(&path), f, size, restore_tick, &r, &a);
	progress_end(&r.p);
	if (!done) {
		rc = client_complain(ctl->client, ctl->verb->words, &a);
		if (a.status == 0 && !a.file_failed)
			fprintf(stderr, "For its outcome: `clusterctl snapshot status`.\n");
	} else {
		puts("Restored snapshot");
	}
	client_answer_done(&a);
	client_free(r.other);
	buf_done(&path);
	buf_done(&progress);
	return rc;
}

static uint64_t
records_of(const struct snap_facts *f, const char *table)
{
	for (unsigned i = 0; i < f->table_count; i++)
		if (strcmp(f->tables[i].name, table) == 0)
			return f->tables[i].count;
	return 0;
}

/* What becomes of access control; self: what the node that is asked tells of itself. */
static void
say_whose_tokens(const struct snap_facts *f, const json_t *self)
{
	const json_t *rpcd = json_at(self, "Stats.rpcd");
	uint64_t tokens = records_of(f, "ACL tokens");

	if (tokens > 0)
		fprintf(stderr, "Afterwards the %llu tokens of the archive hold, and none besides: the token of this\n"
		    "command, those of agents, of DNS and of applications are \"ACL not found\" if they are not\n"
		    "among them. Have at hand one of the archive's with all rights; without one,\n"
		    "`clusterctl acl bootstrap` names the reset index for a new one.\n", (unsigned long long)tokens);
	else if (strcmp(json_text(rpcd, "acl_enabled"), "1") == 0)
		fprintf(stderr,
		    "The archive has no tokens: those of this cluster, with their policies and roles, stay.\n");
}

/* Says what is replaced by what; on a terminal the operator must agree, and to a strange archive in any case. */
static bool
agreed(struct ctl *ctl, const struct snap_facts *f)
{
	const char *dc = ctl_opt(ctl, "dc");
	json_t *shown = json_deep_copy(f->meta), *self;
	char line[16] = "";
	const char *here, *cluster;
	bool strange;

	json_safe(shown);
	self = ctl_get(ctl, "/v1/agent/self");
	here = dc != NULL ? dc : self != NULL ? json_text_at(self, "Config.Datacenter") : "?";
	strange = strcmp(here, json_text(shown, "Datacenter")) != 0;
	fprintf(stderr, "This replaces all keys, sessions, nodes, services, checks%s of datacenter %s\n"
	    "by %llu records of datacenter %s, saved %s at index %lld by %s.\n",
	    records_of(f, "ACL tokens") > 0 ? ", prepared queries, tokens, policies, roles and auth methods" :
	    " and prepared queries", here,
	    (unsigned long long)f->records, json_text(shown, "Datacenter"), json_text(shown, "Time"),
	    json_int(shown, "Index"), json_text(shown, "Node"));
	say_whose_tokens(f, self);
	cluster = json_text_at(self, "Stats.raft.cluster_id");
	if (cluster[0] != '\0' && strcmp(cluster, json_text(shown, "ClusterID")) != 0)
		fprintf(stderr, "It is the archive of another cluster, %s; this one is %s.\n",
		    json_text(shown, "ClusterID"), cluster);
	json_decref(shown);
	json_decref(self);
	if (self == NULL)
		return false;			/* said why */
	if (ctl_opt(ctl, "yes") != NULL)
		return true;
	if (!isatty(STDIN_FILENO)) {
		if (!strange)
			return true;
		return ctl_false(ctl, "nothing was changed: this is the archive of another datacenter; if that is "
		    "intended, repeat it with --yes");
	}
	if (strange)
		fprintf(stderr, "THIS IS THE ARCHIVE OF ANOTHER DATACENTER. ");
	fprintf(stderr, "Go on? [y/N] ");
	if (fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y'))
		return true;
	fprintf(stderr, "Nothing was changed.\n");
	return false;
}

int
snapshot_restore(struct ctl *ctl)
{
	FILE *f = open_archive(ctl);
	struct snap_facts facts = { .meta = NULL };
	int rc = 1;

	if (f == NULL)
		return 1;
	if (fseeko(f, 0, SEEK_END) != 0 || fseeko(f, 0, SEEK_SET) != 0) {
		(void)ctl_complain(ctl, "%s: a pipe cannot be read twice, to verify and to send it: make it a file",
		    ctl->argv[0]);
	} else if (read_facts(ctl, f, ctl->argv[0], &facts) && agreed(ctl, &facts)) {
		rewind(f);
		rc = upload(ctl, f, facts.file_bytes);
	}
	snap_facts_done(&facts);
	(void)fclose(f);
	return rc;
}

/* -- status -- */

static void
print_status(json_t *st)
{
	double done = MB(json_int(st, "Done"));
	double total = MB(json_int(st, "Total"));
	const char *error = json_text(st, "Error");

	if (strcmp(json_text(st, "Phase"), "none") == 0) {
		puts("The leader knows of no restore.");
		return;
	}
	printf("Restore %s: %s%s%s", json_text(st, "ID"), json_text(st, "Phase"), error[0] != '\0' ? ": " : "", error);
	if (total > 0)
		printf(", %.1f of %.1f MB", done, total);
	else if (done > 0)
		printf(", %.1f MB so far", done);
	putchar('\n');
}

int
snapshot_status(struct ctl *ctl)
{
	return ctl_show(ctl, "/v1/snapshot/restore", NULL, "", print_status);
}
