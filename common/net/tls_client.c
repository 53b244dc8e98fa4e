/* Contexts of connections that we make, see tls_client.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/net/tls_client.h"

/* Where libcurl of Debian looks, too: the folder is read by name, when a chain ends with an authority of it. */
#define SYSTEM_FILE "/etc/ssl/certs/ca-certificates.crt"
#define SYSTEM_FOLDER "/etc/ssl/certs"

struct tls_client {
	SSL_CTX *ctx;
	X509_STORE *trust;
	unsigned users;
};

/* Where a sentence goes. */
struct why {
	char *text;
	size_t cap;
};

static bool
is_given(const char *path)
{
	return path != NULL && path[0] != '\0';
}

/* Says it of a file; false, with errno. */
static bool
refuse_file(const struct why *why, const char *path, int error, const char *what)
{
	(void)tv_fail(why->text, why->cap, TV_ESYS, "%s: %s", path, error != 0 ? strerror(error) : what);
	errno = error;
	return false;
}

static bool
read_pem(const char *path, struct buf *out, const struct why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error = fd < 0 ? errno : 0;
	enum tv_err err = TV_OK;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
		error = EINVAL;
	if (fd >= 0 && error == 0 && (err = file_read_fd(fd, out)) != TV_OK)
		error = err == TV_ENOMEM ? ENOMEM : err == TV_ELIMIT ? EFBIG : errno;
	if (fd >= 0)
		close(fd);
	return error == 0 || refuse_file(why, path, error, "");
}

/* No one is there to be asked for it. */
static int
no_password(char *dst UNUSED, int cap UNUSED, int writing UNUSED, void *ctx UNUSED)
{
	return -1;
}

/* -- authorities -- */

static bool
read_authorities(X509_STORE *store, const char *path, const struct why *why)
{
	struct buf pem = BUF_INIT(TLS_FILE_BYTES_MAX);
	unsigned count = 0;
	X509 *one = NULL;
	bool ok = read_pem(path, &pem, why);
	BIO *in = ok ? BIO_new_mem_buf(pem.len > 0 ? (const void *)pem.data : "", (int)pem.len) : NULL;

	while (in != NULL && (one = PEM_read_bio_X509(in, NULL, no_password, NULL)) != NULL) {
		ok = X509_STORE_add_cert(store, one) == 1 && ok;
		X509_free(one);
		count++;
	}
	if (ok && in == NULL)
		ok = refuse_file(why, path, ENOMEM, "");
	else if (ok && (count == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
		ok = refuse_file(why, path, 0, count == 0 ? "there is no certificate in it" :
		    "one of its certificates is none");
	BIO_free(in);
	buf_done(&pem);
	ERR_clear_error();
	return ok;
}

/* Hidden ones are those of an editor, or "..data" of kubernetes. */
static bool
is_file_of(const char *folder, const char *name, char path[PATH_MAX])
{
	struct stat st;

	return name[0] != '.' && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && stat(path, &st) == 0 &&
	    S_ISREG(st.st_mode);
}

static bool
read_folder(X509_STORE *store, const char *folder, const struct why *why)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, NULL, alphasort), files = 0;
	bool ok = n >= 0 || refuse_file(why, folder, errno, "");
	char path[PATH_MAX];

	for (int i = 0; i < n; i++) {
		if (ok && is_file_of(folder, names[i]->d_name, path))
			ok = ++files <= TLS_FOLDER_FILES_MAX ? read_authorities(store, path, why) :
			    refuse_file(why, folder, 0, "there are too many files in it");
		free(names[i]);
	}
	free(names);
	return ok && (files > 0 || refuse_file(why, folder, 0, "there is no file with a certificate in it"));
}

static X509_STORE *
read_trust(const struct tls_client_conf *conf, const struct why *why)
{
	X509_STORE *store = X509_STORE_new();
	bool given = is_given(conf->ca_file) || is_given(conf->ca_folder), ok = store != NULL;

	/* An authority between others, or a server's own certificate, may be one that is trusted. */
	ok = ok && X509_STORE_set_flags(store, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN) == 1;
	if (!ok) {
		(void)refuse_file(why, "certificates", ENOMEM, "");
	} else if (!given) {
		(void)X509_STORE_load_file(store, SYSTEM_FILE);
		(void)X509_STORE_load_path(store, SYSTEM_FOLDER);
	} else {
		if (is_given(conf->ca_file))
			ok = read_authorities(store, conf->ca_file, why);
		if (ok && is_given(conf->ca_folder))
			ok = read_folder(store, conf->ca_folder, why);
	}
	ERR_clear_error();
	if (ok)
		return store;
	X509_STORE_free(store);
	return NULL;
}

/* -- our own certificate -- */

static bool
use_chain(SSL_CTX *ctx, const char *path, const struct why *why)
{
	struct buf pem = BUF_INIT(TLS_FILE_BYTES_MAX);
	bool ok = read_pem(path, &pem, why);
	BIO *in = ok ? BIO_new_mem_buf(pem.len > 0 ? (const void *)pem.data : "", (int)pem.len) : NULL;
	X509 *one = in == NULL ? NULL : PEM_read_bio_X509_AUX(in, NULL, no_password, NULL);

	if (ok && one == NULL)
		ok = refuse_file(why, path, 0, "there is no certificate in it");
	else if (ok && SSL_CTX_use_certificate(ctx, one) != 1)
		ok = refuse_file(why, path, 0, "its certificate cannot be used");
	X509_free(one);
	while (ok && (one = PEM_read_bio_X509(in, NULL, no_password, NULL)) != NULL)
		if (SSL_CTX_add0_chain_cert(ctx, one) != 1) {
			X509_free(one);
			ok = refuse_file(why, path, 0, "one of its certificates cannot be used");
		}
	BIO_free(in);
	buf_done(&pem);
	ERR_clear_error();
	return ok;
}

static bool
use_key(SSL_CTX *ctx, const char *path, const struct why *why)
{
	struct buf pem = BUF_INIT(TLS_FILE_BYTES_MAX);

	pem.secret = true;
	bool ok = read_pem(path, &pem, why);
	BIO *in = ok ? BIO_new_mem_buf(pem.len > 0 ? (const void *)pem.data : "", (int)pem.len) : NULL;
	EVP_PKEY *key = in == NULL ? NULL : PEM_read_bio_PrivateKey(in, NULL, no_password, NULL);

	if (ok && key == NULL)
		ok = refuse_file(why, path, 0, "there is no private key in it, or one with a password");
	else if (ok && (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1))
		ok = refuse_file(why, path, 0, "the key is not that of the certificate");
	EVP_PKEY_free(key);
	BIO_free(in);
	buf_done(&pem);
	ERR_clear_error();
	return ok;
}

static bool
use_certificate(SSL_CTX *ctx, const struct tls_client_conf *conf, const struct why *why)
{
	if (!is_given(conf->cert_file) && !is_given(conf->key_file))
		return true;
	if (!is_given(conf->cert_file) || !is_given(conf->key_file))
		return refuse_file(why, is_given(conf->cert_file) ? conf->cert_file : conf->key_file, 0,
		    "a certificate and its key are given together");
	return use_chain(ctx, conf->cert_file, why) && use_key(ctx, conf->key_file, why);
}

/* -- contexts -- */

struct tls_client *
tls_client_new(const struct tls_client_conf *conf, char *errbuf, size_t cap)
{
	const struct why why = { errbuf, cap };
	struct tls_client *c = calloc(1, sizeof(*c));

	if (c != NULL)
		c->users = 1;
	if (c == NULL || (c->ctx = SSL_CTX_new(TLS_client_method())) == NULL || !tls_context_prepare(c->ctx)) {
		(void)refuse_file(&why, "TLS", ENOMEM, "");
	} else if ((c->trust = read_trust(conf, &why)) != NULL && use_certificate(c->ctx, conf, &why)) {
		SSL_CTX_set1_cert_store(c->ctx, c->trust);
		SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
		return c;
	}
	int error = errno;
	tls_client_leave(c);
	errno = error;
	return NULL;
}

struct tls_client *
tls_client_join(struct tls_client *c)
{
	c->users++;
	return c;
}

void
tls_client_leave(struct tls_client *c)
{
	if (c == NULL || --c->users > 0)
		return;
	SSL_CTX_free(c->ctx);
	X509_STORE_free(c->trust);
	free(c);
}

int64_t
tls_client_not_after(const struct tls_client *c)
{
	const X509 *own = SSL_CTX_get0_certificate(c->ctx);
	struct tm tm;

	if (own == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(own), &tm) != 1)
		return 0;
	return timegm(&tm);
}

bool
tls_client_lend(const struct tls_client *c, SSL_CTX *ctx)
{
	X509 *own = SSL_CTX_get0_certificate(c->ctx);
	EVP_PKEY *key = SSL_CTX_get0_privatekey(c->ctx);
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_set1_cert_store(ctx, c->trust);
	SSL_CTX_set_max_cert_list(ctx, TLS_HANDSHAKE_BYTES_MAX);
	SSL_CTX_get0_chain_certs(c->ctx, &chain);
	return own == NULL || (SSL_CTX_use_certificate(ctx, own) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
	    SSL_CTX_set1_chain(ctx, chain) == 1);
}

/* -- sessions -- */

static bool
set_protocol(SSL *s, const char *protocol)
{
	uint8_t list[256];
	size_t n = strlen(protocol);

	if (n == 0 || n >= sizeof(list))
		return false;
	list[0] = (uint8_t)n;
	memcpy(list + 1, protocol, n);
	return SSL_set_alpn_protos(s, list, (unsigned)n + 1) == 0;	/* 0 is success, here alone */
}

static bool
expect_name(SSL *s, const char *name)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(s);

	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	if (addr_parse(name, 0, NULL))
		return X509_VERIFY_PARAM_set1_ip_asc(p, name) == 1;
	return X509_VERIFY_PARAM_set1_host(p, name, 0) == 1 && SSL_set_tlsext_host_name(s, name) == 1;
}

SSL *
tls_client_open(struct tls_client *c, int fd, const struct tls_peer *peer)
{
	size_t n = strlen(peer->name);
	SSL *s = n == 0 || n >= TLS_NAME_BYTES ? NULL : SSL_new(c->ctx);

	if (s == NULL || !expect_name(s, peer->name) || !tls_session_set_socket(s, fd) ||
	    (peer->protocol != NULL && !set_protocol(s, peer->protocol))) {
		ERR_clear_error();
		SSL_free(s);
		return NULL;
	}
	SSL_set_verify(s, peer->skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, tls_session_note_names);
	SSL_set_connect_state(s);
	return s;
}
