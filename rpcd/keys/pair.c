/* A certificate and its key, see pair.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "common/base/dirs.h"
#include "common/base/file.h"
#include "common/base/fnv.h"
#include "rpcd/keys/pair.h"

#define SECURE_BYTES (256u << 10)
#define SECURE_LEAST 32
/* Texts of errors, and tables of names for interfaces that are not used: 50 KB. */
#define LESS_MEMORY (OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS | OPENSSL_INIT_NO_ADD_ALL_CIPHERS | \
	OPENSSL_INIT_NO_ADD_ALL_DIGESTS)
#define KEY_FILE_BYTES_MAX (64u << 10)
#define CHAIN_MAX 16			/* certificates */
#define CA_FILES_MAX 1024
#define RSA_BITS_LEAST 2048
#define RSA_BITS_MOST 8192
#define STRENGTH_LEAST 112		/* bits: what rpcd's contexts of TLS take (SECURITY_LEVEL 2) */
#define PATH_BYTES 4096

bool
pair_begin(void)
{
	/* Of signatures in certificates, by name: is_too_weak(). */
	const EVP_MD *const digests[] = { EVP_sha224(), EVP_sha256(), EVP_sha384(), EVP_sha512() };
	uint8_t random[16];

	/* An openssl.cnf could name modules and engines that are code of others, in the process that holds the keys. */
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | LESS_MEMORY, NULL) != 1)
		return false;
	for (size_t i = 0; i < sizeof(digests) / sizeof(digests[0]); i++)
		if (EVP_add_digest(digests[i]) != 1)
			return false;
	(void)CRYPTO_secure_malloc_init(SECURE_BYTES, SECURE_LEAST);	/* without it memory is wiped only */
	return RAND_bytes(random, sizeof(random)) == 1;		/* starts the default provider, too */
}

/* -- files -- */

/* Which folder on the way to it cannot be entered?  "": none, the file, or what is behind a link, is closed to us. */
static const char *
closed_folder(const char *path, char dst[PATH_BYTES])
{
	size_t before = 0;
	struct stat st;

	for (const char *p = path; *p != '\0';) {
		const char *end = p + 1 + strcspn(p + 1, "/");

		snprintf(dst, PATH_BYTES, "%.*s", (int)(end - path), path);
		if (lstat(dst, &st) != 0 && errno == EACCES) {
			dst[before > 0 ? before : 1] = '\0';
			return dst;
		}
		before = (size_t)(end - path);
		p = end;
	}
	return "";
}

/* Where a link leads, seen from its folder.  False: it is none. */
static bool
read_link(const char *path, char dst[PATH_BYTES])
{
	char target[PATH_BYTES];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	const char *slash = strrchr(path, '/');

	if (n <= 0 || slash == NULL)
		return false;
	target[n] = '\0';
	n = target[0] == '/' ? 0 : slash + 1 - path;
	return snprintf(dst, PATH_BYTES, "%.*s%s", (int)n, path, target) < PATH_BYTES;
}

/* A remedy is named for keys alone: what is taken for a certificate may be a file that others are not to read. */
static enum tv_err
fail_to_open(const char *path, bool is_key, char *why, size_t cap)
{
	char target[PATH_BYTES], folder[PATH_BYTES];

	if (errno != EACCES)
		return tv_fail(why, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	const char *closed = closed_folder(path, folder);
	if (closed[0] == '\0' && read_link(path, target))
		closed = closed_folder(target, folder);
	if (!is_key)
		return tv_fail(why, cap, TV_EPERM, "%s: the user of \"rpcd: keys\" may not %s%s: certificates are "
		    "to be where everybody can read them", path, closed[0] != '\0' ? "enter the folder " : "read it",
		    closed);
	if (closed[0] != '\0')
		return tv_fail(why, cap, TV_EPERM, "%s: the user of \"rpcd: keys\" may not enter the folder %s: chgrp "
		    "_keys %s; chmod g+x %s", path, closed, closed, closed);
	return tv_fail(why, cap, TV_EPERM, "%s: the user of \"rpcd: keys\" may not read it: chgrp _keys %s; chmod "
	    "640 %s", path, path, path);
}

/* The file, whole, and what it is by fstat(2); *fd is the caller's. */
static enum tv_err
open_file(const char *path, bool is_key, size_t most, int *fd, struct stat *st, char *why, size_t cap)
{
	if ((*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0)
		return fail_to_open(path, is_key, why, cap);
	if (fstat(*fd, st) != 0)
		return tv_fail(why, cap, TV_ESYS, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return tv_fail(why, cap, TV_EINVAL, "%s: is not a regular file", path);
	if (st->st_size == 0 || (uintmax_t)st->st_size > most)
		return tv_fail(why, cap, TV_EINVAL, "%s: %s", path, st->st_size == 0 ? "is empty" : "is too large");
	return TV_OK;
}

/* A key that others can read is theirs, too, and one that they can write is of their choice. */
static enum tv_err
check_owner(const char *path, const struct stat *st, char *why, size_t cap)
{
	char parent[PATH_BYTES];

	if (st->st_uid != 0 && st->st_uid != geteuid())
		return tv_fail(why, cap, TV_EPERM, "%s: belongs to uid %u: chown root:_keys %s; chmod 640 %s", path,
		    (unsigned)st->st_uid, path, path);
	if ((st->st_mode & (S_IRWXO | S_IWGRP | S_IXGRP)) != 0)
		return tv_fail(why, cap, TV_EPERM, "%s: others can read or write the key (mode %04o): chown root:_keys "
		    "%s; chmod 640 %s", path, (unsigned)(st->st_mode & 07777), path, path);
	/* Root's group: then a list of rights (ACL) names our user, and the group's bits are its mask. */
	if ((st->st_mode & S_IRGRP) != 0 && st->st_gid != getegid() && st->st_gid != 0)
		return tv_fail(why, cap, TV_EPERM, "%s: the group with gid %u can read the key: chgrp _keys %s", path,
		    (unsigned)st->st_gid, path);
	if (dirs_parent_open(path, parent, sizeof(parent)))
		return tv_fail(why, cap, TV_EPERM, "%s: its folder is writable by everybody: chmod o-w %s", path,
		    parent);
	return TV_OK;
}

static bool
read_exactly(int fd, uint8_t *to, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t now = read(fd, to + got, n - got);

		if (now < 0 && errno == EINTR)
			continue;
		if (now <= 0)
			return false;
		got += (size_t)now;
	}
	return true;
}

/* -- the key -- */

static int
refuse_password(char *buf UNUSED, int size UNUSED, int writing UNUSED, void *ctx UNUSED)
{
	return -1;
}

static enum tv_err
check_kind(const char *path, const EVP_PKEY *key, char *why, size_t cap)
{
	static const char *const curves[] = { "prime256v1", "P-256", "secp384r1", "P-384", "secp521r1", "P-521" };
	int bits = EVP_PKEY_get_bits(key);
	char curve[64] = "";
	size_t n;

	if (EVP_PKEY_is_a(key, "ED25519"))
		return TV_OK;
	if (EVP_PKEY_is_a(key, "RSA")) {
		if (bits >= RSA_BITS_LEAST && bits <= RSA_BITS_MOST)
			return TV_OK;
		return tv_fail(why, cap, TV_EINVAL, "%s: an RSA key with %d bits: %d to %d are used", path, bits,
		    RSA_BITS_LEAST, RSA_BITS_MOST);
	}
	if (EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, curve, sizeof(curve), &n) == 1)
		for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++)
			if (strcmp(curve, curves[i]) == 0)
				return TV_OK;
	return tv_fail(why, cap, TV_EINVAL, "%s: a key of a kind that is not used (%s): EC with P-256, P-384 or P-521, "
	    "RSA with %d bits or more, or Ed25519", path, curve[0] != '\0' ? curve : EVP_PKEY_get0_type_name(key),
	    RSA_BITS_LEAST);
}

static enum tv_err
parse_key(const char *path, const uint8_t *text, int len, EVP_PKEY **out, char *why, size_t cap)
{
	static const char mark[] = "ENCRYPTED";		/* in all ways of PEM to say so */
	BIO *bio = BIO_new_mem_buf(text, len);

	if (bio == NULL)
		return tv_fail(why, cap, TV_ENOMEM, "%s: %s", path, tv_strerror(TV_ENOMEM));
	*out = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, NULL);
	BIO_free(bio);
	ERR_clear_error();
	if (*out != NULL)
		return check_kind(path, *out, why, cap);
	if (memmem(text, (size_t)len, mark, sizeof(mark) - 1) != NULL)
		return tv_fail(why, cap, TV_EINVAL, "%s: the key is encrypted, and nobody is here to give the "
		    "password: openssl pkey -in %s -out FILE writes it without", path, path);
	return tv_fail(why, cap, TV_EINVAL, "%s: holds no private key in PEM (-----BEGIN PRIVATE KEY-----)", path);
}

static enum tv_err
load_key(const char *path, EVP_PKEY **out, char *why, size_t cap)
{
	struct stat st;
	uint8_t *text = NULL;
	int fd;
	enum tv_err err = open_file(path, true, KEY_FILE_BYTES_MAX, &fd, &st, why, cap);

	if (err == TV_OK)
		err = check_owner(path, &st, why, cap);
	if (err == TV_OK && (text = OPENSSL_secure_malloc((size_t)st.st_size)) == NULL)
		err = tv_fail(why, cap, TV_ENOMEM, "%s: %s", path, tv_strerror(TV_ENOMEM));
	if (err == TV_OK && !read_exactly(fd, text, (size_t)st.st_size))
		err = tv_fail(why, cap, TV_EINVAL, "%s: became another one while it was read", path);
	if (err == TV_OK)
		err = parse_key(path, text, (int)st.st_size, out, why, cap);
	if (text != NULL)
		OPENSSL_secure_clear_free(text, (size_t)st.st_size);
	if (fd >= 0)
		close(fd);
	return err;
}

/* -- certificates -- */

static int64_t
seconds_of(const ASN1_TIME *t)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1)
		return 0;
	int64_t s = timegm(&tm);
	return s < 0 ? 0 : s;
}

/* OpenSSL would refuse it in rpcd, when the key before is wiped soon. */
static bool
is_too_weak(X509 *x, bool first)
{
	const EVP_PKEY *key = X509_get0_pubkey(x);
	int bits = 0;

	/* That of the first is ours, of which check_kind() has more to say. */
	if (!first && (key == NULL || EVP_PKEY_get_security_bits(key) < STRENGTH_LEAST))
		return true;
	if ((X509_get_extension_flags(x) & EXFLAG_SS) != 0)
		return false;
	return X509_get_signature_info(x, NULL, NULL, &bits, NULL) != 1 || bits < STRENGTH_LEAST;
}

/* What is to be done with each certificate of a file. */
struct reading {
	const char *path;
	struct buf *out;		/* PEM */
	unsigned count, most;
	X509 *first;			/* NULL: it is not wanted */
	bool want_first;
	int64_t not_after;		/* the earliest; 0: none yet */
};

static bool
put_pem(const X509 *x, struct buf *out)
{
	BIO *bio = BIO_new(BIO_s_mem());
	const uint8_t *text;
	char *at;
	long n;

	if (bio == NULL || PEM_write_bio_X509(bio, x) != 1 || (n = BIO_get_mem_data(bio, &at)) <= 0) {
		BIO_free(bio);
		return false;
	}
	text = (const uint8_t *)at;
	buf_put(out, text, (size_t)n);
	BIO_free(bio);
	return !out->failed;
}

static enum tv_err
take_certificate(struct reading *r, X509 *x, char *why, size_t cap)
{
	int64_t end = seconds_of(X509_get0_notAfter(x));
	bool put = put_pem(x, r->out), weak = r->want_first && is_too_weak(x, r->count == 0);

	if (r->not_after == 0 || end < r->not_after)
		r->not_after = end;
	if (r->want_first && r->first == NULL)
		r->first = x;
	else
		X509_free(x);
	if (++r->count > r->most || !put)
		return tv_fail(why, cap, TV_EINVAL, "%s: holds too many certificates", r->path);
	if (weak)
		return tv_fail(why, cap, TV_EINVAL, "%s: its certificate %u is too weak (SHA-1, or a short key)",
		    r->path, r->count);
	return TV_OK;
}

static enum tv_err
parse_certificates(struct reading *r, struct span text, char *why, size_t cap)
{
	BIO *bio = BIO_new_mem_buf(text.p, (int)text.len);
	unsigned before = r->count;
	enum tv_err err = TV_OK;
	X509 *x;

	while (bio != NULL && err == TV_OK && (x = PEM_read_bio_X509(bio, NULL, refuse_password, NULL)) != NULL)
		err = take_certificate(r, x, why, cap);
	if (bio == NULL)
		err = tv_fail(why, cap, TV_ENOMEM, "%s: %s", r->path, tv_strerror(TV_ENOMEM));
	else if (err == TV_OK && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		err = tv_fail(why, cap, TV_EINVAL, "%s: its certificate %u cannot be read", r->path,
		    r->count - before + 1);
	else if (err == TV_OK && r->count == before)
		err = tv_fail(why, cap, TV_EINVAL, "%s: holds no certificate in PEM (-----BEGIN CERTIFICATE-----)",
		    r->path);
	BIO_free(bio);
	ERR_clear_error();
	return err;
}

/* A key may be in there, too: the text is wiped. */
static enum tv_err
load_certificates(struct reading *r, size_t most, char *why, size_t cap)
{
	struct buf text = BUF_INIT(most + 4096);
	struct stat st;
	int fd;
	enum tv_err err = open_file(r->path, false, most, &fd, &st, why, cap);

	text.secret = true;
	if (err == TV_OK && (err = file_read_fd(fd, &text)) != TV_OK)
		err = tv_fail(why, cap, err, "%s: %s", r->path, err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	if (err == TV_OK)
		err = parse_certificates(r, buf_span(&text), why, cap);
	buf_done(&text);
	if (fd >= 0)
		close(fd);
	return err;
}

/* -- a folder of authorities -- */

/* The names in order, so that they make the same text each time; the caller frees. */
static int
list_folder(const char *path, struct dirent ***names)
{
	int n = scandir(path, names, NULL, alphasort);

	return n;
}

static void
free_names(struct dirent **names, int n)
{
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* Hidden ones are those of an editor, or "..data" of kubernetes. */
static bool
is_file_name(const char *folder, const char *name, char dst[PATH_BYTES])
{
	struct stat st;

	return name[0] != '.' && snprintf(dst, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES &&
	    stat(dst, &st) == 0 && S_ISREG(st.st_mode);
}

static enum tv_err
load_folder(struct reading *r, const char *folder, char *why, size_t cap)
{
	struct dirent **names = NULL;
	int n = list_folder(folder, &names);
	enum tv_err err = TV_OK;
	char path[PATH_BYTES];
	unsigned files = 0;

	if (n < 0)
		return fail_to_open(folder, false, why, cap);
	for (int i = 0; i < n && err == TV_OK; i++) {
		if (!is_file_name(folder, names[i]->d_name, path))
			continue;
		r->path = path;
		err = ++files > CA_FILES_MAX ?
		    tv_fail(why, cap, TV_EINVAL, "%s: more than %d files", folder, CA_FILES_MAX) :
		    load_certificates(r, KEYS_CA_BYTES_MAX, why, cap);
	}
	free_names(names, n);
	if (err == TV_OK && files == 0)
		err = tv_fail(why, cap, TV_EINVAL, "%s: holds no file with a certificate", folder);
	return err;
}

static enum tv_err
load_ca(const struct pair_paths *paths, struct pair *out, char *why, size_t cap)
{
	struct reading r = { .path = paths->ca_file, .out = &out->ca, .most = UINT32_MAX - 1 };
	enum tv_err err = TV_OK;

	if (paths->ca_file != NULL)
		err = load_certificates(&r, KEYS_CA_BYTES_MAX, why, cap);
	else if (paths->ca_path != NULL)
		err = load_folder(&r, paths->ca_path, why, cap);
	out->ca_not_after = r.not_after;
	return err;
}

/* -- together -- */

static bool
take_number(struct pair *p)
{
	unsigned char *der = NULL;
	uint8_t digest[EVP_MAX_MD_SIZE];
	int n = i2d_PUBKEY(p->key, &der);
	bool done = n > 0 && EVP_Digest(der, (size_t)n, digest, NULL, EVP_sha256(), NULL) == 1;

	OPENSSL_free(der);
	if (done)
		memcpy(&p->number, digest, sizeof(p->number));
	if (p->number == 0)
		p->number = 1;
	return done;
}

static void
take_subject(const X509 *x, struct pair *p)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *at = NULL;
	long n = 0;

	if (bio != NULL && X509_NAME_print_ex(bio, X509_get_subject_name(x), 0, XN_FLAG_ONELINE) >= 0)
		n = BIO_get_mem_data(bio, &at);
	snprintf(p->subject, sizeof(p->subject), "%.*s", (int)(n > 0 ? n : 0), at != NULL ? at : "");
	BIO_free(bio);
}

static enum tv_err
load_pair(const struct pair_paths *paths, struct pair *out, X509 **first, char *why, size_t cap)
{
	struct reading r = { .path = paths->cert, .out = &out->chain, .most = CHAIN_MAX, .want_first = true };
	enum tv_err err = load_certificates(&r, KEYS_CHAIN_BYTES_MAX, why, cap);

	*first = r.first;
	if (err == TV_OK)
		err = load_key(paths->key, &out->key, why, cap);
	if (err == TV_OK)
		err = load_ca(paths, out, why, cap);
	if (err != TV_OK)
		return err;
	if (X509_check_private_key(*first, out->key) != 1) {
		ERR_clear_error();
		return tv_fail(why, cap, TV_EINVAL, "%s: its key is not that of the first certificate in %s",
		    paths->key, paths->cert);
	}
	out->not_before = seconds_of(X509_get0_notBefore(*first));
	out->not_after = seconds_of(X509_get0_notAfter(*first));
	take_subject(*first, out);
	if (take_number(out))
		return TV_OK;
	return tv_fail(why, cap, TV_ENOMEM, "%s: %s", paths->key, tv_strerror(TV_ENOMEM));
}

enum tv_err
pair_load(const struct pair_paths *paths, struct pair *out, char *why, size_t cap)
{
	X509 *first = NULL;

	*out = (struct pair){ .chain = BUF_INIT(KEYS_CHAIN_BYTES_MAX), .ca = BUF_INIT(KEYS_CA_BYTES_MAX) };
	enum tv_err err = load_pair(paths, out, &first, why, cap);
	X509_free(first);
	if (err != TV_OK)
		pair_done(out);
	return err;
}

void
pair_done(struct pair *p)
{
	EVP_PKEY_free(p->key);		/* wipes */
	buf_done(&p->chain);
	buf_done(&p->ca);
	*p = (struct pair){ .key = NULL };
}

bool
pair_same(const struct pair *a, const struct pair *b)
{
	return a->key != NULL && b->key != NULL && a->number == b->number &&
	    span_eq(buf_span(&a->chain), buf_span(&b->chain)) && span_eq(buf_span(&a->ca), buf_span(&b->ca));
}

/* -- have they changed? -- */

static uint64_t
mark_of(uint64_t mark, const char *path)
{
	struct stat st;
	struct {
		uint64_t device, number, size, mode, user, group;
		int64_t written, written_ns, changed, changed_ns;
	} m = { .device = 0 };

	if (path == NULL)
		return mark;
	if (stat(path, &st) != 0) {
		m.mode = (uint64_t)errno;
	} else {
		m.device = st.st_dev;
		m.number = st.st_ino;
		m.size = (uint64_t)st.st_size;
		m.mode = st.st_mode;
		m.user = st.st_uid;
		m.group = st.st_gid;
		m.written = st.st_mtim.tv_sec;
		m.written_ns = st.st_mtim.tv_nsec;
		m.changed = st.st_ctim.tv_sec;
		m.changed_ns = st.st_ctim.tv_nsec;
	}
	return fnv1a(mark, span_of((const uint8_t *)&m, sizeof(m)));
}

static uint64_t
mark_of_folder(uint64_t mark, const char *folder)
{
	struct dirent **names = NULL;
	int n = list_folder(folder, &names);
	char path[PATH_BYTES];

	for (int i = 0; i < n && i < CA_FILES_MAX; i++)
		if (is_file_name(folder, names[i]->d_name, path))
			mark = mark_of(fnv1a(mark, span_str(path)), path);
	free_names(names, n);
	return mark;
}

uint64_t
pair_marks(const struct pair_paths *paths)
{
	uint64_t mark = mark_of(mark_of(mark_of(FNV1A_START, paths->cert), paths->key), paths->ca_file);

	return paths->ca_path == NULL ? mark : mark_of_folder(mark_of(mark, paths->ca_path), paths->ca_path);
}

/* -- signatures -- */

static const struct {
	const char *kind, *digest;
	int padding;
} algs[KEYS_ALGS] = {
	[KEYS_ECDSA_SHA256] = { "EC", "SHA256", 0 },
	[KEYS_ECDSA_SHA384] = { "EC", "SHA384", 0 },
	[KEYS_ECDSA_SHA512] = { "EC", "SHA512", 0 },
	[KEYS_RSA_PKCS1_SHA256] = { "RSA", "SHA256", RSA_PKCS1_PADDING },
	[KEYS_RSA_PKCS1_SHA384] = { "RSA", "SHA384", RSA_PKCS1_PADDING },
	[KEYS_RSA_PKCS1_SHA512] = { "RSA", "SHA512", RSA_PKCS1_PADDING },
	[KEYS_RSA_PSS_SHA256] = { "RSA", "SHA256", RSA_PKCS1_PSS_PADDING },
	[KEYS_RSA_PSS_SHA384] = { "RSA", "SHA384", RSA_PKCS1_PSS_PADDING },
	[KEYS_RSA_PSS_SHA512] = { "RSA", "SHA512", RSA_PKCS1_PSS_PADDING },
	[KEYS_ED25519] = { "ED25519", NULL, 0 },
};

static bool
sign_with(EVP_MD_CTX *md, const struct pair *p, unsigned alg, struct span what, uint8_t *sig, size_t *len)
{
	EVP_PKEY_CTX *ctx;		/* of md */

	if (EVP_DigestSignInit_ex(md, &ctx, algs[alg].digest, NULL, NULL, p->key, NULL) != 1 ||
	    (algs[alg].padding != 0 && EVP_PKEY_CTX_set_rsa_padding(ctx, algs[alg].padding) != 1) ||
	    (algs[alg].padding == RSA_PKCS1_PSS_PADDING &&
	    EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) != 1))
		return false;
	return EVP_DigestSign(md, sig, len, what.p, what.len) == 1;
}

enum tv_err
pair_sign(const struct pair *p, uint64_t alg, struct span what, uint8_t *sig, size_t *len)
{
	if (alg >= KEYS_ALGS || !pair_may_sign(what) || !EVP_PKEY_is_a(p->key, algs[alg].kind))
		return TV_EINVAL;
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	if (md == NULL)
		return TV_ENOMEM;
	bool done = sign_with(md, p, (unsigned)alg, what, sig, len);
	EVP_MD_CTX_free(md);
	ERR_clear_error();
	return done ? TV_OK : TV_EINVAL;
}
