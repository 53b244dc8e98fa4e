/* What a node has been; see past.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/proc/past.h"

#define PATH_BYTES 4096
#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

struct past {
	bool server, encrypted;
};

static const struct conf_opt past_opts[] = {
	{ "server", CONF_BOOL, offsetof(struct past, server), "false", NULL, NULL, NULL, CONF_RESTART, NULL },
	{ "encrypted", CONF_BOOL, offsetof(struct past, encrypted), "false", NULL, NULL, NULL, CONF_RESTART, NULL },
};

static struct past
present(const struct cluster_conf *c)
{
	return (struct past){ .server = c->server, .encrypted = cluster_seals(c) };
}

/* TV_ENOENT: nothing is known. */
static enum tv_err
load(const char *path, struct past *p, char *errbuf, size_t cap)
{
	char why[512];
	enum tv_err err = conf_load(path, past_opts, NITEMS(past_opts), p, why, sizeof(why));

	if (err != TV_OK && err != TV_ENOENT)
		snprintf(errbuf, cap, "%s. The file says what this node has been; remove it if cluster.conf is what it "
		    "should be", why);
	return err;
}

static bool
path_of(const char *data, const char *name, char path[PATH_BYTES])
{
	return snprintf(path, PATH_BYTES, "%s/%s", data, name) < PATH_BYTES;
}

enum tv_err
past_check(const char *data, const struct cluster_conf *c, const char *conf_dir, char *errbuf, size_t cap)
{
	char path[PATH_BYTES];
	struct past was;
	enum tv_err err;

	if (!path_of(data, PAST_NAME, path))
		return TV_OK;		/* a folder of such a name cannot be there */
	err = load(path, &was, errbuf, cap);
	if (err != TV_OK)
		return err == TV_ENOENT ? TV_OK : err;
	if (was.server && !c->server && !c->server_given)
		return tv_fail(errbuf, cap, TV_EPERM, "%s: this node was a server, and %s/cluster.conf makes it a "
		    "client, since server = true is not there. If the configuration was lost, bring it back; if the "
		    "node is to be a client from now on, set server = false there, or empty %s", path, conf_dir,
		    c->data_dir);
	if (was.encrypted && !c->have_keys && !c->plaintext_wanted)
		return tv_fail(errbuf, cap, TV_EPERM, "%s: this node used encryption and would now send plaintext, "
		    "since there is no %s. If the key was lost, copy cluster.key from another node; if the node is to "
		    "send plaintext from now on, set encryption = \"off\" in %s/cluster.conf, or empty %s", path,
		    c->cluster_key, conf_dir, c->data_dir);
	return TV_OK;
}

enum tv_err
past_write(const char *data, const struct cluster_conf *c, char *errbuf, size_t cap)
{
	struct past was, is = present(c);
	char path[PATH_BYTES], text[256], why[1024];
	bool known;

	if (access(data, F_OK) != 0)
		return TV_ENOENT;
	if (!path_of(data, PAST_NAME, path))
		return tv_fail(errbuf, cap, TV_ESYS, "%.256s...: the path is too long", data);
	known = load(path, &was, why, sizeof(why)) == TV_OK;
	/* encryption = "off" does not make the keys forgotten that gossipd keeps: it has to stay. */
	is.encrypted = is.encrypted || (known && was.encrypted);
	if (known && was.server == is.server && was.encrypted == is.encrypted)
		return TV_OK;
	snprintf(text, sizeof(text), "# What this node has been; what it must be told to cease to be: cluster.conf(5)\n"
	    "server = %s\nencrypted = %s\n", is.server ? "true" : "false", is.encrypted ? "true" : "false");
	if (file_replace(AT_FDCWD, path, span_str(text), 0600) == TV_OK)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ESYS, "%s: %s", path, strerror(errno));
}
