/* Reading services.d. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/conf/conf.h"
#include "common/conf/ucl.h"
#include "rpcd/registry/def_files.h"

#define FILES_MAX 4096
#define PATH_BYTES_MAX 4096

static bool
ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && strcmp(name + n - m, end) == 0;
}

static enum def_form
form_of(const char *name)
{
	return ends_with(name, ".json") ? DEF_JSON : ends_with(name, ".hcl") ? DEF_HCL : DEF_OWN;
}

static int
is_ours(const struct dirent *d)
{
	return d->d_name[0] != '.' && (ends_with(d->d_name, ".conf") || form_of(d->d_name) != DEF_OWN);
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Root reads everything; a reload is the daemon's user.  wanted: bits as of others. */
static enum tv_err
check_reach(const char *path, const char *user, mode_t wanted, char *errbuf, size_t cap)
{
	const struct passwd *pw = geteuid() == 0 ? getpwnam(user) : NULL;
	struct stat st;

	if (pw == NULL || pw->pw_uid == 0 || stat(path, &st) != 0)
		return TV_OK;		/* what cannot be read at all is found when it is */
	unsigned shift = st.st_uid == pw->pw_uid ? 6 : st.st_gid == pw->pw_gid ? 3 : 0;
	if ((st.st_mode >> shift & wanted) == wanted)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EPERM, "%s: the user %s could not read it at a reload: chgrp %s %s && chmod "
	    "g+%s %s", path, user, user, path, wanted == 05 ? "rx" : "r", path);
}

/*
 * A link to a file elsewhere: rpcd's walls leave the folder of its configuration to be read, so a reload could not read
 * such a file, whatever its mode.  At the start it could, which would only put the surprise off.
 */
static enum tv_err
check_link(const char *folder, const char *path, char *errbuf, size_t cap)
{
	char conf[PATH_MAX], here[PATH_MAX], there[PATH_MAX];
	const char *slash = strrchr(folder, '/');
	struct stat st;
	size_t len;

	if (lstat(path, &st) != 0 || !S_ISLNK(st.st_mode) || slash == NULL ||
	    !span_copy(span_of(folder, (size_t)(slash - folder)), conf, sizeof(conf)) ||
	    realpath(conf, here) == NULL || realpath(path, there) == NULL)
		return TV_OK;		/* what cannot be read at all is found when it is */
	len = strlen(here);
	if (strncmp(there, here, len) == 0 && there[len] == '/')
		return TV_OK;
	return tv_fail(errbuf, cap, TV_EPERM, "%s: is a link to %s, outside of %s: rpcd's sandbox keeps it from "
	    "reading that, whatever its mode: put the file itself here, or have the link lead to one below that folder",
	    path, there, conf);
}

static enum tv_err
read_one(struct def_set *s, const char *folder, const char *name, const char *user, char *errbuf, size_t cap)
{
	struct buf text = BUF_INIT(UCL_TEXT_BYTES_MAX + 32768);
	char path[PATH_BYTES_MAX];
	enum tv_err err;

	text.secret = true;		/* may hold tokens */
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) >= sizeof(path))
		return tv_fail(errbuf, cap, TV_EINVAL, "%s: the path is too long", folder);
	if ((err = check_link(folder, path, errbuf, cap)) == TV_OK &&
	    (err = conf_read_file(path, &text, errbuf, cap)) == TV_OK &&
	    (err = check_reach(path, user, 04, errbuf, cap)) == TV_OK)
		err = def_set_add(s, path, buf_span(&text), form_of(name), errbuf, cap);
	buf_done(&text);
	return err;
}

/* The folder, sorted; -1 with a sentence. */
static int
list(const char *folder, struct dirent ***names, char *errbuf, size_t cap)
{
	int n = scandir(folder, names, is_ours, by_bytes);

	if (n < 0 && errno == ENOENT)
		return 0;
	if (n < 0)
		snprintf(errbuf, cap, "%s: %s", folder, strerror(errno));
	return n;
}

static int
is_another(const struct dirent *d)
{
	return d->d_name[0] != '.' && !is_ours(d);
}

/* A definition that was renamed, or that another program would read, is missed only when its service is. */
static void
tell_others(const char *folder)
{
	struct dirent **names = NULL;
	char shown[256];
	int n = scandir(folder, &names, is_another, by_bytes);

	if (n > 0)
		log_warn("rpcd", "services.d: %s%s not read: only files whose names end in .conf, .json or .hcl are",
		    log_safe(span_str(names[0]->d_name), shown, sizeof(shown)), n > 1 ? " and others are" : " is");
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

enum tv_err
def_files_read(struct def_set *s, const char *folder, const char *user, enum def_scripts scripts,
    struct registry *registry, char *errbuf, size_t cap)
{
	struct dirent **names = NULL;
	int n = list(folder, &names, errbuf, cap);
	enum tv_err err = n < 0 ? TV_ESYS : TV_OK;

	def_set_init(s, scripts, registry);
	if (n > 0)
		err = check_reach(folder, user, 05, errbuf, cap);
	if (n > FILES_MAX) {
		snprintf(errbuf, cap, "%s: more than %d files", folder, FILES_MAX);
		err = TV_ELIMIT;
	}
	for (int i = 0; i < n && err == TV_OK; i++)
		err = read_one(s, folder, names[i]->d_name, user, errbuf, cap);
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	if (err == TV_OK) {
		def_set_finish(s);
		tell_others(folder);
	} else {
		def_set_done(s);
	}
	return err;
}
