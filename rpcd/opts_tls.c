/* HTTPS and tls of rpcd.conf: what holds for which use, and what does not go together.  See opts.h. */
#include <stdio.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/conf/cluster_conf.h"
#include "rpcd/opts.h"

#define MAKE "clusterctl tls cert create makes both"
#define SUITE_BYTES 64
#define PATH_BYTES_MAX 4096

/* Consul's names, which are IANA's, and OpenSSL's.  Each has a key of its own for each session, and AEAD: no others. */
static const struct {
	const char *name, *openssl;
} suites_known[] = {
	{ "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256" },
	{ "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384" },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305" },
	{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305" },
	{ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256" },
	{ "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384" },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305" },
	{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305" },
};

const struct conf_list *
rpcd_https_addresses(const struct rpcd_conf *c)
{
	return c->https_addresses.count > 0 ? &c->https_addresses : &c->http_addresses;
}

struct rpcd_tls
rpcd_tls_for(const struct rpcd_conf *c, enum rpcd_tls_use use)
{
	const struct rpcd_tls *base = &c->tls[RPCD_TLS_DEFAULTS];
	struct rpcd_tls t = c->tls[use];

	if (use != RPCD_TLS_HTTPS)
		return t;
	if (t.cert_file == NULL)
		t.cert_file = base->cert_file;
	if (t.key_file == NULL)
		t.key_file = base->key_file;
	if (t.ca_file == NULL && t.ca_path == NULL) {
		t.ca_file = base->ca_file;
		t.ca_path = base->ca_path;
	}
	if (!t.verify_incoming_given)
		t.verify_incoming = base->verify_incoming;
	if (!t.min_version_given)
		t.min_version = base->min_version;
	if (t.suites.count == 0)
		t.suites = base->suites;
	return t;
}

const char *
rpcd_conf_open_address(const struct rpcd_conf *c)
{
	const struct conf_list *addresses = rpcd_https_addresses(c);

	if (c->https_port == 0 || c->http_allow_remote || rpcd_tls_for(c, RPCD_TLS_HTTPS).verify_incoming)
		return NULL;
	for (size_t i = 0; i < addresses->count; i++)
		if (!cluster_addr_is_loopback(addresses->items[i]))
			return addresses->items[i];
	return NULL;
}

/* -- suites -- */

/* The next name of the list, without blanks; "" where there is none between two commas.  False: the list has ended. */
static bool
next_name(const struct conf_list *list, size_t *at, char *name)
{
	size_t left = *at;

	for (size_t i = 0; i < list->count; i++) {
		const char *item = list->items[i];
		size_t len = strlen(item) + 1;

		if (left >= len) {
			left -= len;
			continue;
		}
		const char *from = item + left;
		size_t n = strcspn(from, ",");
		*at += n + 1;
		while (n > 0 && *from == ' ')
			from++, n--;
		while (n > 0 && from[n - 1] == ' ')
			n--;
		snprintf(name, SUITE_BYTES, "%.*s", (int)n, from);
		return true;
	}
	return false;
}

static const char *
openssl_name(const char *name)
{
	for (size_t i = 0; i < sizeof(suites_known) / sizeof(suites_known[0]); i++)
		if (strcmp(name, suites_known[i].name) == 0)
			return suites_known[i].openssl;
	return NULL;
}

const char *
rpcd_tls_suite(const struct conf_list *suites, size_t *at)
{
	char name[SUITE_BYTES];
	const char *found;

	while (next_name(suites, at, name))
		if ((found = openssl_name(name)) != NULL)
			return found;
	return NULL;
}

static enum tv_err
check_suites(const char *block, const struct rpcd_tls *t, char *errbuf, size_t cap)
{
	char name[SUITE_BYTES];
	size_t at = 0;

	while (next_name(&t->suites, &at, name)) {
		if (openssl_name(name) != NULL)
			continue;
		if (strncmp(name, "TLS_AES_", 8) == 0 || strncmp(name, "TLS_CHACHA20_", 13) == 0)
			return tv_fail(errbuf, cap, TV_EINVAL, "tls.%s.tls_cipher_suites: \"%s\" is of TLS 1.3, whose "
			    "suites are all good and cannot be chosen: leave it out", block, name);
		return tv_fail(errbuf, cap, TV_EINVAL, "tls.%s.tls_cipher_suites: \"%s\" is not one of "
		    "TLS_ECDHE_ECDSA_WITH_ or TLS_ECDHE_RSA_WITH_ and AES_128_GCM_SHA256, AES_256_GCM_SHA384 or "
		    "CHACHA20_POLY1305_SHA256: others are weak, or unknown", block, name);
	}
	return TV_OK;
}

/* -- what does not go together -- */

static enum tv_err
check_lengths(const char *block, const struct rpcd_tls *t, char *errbuf, size_t cap)
{
	const char *const paths[] = { t->cert_file, t->key_file, t->ca_file, t->ca_path };

	for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (paths[i] != NULL && strlen(paths[i]) >= PATH_BYTES_MAX)
			return tv_fail(errbuf, cap, TV_EINVAL, "tls.%s: a path has more than %d bytes", block,
			    PATH_BYTES_MAX - 1);
	return TV_OK;
}

static enum tv_err
check_pair(const char *block, const struct rpcd_tls *t, char *errbuf, size_t cap)
{
	bool cert = t->cert_file != NULL;

	if (cert != (t->key_file != NULL))
		return tv_fail(errbuf, cap, TV_EINVAL, "tls.%s.%s: there is no %s to it: set that, too (" MAKE ")",
		    block, cert ? "cert_file" : "key_file", cert ? "key_file" : "cert_file");
	if (t->ca_file != NULL && t->ca_path != NULL)
		return tv_fail(errbuf, cap, TV_EINVAL, "tls.%s.ca_path: there is ca_file, too: take one of them",
		    block);
	return TV_OK;
}

static enum tv_err
check_https(const struct rpcd_conf *c, const struct rpcd_tls *t, char *errbuf, size_t cap)
{
	const struct conf_list *addresses = rpcd_https_addresses(c);

	if (c->https_port == 0)
		return TV_OK;
	if (c->https_port == c->http_port)
		return tv_fail(errbuf, cap, TV_EINVAL, "https_port: %u is http_port, too: take another one, as 8501",
		    c->https_port);
	for (size_t i = 0; i < addresses->count; i++)
		if (!addr_parse(addresses->items[i], 0, NULL))
			return tv_fail(errbuf, cap, TV_EINVAL, "https_addresses: \"%s\" is not an IP address",
			    addresses->items[i]);
	if (t->cert_file == NULL)
		return tv_fail(errbuf, cap, TV_EINVAL, "https_port: HTTPS needs a certificate and its key: set "
		    "tls.https.cert_file and tls.https.key_file, or those of tls.defaults (" MAKE ")");
	if ((t->verify_incoming || t->ask_incoming) && t->ca_file == NULL && t->ca_path == NULL)
		return tv_fail(errbuf, cap, TV_EINVAL, "tls.https.%s: who vouches for clients?  Set tls.https.ca_file",
		    t->verify_incoming ? "verify_incoming" : "ask_incoming");
	if (t->min_version == RPCD_TLS_1_3 && t->suites.count > 0)
		return tv_fail(errbuf, cap, TV_EINVAL, "tls.https.tls_cipher_suites: they are of TLS 1.2, which "
		    "tls_min_version excludes: leave one of them out");
	return TV_OK;
}

enum tv_err
rpcd_conf_check_tls(const struct rpcd_conf *c, char *errbuf, size_t cap)
{
	static const char *const blocks[] = { "defaults", "https", "checks" };

	for (unsigned i = 0; i < RPCD_TLS_USES; i++) {
		struct rpcd_tls t = rpcd_tls_for(c, (enum rpcd_tls_use)i);
		enum tv_err err = check_pair(blocks[i], &t, errbuf, cap);

		if (err != TV_OK || (err = check_lengths(blocks[i], &t, errbuf, cap)) != TV_OK ||
		    (err = check_suites(blocks[i], &c->tls[i], errbuf, cap)) != TV_OK)
			return err;
	}
	struct rpcd_tls https = rpcd_tls_for(c, RPCD_TLS_HTTPS);
	return check_https(c, &https, errbuf, cap);
}
