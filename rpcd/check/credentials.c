/* What checks verify others by and show of themselves, see credentials.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/base/log.h"
#include "rpcd/check/credentials.h"
#include "rpcd/check/key_mode.h"

#define TAG "check"
#define TRUST_KEPT MONO_S(3600)		/* the system's authorities are read again after this time */
#define LOOK_EACH MONO_S(1)
#define WARN_EACH MONO_S(86400)
#define WARN_BEFORE_S (14 * 86400)	/* the certificate ends */

enum { CA_FILE, CA_FOLDER, CERT_FILE, KEY_FILE, FILES };

struct stamp {				/* of a file, or a folder, behind all links; zero: there is none */
	uint64_t dev, ino, size;
	struct timespec written, changed;
	uint64_t inside;		/* of a folder: all of this of its files */
};

struct credentials {
	char *paths[FILES];		/* NULL: not configured */
	char *folders[2 * FILES];	/* that they are in, by either name, for the walls; or NULL */
	struct tls_client *client;	/* NULL: none could be read yet */
	struct stamp read[FILES], seen[FILES];	/* as they were read; as they were when we looked last */
	struct mono read_at, looked_at;
	bool looked;			/* at all */
	struct mono warned_at;
	bool warned;
	bool bad;			/* what was read last was no good */
	char why[TLS_WHY_BYTES];
	void (*stale)(const char *path);
};

struct credentials *
credentials_new(const struct tls_client_conf *conf)
{
	const char *const paths[FILES] = { conf->ca_file, conf->ca_folder, conf->cert_file, conf->key_file };
	struct credentials *c = calloc(1, sizeof(*c));

	for (int i = 0; i < FILES && c != NULL; i++)
		if (paths[i] != NULL && paths[i][0] != '\0' && (c->paths[i] = strdup(paths[i])) == NULL)
			return NULL;		/* the process ends */
	return c;
}

bool
credentials_are(const struct credentials *c, const struct tls_client_conf *conf)
{
	const char *const paths[FILES] = { conf->ca_file, conf->ca_folder, conf->cert_file, conf->key_file };

	for (int i = 0; i < FILES; i++)
		if (strcmp(paths[i] == NULL ? "" : paths[i], c->paths[i] == NULL ? "" : c->paths[i]) != 0)
			return false;
	return true;
}

/* The folder that a path is in, unless that is "/" or right below: too much would be in it. */
static char *
folder_of(const char *path)
{
	const char *end = path == NULL ? NULL : strrchr(path, '/');

	if (end == NULL || end == path || memchr(path + 1, '/', (size_t)(end - path) - 1) == NULL)
		return NULL;
	return strndup(path, (size_t)(end - path));
}

/*
 * A file that is renamed over the old one, or a link that is, is seen behind the walls by its folder's rule; so is what
 * a link points to, as long as that folder stays.  What is beyond shows itself by sandbox_stale().
 */
void
credentials_paths(struct credentials *c, struct sandbox_policy *policy)
{
	for (int i = 0; i < FILES; i++) {
		char *real = c->paths[i] == NULL || i == CA_FOLDER ? NULL : realpath(c->paths[i], NULL);

		sandbox_path(policy, c->paths[i], SANDBOX_READ);
		if (i == CA_FOLDER)
			continue;
		c->folders[2 * i] = folder_of(c->paths[i]);
		c->folders[2 * i + 1] = folder_of(real);
		sandbox_path(policy, c->folders[2 * i], SANDBOX_READ);
		sandbox_path(policy, c->folders[2 * i + 1], SANDBOX_READ);
		free(real);
	}
}

void
credentials_on_stale(struct credentials *c, void (*stale)(const char *path))
{
	c->stale = stale;
}

/* -- files -- */

static struct stamp
stamp_of(int dir, const char *path)
{
	struct stat st;

	if (fstatat(dir, path, &st, 0) != 0)
		return (struct stamp){ .dev = 0 };
	return (struct stamp){ .dev = st.st_dev, .ino = st.st_ino, .size = (uint64_t)st.st_size, .written = st.st_mtim,
	    .changed = st.st_ctim };
}

/* Whatever order they come in. */
static uint64_t
stamp_inside(const char *folder)
{
	uint64_t all = 0;
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		struct stamp one = stamp_of(dirfd(d), e->d_name);

		if (e->d_name[0] != '.')
			all += fnv1a(fnv1a(FNV1A_START, span_str(e->d_name)),
			    span_of((const uint8_t *)&one, sizeof(one)));
	}
	if (d != NULL)
		closedir(d);
	return all;
}

static void
stamp_files(const struct credentials *c, struct stamp out[FILES])
{
	memset(out, 0, FILES * sizeof(*out));
	for (int i = 0; i < FILES; i++)
		if (c->paths[i] != NULL)
			out[i] = stamp_of(AT_FDCWD, c->paths[i]);
	if (c->paths[CA_FOLDER] != NULL)
		out[CA_FOLDER].inside = stamp_inside(c->paths[CA_FOLDER]);
}

/* Is what the files are now to be read?  Something was replaced, or it was no good, or it is old; and it is at rest. */
static bool
is_due(struct credentials *c, struct mono now)
{
	struct stamp are[FILES];
	bool at_rest, given = c->paths[CA_FILE] != NULL || c->paths[CA_FOLDER] != NULL;

	stamp_files(c, are);
	at_rest = memcmp(are, c->seen, sizeof(are)) == 0;
	memcpy(c->seen, are, sizeof(are));
	if (c->client == NULL)
		return true;
	if (!given && !mono_before(now, mono_add(c->read_at, TRUST_KEPT)))
		return true;
	return at_rest && (c->bad || memcmp(are, c->read, sizeof(are)) != 0);
}

/* NULL with a sentence in c->why, and errno of open(2) where it was that, else 0. */
static struct tls_client *
load_files(struct credentials *c)
{
	const char *bad = NULL;
	struct stat st;

	if (c->paths[KEY_FILE] != NULL && stat(c->paths[KEY_FILE], &st) == 0)
		bad = check_key_refused(&st, geteuid(), getegid());
	if (bad == NULL)
		return tls_client_new(&(struct tls_client_conf){ c->paths[CA_FILE], c->paths[CA_FOLDER],
		    c->paths[CERT_FILE], c->paths[KEY_FILE] }, c->why, sizeof(c->why));
	snprintf(c->why, sizeof(c->why), "%s: %s", c->paths[KEY_FILE], bad);
	errno = 0;
	return NULL;
}

static void
read_files(struct credentials *c)
{
	struct tls_client *fresh = load_files(c);
	const char *behind = fresh == NULL && errno == EACCES ? sandbox_stale() : NULL;
	bool again = c->bad;

	if (behind != NULL && c->stale != NULL)
		c->stale(behind);
	memcpy(c->read, c->seen, sizeof(c->read));
	c->read_at = clock_mono();
	c->bad = fresh == NULL;
	if (fresh == NULL) {
		if (!again)
			log_warn(TAG, "tls.checks: %s; checks over TLS %s", c->why, c->client != NULL ?
			    "go on with what was read before" : "fail until it is mended");
		return;
	}
	if (again || (c->client != NULL && c->paths[CERT_FILE] != NULL))
		log_info(TAG, "tls.checks: the certificate and the authorities of checks were read anew");
	tls_client_leave(c->client);
	c->client = fresh;
	c->warned = false;
}

/* Once a day, while there are checks that show it. */
static void
warn_of_end(struct credentials *c, struct mono now)
{
	int64_t end = c->client == NULL ? 0 : tls_client_not_after(c->client), wall = clock_wall_ns() / 1000000000;
	char text[LOG_TIME_BYTES];

	if (end == 0 || end - wall >= WARN_BEFORE_S ||
	    (c->warned && mono_before(now, mono_add(c->warned_at, WARN_EACH))))
		return;
	c->warned = true;
	c->warned_at = now;
	log_warn(TAG, "tls.checks: the certificate of checks %s at %s: renew it now; new files are taken over without "
	    "a restart", end <= wall ? "has ended" : "ends", log_time(end * 1000, text));
}

struct tls_client *
credentials_now(struct credentials *c, char why[TLS_WHY_BYTES])
{
	struct mono now = clock_mono();

	if (!c->looked || !mono_before(now, mono_add(c->looked_at, LOOK_EACH))) {
		c->looked = true;
		c->looked_at = now;
		if (is_due(c, now))
			read_files(c);
		warn_of_end(c, now);
	}
	if (c->client == NULL)
		snprintf(why, TLS_WHY_BYTES, "tls: %.480s", c->why);
	return c->client;
}

struct ssl_st *
credentials_session(struct credentials *c, int fd, const struct check_run *run, const char *host,
    const char *protocol, char why[TLS_WHY_BYTES])
{
	struct span name = run->TLSServerName.len > 0 ? run->TLSServerName : span_str(host);
	struct tls_client *client = credentials_now(c, why);
	char text[TLS_NAME_BYTES];
	struct ssl_st *s;

	if (client == NULL)
		return NULL;
	if (!span_copy(name, text, sizeof(text)) || text[0] == '\0') {
		snprintf(why, TLS_WHY_BYTES, "tls: the server's name is empty or too long");
		return NULL;
	}
	s = tls_client_open(client, fd, &(struct tls_peer){ .name = text, .skip_verify = run->TLSSkipVerify,
	    .protocol = protocol });
	if (s == NULL)
		snprintf(why, TLS_WHY_BYTES, "out of memory");
	return s;
}
