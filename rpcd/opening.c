/* See opening.h. */
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpcd/checks/check_process.h"
#include "rpcd/keys/keys.h"
#include "rpcd/names/dns_process.h"
#include "rpcd/opening.h"
#include "rpcd/tls/tls_server.h"

#define PROGRAM_WITH_TLS "rpcd-tls"

static enum tv_err
add_listener(int fds[FDS_MAX], unsigned *count, int fd, const char *what, char *errbuf, size_t cap)
{
	if (fd < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "cannot listen on %s: %s", what, strerror(errno));
	fds[(*count)++] = fd;
	return TV_OK;
}

static enum tv_err
open_addresses(const struct conf_list *addresses, uint16_t port, const char *key, int fds[FDS_MAX], unsigned *count,
    char *errbuf, size_t cap)
{
	enum tv_err err = TV_OK;
	char what[PATH_BYTES_MAX];

	for (size_t i = 0; i < addresses->count && port != 0 && err == TV_OK; i++) {
		if (*count == FDS_MAX)
			return tv_fail(errbuf, cap, TV_ELIMIT, "%s: more than %d", key, FDS_MAX - 1);
		snprintf(what, sizeof(what), "%s port %u", addresses->items[i], port);
		err = add_listener(fds, count, listen_tcp(addresses->items[i], port), what, errbuf, cap);
	}
	return err;
}

static enum tv_err
open_http(struct rpcd *p, char *errbuf, size_t cap)
{
	const struct rpcd_conf *c = &p->conf;
	char what[PATH_BYTES_MAX + 16];

	snprintf(what, sizeof(what), "%s/rpcd.sock", p->cluster.run_dir);
	enum tv_err err = add_listener(p->http_fds, &p->http_fd_count, daemon_socket(p->spec, what), what, errbuf, cap);
	if (err == TV_OK)
		err = open_addresses(&c->http_addresses, c->http_port, "http_addresses", p->http_fds,
		    &p->http_fd_count, errbuf, cap);
	if (err == TV_OK && c->https_port != 0)
		err = tls_server_begin(errbuf, cap);
	if (err == TV_OK)
		err = open_addresses(rpcd_https_addresses(c), c->https_port, "https_addresses", p->https_fds,
		    &p->https_fd_count, errbuf, cap);
	return err;
}

/* cluster.key serves until gossipd tells the ring as it is now. */
static enum tv_err
open_psks(struct rpcd *p, char *errbuf, size_t cap)
{
	struct keyring ring;
	enum tv_err err = keyring_load(p->cluster.cluster_key, &ring, errbuf, cap);

	if (err != TV_OK)
		return err;
	p->psks = sodium_allocarray(KEYRING_KEYS_MAX, sizeof(*p->psks));
	for (unsigned i = 0; i < ring.count && p->psks != NULL; i++)
		cluster_link_psk(span_of(ring.keys[i].bytes, ring.lens[i]), p->psks[i].bytes);
	p->noise.key_file = "cluster.key";
	p->noise.psks = p->psks;
	p->noise.psk_count = ring.count;
	keyring_wipe(&ring);
	keys_wipe_stack();
	if (p->psks != NULL)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ENOMEM, "no locked memory for the keys (see LimitMEMLOCK)");
}

static enum tv_err
open_keys(struct rpcd *p, char *errbuf, size_t cap)
{
	const struct cluster_conf *c = &p->cluster;

	if (!c->have_keys)
		return TV_OK;
	enum tv_err err = open_psks(p, errbuf, cap);
	if (err == TV_OK)
		err = server_keys_load(c->server_key, c->server_pub, c->server ? SERVER_RPC : SERVER_CLIENT,
		    &p->server_keys, errbuf, cap);
	p->noise.pattern = NOISE_NKPSK0;
	p->noise.statics = p->server_keys.rpc;
	p->noise.static_count = p->server_keys.count;
	p->noise.static_public = p->server_keys.pub;
	return err;
}

static enum tv_err
open_rpc(struct rpcd *p, char *errbuf, size_t cap)
{
	if (!p->cluster.server)
		return TV_OK;
	p->rpc_fd = listen_tcp(p->cluster.bind, p->cluster.rpc_port);
	if (p->rpc_fd >= 0)
		return TV_OK;
	return tv_fail(errbuf, cap, TV_ESYS, "cannot listen on %s port %u: %s", p->cluster.bind, p->cluster.rpc_port,
	    strerror(errno));
}

static enum tv_err
open_dns(struct rpcd *p, char *errbuf, size_t cap)
{
	struct dns_sockets sockets;

	if (p->conf.dns_port == 0)
		return TV_OK;
	enum tv_err err = dns_sockets_open(&p->conf, &sockets, errbuf, cap);
	if (err != TV_OK)
		return err;
	err = dns_monitor_start(&(struct dns_monitor_conf){
		.sockets = &sockets, .best_effort = p->cluster.sandbox != 0, .log_level = rpcd_log_level(p),
		.log_dest = p->cluster.log_to,
	}, &p->dns_monitor, errbuf, cap);
	dns_sockets_close(&sockets);
	return err;
}

/* For JSON: the bodies that we parse may hold a key. */
static void
free_wiped(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

/* That of docker is another one: its processes are in the group of docker's socket, and the others are not. */
static enum tv_err
open_monitors(struct rpcd *p, char *errbuf, size_t cap)
{
	const struct rpcd_conf *c = &p->conf;
	struct rpcd_tls tls = rpcd_tls_for(c, RPCD_TLS_CHECKS);
	struct check_monitor_conf conf = {
		.tls = { tls.ca_file, tls.ca_path, tls.cert_file, tls.key_file },
		.docker_socket = "",
		.roles = { [ROLE_NETWORK] = true,
		    [ROLE_SCRIPTS] = c->enable_script_checks || c->enable_local_script_checks },
		.best_effort = p->cluster.sandbox != 0, .log_dest = p->cluster.log_to,
		.log_level = rpcd_log_level(p),
	};
	enum tv_err err = check_monitor_start(&conf, &p->check_monitor, errbuf, cap);

	if (err == TV_OK && c->https_port != 0)
		err = keys_monitor_start(&(struct keys_monitor_conf){ .best_effort = conf.best_effort,
		    .log_level = conf.log_level, .log_dest = conf.log_dest }, &p->keys_monitor, errbuf, cap);
	if (err != TV_OK || c->docker_socket == NULL)
		return err;
	conf.docker_socket = c->docker_socket;
	memset(conf.roles, 0, sizeof(conf.roles));
	conf.roles[ROLE_DOCKER] = true;
	return check_monitor_start(&conf, &p->docker_monitor, errbuf, cap);
}

/* Where we are now a relative folder after -c would be another one: the last -c holds. */
static void
execute(const char *path, char **argv, const char *conf_dir)
{
	static char option[] = "-c";
	size_t n = 0;
	char **args;

	while (argv[n] != NULL)
		n++;
	if ((args = calloc(n + 3, sizeof(*args))) == NULL)
		return;
	memcpy(args, argv, n * sizeof(*args));
	if (n > 1 && strcmp(args[n - 1], "--") == 0)
		n--;			/* behind it there would be no options */
	args[n++] = option;
	args[n] = (char *)(uintptr_t)conf_dir;
	execv(path, args);
	free(args);
}

/*
 * HTTPS needs OpenSSL, which costs memory only where it is linked: the same program is there with it, beside this one.
 * It starts anew; nothing is open yet that would stay open.
 */
static enum tv_err
become_program_with_tls(const struct rpcd *p, const char *conf_dir, char *errbuf, size_t cap)
{
	char path[PATH_BYTES_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM_WITH_TLS));

	if (n <= 0)
		return tv_fail(errbuf, cap, TV_ESYS, "/proc/self/exe: %s", strerror(errno));
	path[n] = '\0';
	char *slash = strrchr(path, '/');
	strcpy(slash == NULL ? path : slash + 1, PROGRAM_WITH_TLS);
	execute(path, p->argv, conf_dir);
	return tv_fail(errbuf, cap, TV_ESYS, "%s: %s (it is rpcd with HTTPS, and stays beside it: install both)", path,
	    strerror(errno));
}

enum tv_err
opening_open(struct daemon_spec *d, char *errbuf, size_t cap)
{
	struct rpcd *p = d->ctx;
	enum tv_err err;

	if (p->conf.https_port != 0 && !tls_server_is_built())
		return become_program_with_tls(p, d->conf_dir, errbuf, cap);
	p->spec = d;
	snprintf(p->gossipd_path, sizeof(p->gossipd_path), "%s/gossipd.sock", p->cluster.run_dir);
	snprintf(p->raftd_path, sizeof(p->raftd_path), "%s/raftd.sock", p->cluster.run_dir);
	snprintf(p->checks_path, sizeof(p->checks_path), "%s/rpcd/checks.json", p->cluster.data_dir);
	snprintf(p->tokens_path, sizeof(p->tokens_path), "%s/rpcd/tokens.json", p->cluster.data_dir);
	snprintf(p->acl_path, sizeof(p->acl_path), "%s/rpcd/access-control", p->cluster.data_dir);
	if (sodium_init() < 0)
		return tv_fail(errbuf, cap, TV_ESYS, "libsodium cannot start");
	if ((err = open_monitors(p, errbuf, cap)) != TV_OK || (err = open_dns(p, errbuf, cap)) != TV_OK)
		return err;
	host_open(&p->host);
	json_set_alloc_funcs(malloc, free_wiped);
	json_object_seed(0);		/* reads /dev/urandom now: the sandbox will hide it */
	if ((err = open_keys(p, errbuf, cap)) != TV_OK || (err = open_rpc(p, errbuf, cap)) != TV_OK)
		return err;
	return open_http(p, errbuf, cap);
}

void
opening_close(struct rpcd *p)
{
	while (p->http_fd_count > 0)
		close(p->http_fds[--p->http_fd_count]);
	while (p->https_fd_count > 0)
		close(p->https_fds[--p->https_fd_count]);
	if (p->rpc_fd >= 0)
		close(p->rpc_fd);
	if (p->check_monitor >= 0)
		close(p->check_monitor);
	if (p->docker_monitor >= 0)
		close(p->docker_monitor);
	if (p->dns_monitor >= 0)
		close(p->dns_monitor);
	if (p->keys_monitor >= 0)
		close(p->keys_monitor);
	sodium_free(p->psks);	/* wipes */
	server_keys_wipe(&p->server_keys);
}
