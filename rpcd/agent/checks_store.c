/* The checks on disk: a JSON list, replaced as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirs.h"
#include "common/base/log.h"
#include "common/record/schema_json.h"
#include "common/text/json_text.h"
#include "rpcd/agent/checks_int.h"

#define FILE_BYTES_MAX (16u << 20)

struct stored_check {
	struct span CheckID, Name, Notes, Output, Status, ServiceID;
	int64_t TTL, DeregisterCriticalServiceAfter;
};

#define F(t_, f_) { .name = #f_, .type = (t_), .offset = offsetof(struct stored_check, f_), .flags = SF_DURTEXT }
static const struct schema_field stored_check_fields[] = {
	F(ST_STR, CheckID),
	F(ST_STR, Name),
	F(ST_STR, Notes),
	F(ST_STR, Output),
	F(ST_STR, Status),
	F(ST_STR, ServiceID),
	F(ST_DURATION, TTL),
	F(ST_DURATION, DeregisterCriticalServiceAfter),
};
static const struct schema stored_check_schema = {
	"stored_check", stored_check_fields, sizeof(stored_check_fields) / sizeof(stored_check_fields[0]),
	sizeof(struct stored_check)
};

void
checks_print(const struct checks *c, struct buf *out)
{
	bool first = true;

	buf_puts(out, "[");
	for (const struct local_check *k = c->first; k != NULL; k = k->next) {
		struct stored_check s = {
			.CheckID = span_str(k->id), .Name = span_str(k->name), .Notes = span_str(k->notes),
			.Output = span_str(k->output), .Status = span_str(k->status),
			.ServiceID = span_str(k->service_id),
			.TTL = k->ttl_ns, .DeregisterCriticalServiceAfter = k->deregister_after_ns,
		};

		if (k->removed)
			continue;
		if (!first)
			buf_puts(out, ",");
		first = false;
		schema_json_rec(&stored_check_schema, &s, out);
	}
	buf_puts(out, "]");
}

/* The folder of the file, so that the rename survives a crash. */
static void
sync_folder(const char *path)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');

	if (slash == NULL || !span_copy(span_of(path, (size_t)(slash - path)), dir, sizeof(dir)))
		return;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)fsync(fd);	/* the file itself is safe; at worst the old one comes back */
	close(fd);
}

enum tv_err
checks_save(struct checks *c, bool durable)
{
	struct buf compact = BUF_INIT(FILE_BYTES_MAX), text = BUF_INIT(FILE_BYTES_MAX);
	char temp[PATH_MAX];
	enum tv_err err = TV_ESYS;

	checks_print(c, &compact);
	json_pretty(buf_span(&compact), &text);
	int n = snprintf(temp, sizeof(temp), "%s.new", c->conf.path);
	int fd = n < 0 || (size_t)n >= sizeof(temp) ? -1 :
	    open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (compact.failed || text.failed)
		err = TV_ELIMIT;
	else if (fd >= 0)
		err = write_all(fd, text.data, text.len) ? TV_OK : TV_ESYS;
	if (err == TV_OK && durable && fsync(fd) != 0)
		err = TV_ESYS;
	if (fd >= 0 && close(fd) != 0)
		err = TV_ESYS;
	if (err == TV_OK && rename(temp, c->conf.path) != 0)
		err = TV_ESYS;
	if (err == TV_OK && durable)
		sync_folder(c->conf.path);
	buf_done(&compact);
	buf_done(&text);
	return err;
}

void
checks_set_aside(const struct checks *c)
{
	char bad[PATH_MAX];
	int n = snprintf(bad, sizeof(bad), "%s.bad", c->conf.path);

	if (n > 0 && (size_t)n < sizeof(bad) && rename(c->conf.path, bad) != 0)
		log_warn("agent", "cannot rename %s: %s", c->conf.path, strerror(errno));
}

static enum tv_err
read_file(const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	enum tv_err err = TV_OK;

	if (fd < 0)
		return errno == ENOENT ? TV_ENOENT : TV_ESYS;
	for (;;) {
		uint8_t *to = buf_room(out, 4096);
		ssize_t n = to == NULL ? -1 : read(fd, to, 4096);

		if (n < 0 && to != NULL && errno == EINTR)
			continue;
		if (n <= 0) {
			err = n == 0 ? TV_OK : to == NULL ? TV_ELIMIT : TV_ESYS;
			break;
		}
		out->len += (size_t)n;
	}
	close(fd);
	return err;
}

static enum tv_err
take_one(struct checks *c, json_t *v)
{
	struct arena a = ARENA_INIT(1u << 20);
	struct stored_check s = { 0 };
	char why[256];
	enum tv_err err = schema_from_json(&stored_check_schema, v, 0, &a, &s, why, sizeof(why));
	struct local_check *k = NULL;

	if (err == TV_OK && (s.CheckID.len == 0 || checks_status(s.Status) == NULL))
		err = TV_EFORMAT;
	if (err == TV_OK && c->count >= c->conf.checks_max)
		err = TV_ELIMIT;
	if (err == TV_OK && checks_find(c, s.CheckID) != NULL)
		err = TV_EEXIST;
	if (err == TV_OK && (k = checks_add(c, s.CheckID)) == NULL)
		err = TV_ENOMEM;
	if (err == TV_OK) {
		k->status = checks_status(s.Status);
		k->ttl_ns = s.TTL;
		k->deregister_after_ns = s.DeregisterCriticalServiceAfter;
		if (!checks_text(&k->name, s.Name) || !checks_text(&k->notes, s.Notes) ||
		    !checks_text(&k->output, s.Output) || !checks_text(&k->service_id, s.ServiceID))
			err = TV_ENOMEM;
	}
	arena_done(&a);
	return err;
}

enum tv_err
checks_parse(struct checks *c, struct span text)
{
	char why[256];
	json_t *list = json_first_value(text, why, sizeof(why)), *v;
	enum tv_err err = json_is_array(list) ? TV_OK : TV_EFORMAT;
	size_t i;

	if (err == TV_OK) {
		json_array_foreach(list, i, v) {
			if (take_one(c, v) != TV_OK)
				log_warn("agent", "%s: check %zu is ignored", c->conf.path, i + 1);
		}
	}
	json_decref(list);
	return err;
}

enum tv_err
checks_load(struct checks *c)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	enum tv_err err = read_file(c->conf.path, &text);

	if (err == TV_OK)
		err = checks_parse(c, buf_span(&text));
	buf_done(&text);
	return err;
}
