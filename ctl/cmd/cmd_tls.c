/* clusterctl tls: CAs and certificates for HTTPS, in files with the names that Consul's command of this name uses. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/certs.h"
#include "ctl/ctl.h"

#define DOMAIN "consul"
#define DC_NAME "dc1"
#define DAYS_CA 1825
#define DAYS 365
#define FILES_MAX 10000			/* of one kind and name in a folder, as in Consul */
#define DOMAIN_MAX 100			/* bytes of --domain and --dc, which are part of names of files, too */
#define ID_MAX 128
#define ID_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

struct files {
	char cert[4 * DOMAIN_MAX], key[4 * DOMAIN_MAX];
};

static const char *
option(const struct ctl *ctl, const char *name, const char *otherwise)
{
	const char *value = ctl_opt(ctl, name);

	return value != NULL ? value : otherwise;
}

/* -- options of the verbs -- */

static bool
take_days(const struct ctl *ctl, unsigned otherwise, struct certs_wish *w)
{
	const char *text = ctl_opt(ctl, "days");
	unsigned long days = text != NULL ? strtoul(text, NULL, 10) : otherwise;

	w->days = (unsigned)days;
	return (days >= 1 && days <= CERTS_DAYS_MAX) ||
	    ctl_false(ctl, "--days: from 1 to %d, not %s", CERTS_DAYS_MAX, text);
}

static bool
add_dns(const struct ctl *ctl, struct certs_wish *w, const char *name)
{
	if (!certs_is_name(name))
		return ctl_false(ctl, "\"%s\" is no name of a host: letters, digits and '-', with dots between", name);
	if (w->dns_count == CERTS_NAMES_MAX)
		return ctl_false(ctl, "more than %d names", CERTS_NAMES_MAX);
	w->dns[w->dns_count++] = name;
	return true;
}

/* A part of a name, where "*" would mean itself alone. */
static bool
is_plain_name(const char *name)
{
	return certs_is_name(name) && name[0] != '*';
}

/* A constraint holds for the name, and all below it, as it is. */
static bool
add_constraint(const struct ctl *ctl, struct certs_wish *w, const char *name)
{
	if (name[0] == '*')
		return ctl_false(ctl, "\"%s\": a CA that may sign for a name may sign for all below it, too: write it "
		    "without the \"*.\"", name);
	return add_dns(ctl, w, name);
}

static bool
add_ip(const struct ctl *ctl, struct certs_wish *w, const char *text)
{
	struct addr a;

	if (!addr_parse(text, 0, &a))
		return ctl_false(ctl, "\"%s\" is neither an IPv4 nor an IPv6 address", text);
	if (w->ip_count == CERTS_NAMES_MAX)
		return ctl_false(ctl, "more than %d addresses", CERTS_NAMES_MAX);
	w->ips[w->ip_count++] = a;
	return true;
}

typedef bool add_fn(const struct ctl *ctl, struct certs_wish *w, const char *value);

/* All values of an option that may be repeated. */
static bool
add_each(const struct ctl *ctl, const char *name, add_fn *add, struct certs_wish *w)
{
	const struct option *o = ctl_option_in(ctl->verb->options, name);

	for (const struct given *g = ctl->given; g < ctl->given + ctl->given_count; g++)
		if (g->option == o && !add(ctl, w, g->value))
			return false;
	return true;
}

/* -- files -- */

/* Never over one that is there.  The key goes first: a certificate without it is worth nothing. */
static enum tv_err
write_pair(const struct files *f, struct certs_pair *p)
{
	enum tv_err rc = file_create(AT_FDCWD, f->key, buf_span(&p->key), 0600);

	if (rc != TV_OK)
		return rc;
	rc = file_create(AT_FDCWD, f->cert, buf_span(&p->cert), 0644);
	if (rc != TV_OK) {
		int why = errno;

		(void)file_remove(f->key);
		errno = why;
	}
	return rc;
}

static bool
is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || errno != ENOENT;
}

static int
not_written(const struct ctl *ctl, const struct files *f, enum tv_err rc)
{
	if (rc == TV_EEXIST)
		return ctl_complain(ctl, "%s or %s is there already: keys are never overwritten", f->cert, f->key);
	return ctl_complain(ctl, "%s, %s: %s", f->cert, f->key, rc == TV_ESYS ? strerror(errno) : "no memory");
}

/* By the first number that neither file has; others may do the same beside us. */
static bool
write_numbered(const struct ctl *ctl, const char *prefix, struct files *f, struct certs_pair *p)
{
	enum tv_err rc = TV_EEXIST;

	for (int i = 0; rc == TV_EEXIST && i <= FILES_MAX; i++) {
		snprintf(f->cert, sizeof(f->cert), "%s-%d.pem", prefix, i);
		snprintf(f->key, sizeof(f->key), "%s-%d-key.pem", prefix, i);
		if (!is_there(f->cert) && !is_there(f->key))
			rc = write_pair(f, p);
	}
	return rc == TV_OK || not_written(ctl, f, rc) == 0;
}

/* -- tls ca create -- */

static int
show_ca(const struct ctl *ctl, const struct files *f, const struct certs_pair *p)
{
	if (ctl->json)
		return out_json_new(json_pack("{s:s,s:s,s:s}", "Certificate", f->cert, "Key", f->key, "Until",
		    p->until));
	printf("Wrote %s, which every node and client may have,\n"
	    "and %s, the CA's key: who has it makes certificates that all believe. Keep it off the nodes.\n"
	    "The CA ends on %s.\n\nNext, in this folder, for each node: clusterctl tls cert create --server\n",
	    f->cert, f->key, p->until);
	return 0;
}

/* The name of the CA, unlike that of any other one. */
static void
set_ca_name(char *name, size_t cap)
{
	uint8_t id[8];
	char hex[2 * sizeof(id) + 1];

	randombytes_buf(id, sizeof(id));
	sodium_bin2hex(hex, sizeof(hex), id, sizeof(id));
	snprintf(name, cap, "Triumvir Agent CA %s", hex);
}

static bool
set_constraints(const struct ctl *ctl, const char *domain, struct certs_wish *w)
{
	if (ctl_opt(ctl, "name-constraint") == NULL)
		return ctl_opt(ctl, "additional-name-constraint") == NULL ||
		    ctl_false(ctl, "--additional-name-constraint goes with --name-constraint");
	return add_each(ctl, "additional-name-constraint", add_constraint, w) && add_dns(ctl, w, domain) &&
	    add_dns(ctl, w, "localhost");
}

static bool
check_ca_call(const struct ctl *ctl, const char *domain, const char *id)
{
	if (!is_plain_name(domain) || strlen(domain) > DOMAIN_MAX)
		return ctl_false(ctl, "--domain: \"%s\" is no name of a domain", domain);
	return id == NULL || (id[0] != '\0' && id[strspn(id, ID_CHARS)] == '\0' && strlen(id) <= ID_MAX) ||
	    ctl_false(ctl, "--cluster-id: \"%s\" is no id, such as a UUID", id);
}

int
tls_ca_create(struct ctl *ctl)
{
	const char *domain = option(ctl, "domain", DOMAIN), *id = ctl_opt(ctl, "cluster-id");
	struct certs_wish w = { .common_name = ctl_opt(ctl, "common-name") };
	struct certs_pair p;
	struct files f;
	char name[64], uri[ID_MAX + DOMAIN_MAX + 16], err[512];
	enum tv_err rc;
	int status;

	set_ca_name(name, sizeof(name));
	w.common_name = w.common_name != NULL ? w.common_name : name;
	if (!check_ca_call(ctl, domain, id) || !take_days(ctl, DAYS_CA, &w) || !set_constraints(ctl, domain, &w))
		return 2;
	if (id != NULL) {
		snprintf(uri, sizeof(uri), "spiffe://%s.%s", id, domain);
		w.uri = uri;
	}
	snprintf(f.cert, sizeof(f.cert), "%s-agent-ca.pem", domain);
	snprintf(f.key, sizeof(f.key), "%s-agent-ca-key.pem", domain);
	if (is_there(f.cert) || is_there(f.key))
		return not_written(ctl, &f, TV_EEXIST);
	if (!certs_make_ca(&w, &p, err, sizeof(err)))
		status = ctl_complain(ctl, "%s", err);
	else if ((rc = write_pair(&f, &p)) != TV_OK)
		status = not_written(ctl, &f, rc);
	else
		status = show_ca(ctl, &f, &p);
	certs_pair_done(&p);
	return status;
}

/* -- tls cert create -- */

struct kind {
	const char *name;
	bool for_servers, address;
};

/* Consul's three; a certificate of the command line is for no server. */
static const struct kind *
kind_of(const struct ctl *ctl)
{
	static const struct kind kinds[] = {
		{ "server", true, true }, { "client", true, true }, { "cli", false, false },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) - 1; i++)
		if (ctl_opt(ctl, kinds[i].name) != NULL)
			return &kinds[i];
	return &kinds[2];
}

static bool
read_pem(const struct ctl *ctl, const char *path, struct buf *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum tv_err rc = fd < 0 ? TV_ESYS : file_read_fd(fd, out);
	int why = errno;

	if (fd >= 0)
		close(fd);
	if (rc == TV_OK)
		return true;
	return ctl_false(ctl, "%s: %s%s", path,
	    rc == TV_ESYS ? strerror(why) : "is larger than certificates and keys are", rc == TV_ESYS && why == ENOENT ?
	    ": name it with --ca and --key, or make it with clusterctl tls ca create" : "");
}

static json_t *
names_of(const struct certs_wish *w)
{
	json_t *list = json_array();
	char ip[ADDR_IP_BYTES];

	for (size_t i = 0; i < w->dns_count; i++)
		json_array_append_new(list, json_string(w->dns[i]));
	for (size_t i = 0; i < w->ip_count; i++)
		json_array_append_new(list, json_string(addr_ip(&w->ips[i], ip)));
	return list;
}

static void
print_server(const char *ca, const struct files *f)
{
	printf("\nOn the node, as root:\n"
	    "  install -m 0644 %s %s " TV_SYSCONFDIR "\n"
	    "  install -m 0640 -o root -g _keys %s " TV_SYSCONFDIR "\n"
	    "and in " TV_SYSCONFDIR "/rpcd.conf, then systemctl restart rpcd:\n"
	    "  https_port = 8501\n  tls {\n    https {\n"
	    "      cert_file = \"" TV_SYSCONFDIR "/%s\"\n      key_file = \"" TV_SYSCONFDIR "/%s\"\n    }\n  }\n",
	    ca, f->cert, f->key, f->cert, f->key);
}

static void
print_cli(const char *ca, const struct files *f)
{
	printf("\nWhere a node wants certificates of its clients (verify_incoming, with %s as its ca_file):\n"
	    "  clusterctl --addr https://HOST:8501 --ca-file %s --client-cert %s --client-key %s members\n"
	    "or CONSUL_HTTP_ADDR, CONSUL_CACERT, CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY.\n"
	    "It gives no rights: tokens do.\n",
	    ca, ca, f->cert, f->key);
}

static int
show_cert(const struct ctl *ctl, const struct kind *kind, const struct certs_wish *w, const char *ca,
    const struct files *f, const struct certs_pair *p)
{
	json_t *names = names_of(w), *one;
	size_t i;

	if (ctl->json)
		return out_json_new(json_pack("{s:s,s:s,s:s,s:o,s:s}", "Certificate", f->cert, "Key", f->key, "CA", ca,
		    "Names", names, "Until", p->until));
	printf("Wrote %s and its key, %s.\nIt is for", f->cert, f->key);
	json_array_foreach(names, i, one)
		printf("%s %s", i > 0 ? "," : "", json_string_value(one));
	printf(", and ends on %s%s.\n", p->until, p->shortened ? ", as the CA does" : "");
	if (kind->for_servers)
		print_server(ca, f);
	else
		print_cli(ca, f);
	json_decref(names);
	return 0;
}

/* Signs with the CA and writes the files. */
static int
make_cert(struct ctl *ctl, const struct kind *kind, const struct certs_wish *w, const char *prefix, const char *ca,
    const char *ca_key)
{
	struct buf cert = BUF_INIT(CERTS_KEY_BYTES_MAX), key = BUF_INIT(CERTS_KEY_BYTES_MAX);
	struct certs_pair p = { .cert = BUF_INIT(0) };
	struct files f;
	char err[512];
	int status = 1;

	key.secret = true;
	if (read_pem(ctl, ca, &cert) && read_pem(ctl, ca_key, &key)) {
		if (!certs_make(w, buf_span(&cert), buf_span(&key), &p, err, sizeof(err)))
			(void)ctl_complain(ctl, "%s, %s: %s", ca, ca_key, err);
		else if (write_numbered(ctl, prefix, &f, &p))
			status = show_cert(ctl, kind, w, ca, &f, &p);
	}
	certs_pair_done(&p);
	buf_done(&cert);
	buf_done(&key);
	return status;
}

static bool
set_names(const struct ctl *ctl, const struct kind *kind, const char *node, const char *name, struct certs_wish *w)
{
	return add_each(ctl, "additional-dnsname", add_dns, w) && (node == NULL || add_dns(ctl, w, node)) &&
	    add_dns(ctl, w, name) && add_dns(ctl, w, "localhost") &&
	    add_each(ctl, "additional-ipaddress", add_ip, w) && (!kind->address || add_ip(ctl, w, "127.0.0.1"));
}

static bool
check_cert_call(const struct ctl *ctl, const struct kind *kind, const char *dc, const char *domain, const char *node)
{
	if (!is_plain_name(domain) || !is_plain_name(dc) || strlen(domain) > DOMAIN_MAX || strlen(dc) > DOMAIN_MAX)
		return ctl_false(ctl, "--dc and --domain: \"%s\" and \"%s\" become part of a host's name, of letters, "
		    "digits, '-' and dots", dc, domain);
	if (node != NULL && strcmp(kind->name, "server") != 0)
		return ctl_false(ctl, "--node goes with --server");
	return node == NULL || certs_is_name(node) ||
	    ctl_false(ctl, "--node: \"%s\" is no name of a host: its certificate can be for another one, by "
	    "--additional-dnsname or --additional-ipaddress", node);
}

int
tls_cert_create(struct ctl *ctl)
{
	const char *domain = option(ctl, "domain", DOMAIN), *dc = option(ctl, "dc", DC_NAME);
	const char *node = ctl_opt(ctl, "node");
	const struct kind *kind = kind_of(ctl);
	struct certs_wish w = { .for_servers = kind->for_servers, .for_clients = true };
	char name[3 * DOMAIN_MAX], of_node[6 * DOMAIN_MAX], prefix[3 * DOMAIN_MAX], ca[2 * DOMAIN_MAX],
	    ca_key[2 * DOMAIN_MAX];

	if (!check_cert_call(ctl, kind, dc, domain, node))
		return 2;
	snprintf(name, sizeof(name), "%s.%s.%s", kind->name, dc, domain);
	snprintf(of_node, sizeof(of_node), "%s.%s", node != NULL ? node : "", name);
	/* Clients look at the other names alone. */
	w.common_name = strlen(name) <= CERTS_COMMON_NAME_MAX ? name : kind->name;
	if (!take_days(ctl, DAYS, &w) || !set_names(ctl, kind, node != NULL ? of_node : NULL, name, &w))
		return 2;
	snprintf(prefix, sizeof(prefix), "%s-%s-%s", dc, kind->name, domain);
	snprintf(ca, sizeof(ca), "%s-agent-ca.pem", domain);
	snprintf(ca_key, sizeof(ca_key), "%s-agent-ca-key.pem", domain);
	return make_cert(ctl, kind, &w, prefix, option(ctl, "ca", ca), option(ctl, "key", ca_key));
}
