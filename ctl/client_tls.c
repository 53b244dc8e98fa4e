/*
 * TLS of the client, see client_int.h.  CAs are read by us, a folder of them as Consul does (any names, where OpenSSL
 * wants hashes), and given to libcurl in memory: then they are the only ones that are trusted.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/client_int.h"
#include "ctl/ctl.h"

#define CA_BYTES_MAX (16u << 20)
#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
/* What OpenSSL says of a chain, X509_V_ERR_* of openssl/x509_vfy.h; clusterctl sees them through libcurl only. */
#define CHAIN_NOT_YET 9
#define CHAIN_EXPIRED 10

static bool
complain(const struct client *c, const char *path, const char *why)
{
	fprintf(stderr, "clusterctl: %s: %s: %s\n", c->at.ca_from, path, why);
	return false;
}

static bool
has_certificate(struct span text)
{
	return memmem(text.p, text.len, PEM_BEGIN, strlen(PEM_BEGIN)) != NULL;
}

/* Appends the file, or nothing where it has no certificate, as many in a folder of the system may. */
static bool
read_file(struct client *c, int dir, const char *name, const char *path)
{
	size_t before = c->ca.len;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	enum tv_err rc = fd < 0 ? TV_ESYS : file_read_fd(fd, &c->ca);
	int why = errno;

	if (fd >= 0)
		close(fd);
	if (rc == TV_ESYS)
		return complain(c, path, strerror(why));
	if (rc != TV_OK)
		return complain(c, path, "is larger than CAs are");
	buf_puts(&c->ca, "\n");
	if (!has_certificate(span_of(c->ca.data + before, c->ca.len - before)))
		c->ca.len = before;
	return true;
}

static bool
read_folder(struct client *c, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	struct stat st;
	bool good = true;

	if (d == NULL)
		return complain(c, path, strerror(errno));
	while (good && (entry = readdir(d)) != NULL)
		if (fstatat(dirfd(d), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			good = read_file(c, dirfd(d), entry->d_name, path);
	closedir(d);
	return good;
}

bool
client_tls_load(struct client *c)
{
	static bool told;
	const char *path = c->at.ca_file != NULL ? c->at.ca_file : c->at.ca_path;

	if (c->at.connect_to != NULL)
		c->connect_to = ctl_must(curl_slist_append(NULL, c->at.connect_to));
	if (c->at.unverified && !told)
		fprintf(stderr, "clusterctl: %s is false: whoever answers is believed to be the server, and sees the "
		    "token\n", c->at.unverified_from);
	told = true;
	buf_init(&c->ca, CA_BYTES_MAX);
	if (path == NULL || c->at.unverified)
		return true;
	if (!(c->at.ca_file != NULL ? read_file(c, AT_FDCWD, path, path) : read_folder(c, path)))
		return false;
	return c->ca.len > 0 || complain(c, path, "has no certificate in PEM form (" PEM_BEGIN ")");
}

static void
set_trust(struct client *c)
{
	struct curl_blob ca = { .data = c->ca.data, .len = c->ca.len, .flags = CURL_BLOB_NOCOPY };

	if (c->at.unverified) {
		curl_easy_setopt(c->curl, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(c->curl, CURLOPT_SSL_VERIFYHOST, 0L);
	} else if (c->ca.len > 0) {
		curl_easy_setopt(c->curl, CURLOPT_CAINFO_BLOB, &ca);
		curl_easy_setopt(c->curl, CURLOPT_CAINFO, NULL);
		curl_easy_setopt(c->curl, CURLOPT_CAPATH, NULL);
	}
}

void
client_tls_prepare(struct client *c)
{
	curl_easy_setopt(c->curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	/* One request after the other: HTTP/2 would bring nothing. */
	curl_easy_setopt(c->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	if (c->connect_to != NULL)
		curl_easy_setopt(c->curl, CURLOPT_CONNECT_TO, c->connect_to);
	if (c->at.client_cert != NULL) {
		curl_easy_setopt(c->curl, CURLOPT_SSLCERT, c->at.client_cert);
		curl_easy_setopt(c->curl, CURLOPT_SSLKEY, c->at.client_key);
	}
	set_trust(c);
}

static const char *
remedy_of_chain(const struct client *c, const char *error)
{
	long result = 0;

	(void)curl_easy_getinfo(c->curl, CURLINFO_SSL_VERIFYRESULT, &result);
	if (strstr(error, "subject name") != NULL || strstr(error, "SSL: certificate subject") != NULL)
		return "The certificate is for other names. --tls-server-name or CONSUL_TLS_SERVER_NAME says for which "
		    "it should be, as server.dc1.consul.";
	if (result == CHAIN_EXPIRED)
		return "It is over: make a new one, as by `clusterctl tls cert create --server`, and put it in the "
		    "place of the server's cert_file and key_file, which rpcd notices.";
	if (result == CHAIN_NOT_YET)
		return "It begins later: compare the clock of this machine with that of who made it.";
	if (c->ca.len > 0)
		return "The server's certificate is of another CA than that of --ca-file, --ca-path, CONSUL_CACERT or "
		    "CONSUL_CAPATH.";
	return "The server's certificate is of a CA that this machine does not know: name its file with --ca-file or "
	    "CONSUL_CACERT.";
}

/* What the server, or what is in its place, let the connection end with. */
static const char *
remedy_of_end(const struct client *c, const char *error)
{
	if (strstr(error, "wrong version number") != NULL || strstr(error, "http request") != NULL ||
	    strstr(error, "packet length too long") != NULL)
		return "TLS is not what is spoken at that port: HTTPS has one of its own, https_port in rpcd.conf.";
	if (strstr(error, "protocol version") != NULL)
		return "The server wants a newer version of TLS.";
	if (c->at.client_cert == NULL)
		return "If it wants a client certificate (verify_incoming in rpcd.conf): give one with --client-cert "
		    "and --client-key, or CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY; `clusterctl tls cert create "
		    "--cli` makes one.";
	return "Is the client certificate of the CA that the server's ca_file has, and still valid?";
}

const char *
client_tls_remedy(const struct client *c, CURLcode rc, const char *error)
{
	if (c->foreign)
		return NULL;
	if (!c->at.tls)
		return c->at.unix_path == NULL && (rc == CURLE_GOT_NOTHING || rc == CURLE_RECV_ERROR ||
		    rc == CURLE_WEIRD_SERVER_REPLY || strstr(error, "HTTP/0.9") != NULL) ?
		    "If that is the port of HTTPS: write https:// before the address." : NULL;
	switch (rc) {
	case CURLE_PEER_FAILED_VERIFICATION:
		return remedy_of_chain(c, error);
	case CURLE_SSL_CERTPROBLEM:
		return "--client-cert and --client-key, or CONSUL_CLIENT_CERT and CONSUL_CLIENT_KEY, have to be a "
		    "certificate and its own key, in PEM form, which you may read.";
	case CURLE_SSL_CACERT_BADFILE:
		return "--ca-file, --ca-path, CONSUL_CACERT or CONSUL_CAPATH have to be certificates in PEM form.";
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
		return remedy_of_end(c, error);
	default:
		return NULL;
	}
}
