/* Reading and writing archives, see archive.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>
#include <zlib.h>

#include "common/base/buf.h"
#include "raftd/fsm/copy/archive.h"

#define TAR_BLOCK ARCHIVE_TAR_BLOCK
#define NAME_SHOWN 60
#define SUMS_BYTES_MAX 4096
#define GZIP_WINDOW (15 + 16)		/* zlib: gzip only */
#define SUM_HEX (2 * crypto_hash_sha256_BYTES)
#define BLOCKS_AFTER_MAX 64		/* empty ones behind the last member; tar fills up to 20 */

enum member { MEMBER_META, MEMBER_STATE, MEMBER_SUMS, MEMBER_COUNT };

static const char *const names[MEMBER_COUNT] = { "meta.json", "state.bin", "SHA256SUMS" };

/* -- tar headers (POSIX ustar) -- */

static void
put_octal(uint8_t *p, size_t n, uint64_t v)
{
	p[--n] = '\0';
	while (n > 0) {
		p[--n] = (uint8_t)('0' + (v & 7));
		v >>= 3;
	}
}

/* Sizes of 8 GiB and more: GNU's form, first bit set, big endian. */
static void
put_size(uint8_t p[12], uint64_t v)
{
	if (v < 1ull << 33) {
		put_octal(p, 12, v);
		return;
	}
	p[0] = 0x80;
	for (int i = 11; i > 0; i--, v >>= 8)
		p[i] = i > 3 ? (uint8_t)v : 0;
}

static unsigned
head_sum(const uint8_t h[TAR_BLOCK])
{
	unsigned sum = 0;

	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	return sum;
}

void
archive_head(uint8_t h[ARCHIVE_TAR_BLOCK], const char *name, uint64_t size)
{
	time_t now = time(NULL);

	memset(h, 0, TAR_BLOCK);
	memcpy(h, name, strnlen(name, 99));
	put_octal(h + 100, 8, 0600);
	put_octal(h + 108, 8, 0);
	put_octal(h + 116, 8, 0);
	put_size(h + 124, size);
	put_octal(h + 136, 12, now < 0 ? 0 : (uint64_t)now);
	h[156] = '0';
	memcpy(h + 257, "ustar\0" "00", 8);
	put_octal(h + 148, 7, head_sum(h));
	h[155] = ' ';
}

static bool
get_octal(const uint8_t *p, size_t n, uint64_t *v)
{
	size_t i = 0;

	*v = 0;
	while (i < n && p[i] == ' ')
		i++;
	if (i == n || p[i] < '0' || p[i] > '7')
		return false;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		*v = *v << 3 | (uint64_t)(p[i] - '0');	/* 12 digits: 36 bits */
	return i == n || p[i] == '\0' || p[i] == ' ';
}

static bool
get_size(const uint8_t p[12], uint64_t *v)
{
	if (p[0] != 0x80)
		return get_octal(p, 12, v);
	*v = 0;
	for (int i = 1; i < 12; i++) {
		if (i < 4 && p[i] != 0)
			return false;
		*v = *v << 8 | p[i];
	}
	return true;
}

/* -- reading -- */

struct archive_in {
	archive_source *source;
	void *ctx;
	uint64_t state_max;
	z_stream z;
	bool z_open, z_end;
	uint8_t *in;			/* packed bytes not unpacked yet: ARCHIVE_BLOCK_BYTES */
	bool seen[MEMBER_COUNT];
	enum member at;			/* the member being read */
	uint64_t left, size[MEMBER_COUNT];
	crypto_hash_sha256_state hash;
	struct buf meta, sums;
	char sum[MEMBER_COUNT][SUM_HEX + 1];
	char why[256];
};

static enum tv_err __attribute__((format(printf, 3, 4)))
refuse(struct archive_in *a, enum tv_err err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->why, sizeof(a->why), fmt, ap);
	va_end(ap);
	return err;
}

static enum tv_err
refill(struct archive_in *a)
{
	size_t got = 0;
	enum tv_err err = a->source(a->ctx, a->in, ARCHIVE_BLOCK_BYTES, &got);

	if (err != TV_OK)
		return refuse(a, err, "failed to read snapshot file: %s", err == TV_ESYS ? strerror(errno) : tv_strerror(err));
	a->z.next_in = a->in;
	a->z.avail_in = (uInt)got;
	return TV_OK;
}

/* Up to n unpacked bytes; *got < n only at the end of the stream. */
static enum tv_err
unpack(struct archive_in *a, void *p, size_t n, size_t *got)
{
	size_t done = 0;

	while (done < n && !a->z_end) {
		size_t piece = n - done > (1u << 30) ? 1u << 30 : n - done;
		int ret;

		if (a->z.avail_in == 0) {
			enum tv_err err = refill(a);

			if (err != TV_OK)
				return err;
			if (a->z.avail_in == 0)
				return refuse(a, TV_EFORMAT, "failed to decompress snapshot: unexpected end of file");
		}
		a->z.next_out = (Bytef *)p + done;
		a->z.avail_out = (uInt)piece;
		ret = inflate(&a->z, Z_NO_FLUSH);
		done += piece - a->z.avail_out;
		if (ret == Z_STREAM_END)
			a->z_end = true;
		else if (ret != Z_OK && ret != Z_BUF_ERROR)
			return refuse(a, ret == Z_MEM_ERROR ? TV_ENOMEM : TV_EFORMAT, "failed to decompress snapshot: %s",
			    ret == Z_MEM_ERROR ? "out of memory" : a->z.total_out == 0 ? "the file is not in gzip "
			    "format, so it is not a snapshot" : a->z.msg != NULL ? a->z.msg : "it is damaged");
	}
	*got = done;
	return TV_OK;
}

static enum tv_err
unpack_all(struct archive_in *a, void *p, size_t n)
{
	size_t got;
	enum tv_err err = unpack(a, p, n, &got);

	if (err == TV_OK && got < n)
		err = refuse(a, TV_EFORMAT, "failed to read snapshot file: the archive ends within %s", names[a->at]);
	return err;
}

static bool
is_zero(const uint8_t h[TAR_BLOCK])
{
	for (unsigned i = 0; i < TAR_BLOCK; i++)
		if (h[i] != 0)
			return false;
	return true;
}

/* A member's name, cut. */
static const char *
printable(const uint8_t *name, char out[NAME_SHOWN + 1])
{
	size_t n = 0;

	for (; n < NAME_SHOWN && name[n] != '\0'; n++)
		out[n] = name[n] < 0x20 || name[n] >= 0x7f ? '?' : (char)name[n];
	out[n] = '\0';
	return out;
}

static enum tv_err
take_head(struct archive_in *a, const uint8_t h[TAR_BLOCK])
{
	uint64_t sum, size, limit;
	unsigned m = 0;
	char name[NAME_SHOWN + 1];

	if (!get_octal(h + 148, 8, &sum) || sum != head_sum(h))
		return refuse(a, TV_EFORMAT, "failed to read snapshot file: not a tar archive");
	while (m < MEMBER_COUNT && strncmp((const char *)h, names[m], 100) != 0)
		m++;
	if (m == MEMBER_COUNT || (h[156] != '0' && h[156] != '\0') || h[345] != '\0')
		return refuse(a, TV_EFORMAT, "failed to read snapshot file: unexpected member \"%s\" in the archive, which has "
		    "meta.json, state.bin and SHA256SUMS and nothing else",
		    printable(h, name));
	if (a->seen[m])
		return refuse(a, TV_EFORMAT, "failed to read snapshot file: %s is in the archive twice", names[m]);
	limit = m == MEMBER_META ? ARCHIVE_META_BYTES_MAX : m == MEMBER_SUMS ? SUMS_BYTES_MAX : a->state_max;
	if (!get_size(h + 124, &size))
		return refuse(a, TV_EFORMAT, "failed to read snapshot file: %s has no size", names[m]);
	if (size > limit)
		return refuse(a, m == MEMBER_STATE ? TV_ELIMIT : TV_EFORMAT,
		    "failed to read snapshot file: %s of %llu bytes is larger than %llu", names[m], (unsigned long long)size,
		    (unsigned long long)limit);
	a->at = (enum member)m;
	a->seen[m] = true;
	a->size[m] = a->left = size;
	crypto_hash_sha256_init(&a->hash);
	return TV_OK;
}

static enum tv_err
end_member(struct archive_in *a)
{
	uint8_t hash[crypto_hash_sha256_BYTES], pad[TAR_BLOCK];
	size_t fill = (size_t)(-a->size[a->at] & (TAR_BLOCK - 1));

	crypto_hash_sha256_final(&a->hash, hash);
	sodium_bin2hex(a->sum[a->at], sizeof(a->sum[a->at]), hash, sizeof(hash));
	return fill == 0 ? TV_OK : unpack_all(a, pad, fill);
}

static enum tv_err
take_small(struct archive_in *a)
{
	struct buf *b = a->at == MEMBER_META ? &a->meta : &a->sums;
	uint8_t *p = buf_add(b, a->left);
	enum tv_err err = p == NULL && a->left > 0 ? refuse(a, TV_ENOMEM, "out of memory") : TV_OK;

	if (err == TV_OK)
		err = unpack_all(a, p, a->left);
	if (err == TV_OK)
		crypto_hash_sha256_update(&a->hash, p, a->left);
	return err == TV_OK ? end_member(a) : err;
}

/* Members up to and without the next state.bin, or to the end: TV_EOF. */
static enum tv_err
walk(struct archive_in *a)
{
	uint8_t h[TAR_BLOCK];
	enum tv_err err;

	for (;;) {
		size_t got = 0;

		err = unpack(a, h, sizeof(h), &got);
		if (err != TV_OK)
			return err;
		if (got == 0 || (got == sizeof(h) && is_zero(h)))
			return TV_EOF;
		if (got < sizeof(h))
			return refuse(a, TV_EFORMAT, "failed to read snapshot file: not a tar archive");
		err = take_head(a, h);
		if (err != TV_OK || a->at == MEMBER_STATE)
			return err;
		err = take_small(a);
		if (err != TV_OK)
			return err;
	}
}

struct archive_in *
archive_open(archive_source *source, void *ctx, uint64_t state_max, enum tv_err *err, char *errbuf, size_t cap)
{
	struct archive_in *a = calloc(1, sizeof(*a));

	*err = TV_ENOMEM;
	snprintf(errbuf, cap, "out of memory");
	if (a == NULL)
		return NULL;
	a->source = source;
	a->ctx = ctx;
	a->state_max = state_max;
	a->in = malloc(ARCHIVE_BLOCK_BYTES);
	buf_init(&a->meta, ARCHIVE_META_BYTES_MAX);
	buf_init(&a->sums, SUMS_BYTES_MAX);
	a->z_open = a->in != NULL && inflateInit2(&a->z, GZIP_WINDOW) == Z_OK;
	if (a->z_open)
		*err = walk(a);
	if (*err == TV_EOF)
		*err = refuse(a, TV_EFORMAT, "failed to read snapshot file: state.bin is missing");
	if (*err == TV_OK) {
		errbuf[0] = '\0';
		return a;
	}
	if (a->why[0] != '\0')
		snprintf(errbuf, cap, "%s", a->why);
	archive_close(a);
	return NULL;
}

uint64_t
archive_state_bytes(const struct archive_in *a)
{
	return a->size[MEMBER_STATE];
}

enum tv_err
archive_state_read(void *archive, void *p, size_t n)
{
	struct archive_in *a = archive;
	enum tv_err err;

	if (a->at != MEMBER_STATE || n > a->left)
		return refuse(a, TV_EFORMAT, "failed to read snapshot file: state.bin is too short");
	err = unpack_all(a, p, n);
	if (err != TV_OK)
		return err;
	crypto_hash_sha256_update(&a->hash, p, n);
	a->left -= n;
	return TV_OK;
}

/* One line "hex  name" of SHA256SUMS. */
static enum tv_err
take_sum(struct archive_in *a, struct span line, bool told[MEMBER_COUNT])
{
	for (unsigned m = 0; m < MEMBER_SUMS; m++) {
		size_t n = strlen(names[m]);

		if (line.len != SUM_HEX + 2 + n || memcmp(line.p + SUM_HEX, "  ", 2) != 0 ||
		    memcmp(line.p + SUM_HEX + 2, names[m], n) != 0 || told[m])
			continue;
		if (memcmp(line.p, a->sum[m], SUM_HEX) != 0)
			return refuse(a, TV_EFORMAT, "failed to read snapshot file: %s does not match its checksum", names[m]);
		told[m] = true;
		return TV_OK;
	}
	return refuse(a, TV_EFORMAT, "failed to read snapshot file: SHA256SUMS is malformed");
}

static enum tv_err
check_sums(struct archive_in *a)
{
	struct span left = buf_span(&a->sums);
	bool told[MEMBER_COUNT] = { false };
	enum tv_err err = TV_OK;

	while (err == TV_OK && left.len > 0) {
		const uint8_t *end = memchr(left.p, '\n', left.len);
		size_t n = end == NULL ? left.len : (size_t)(end - left.p);

		err = take_sum(a, span_of(left.p, n), told);
		n += end != NULL;
		left = span_of(left.p + n, left.len - n);
	}
	if (err == TV_OK && (!told[MEMBER_META] || !told[MEMBER_STATE]))
		err = refuse(a, TV_EFORMAT, "failed to read snapshot file: SHA256SUMS does not name all members");
	return err;
}

/* Only empty blocks may follow, and nothing behind the gzip stream. */
static enum tv_err
check_end(struct archive_in *a)
{
	uint8_t h[TAR_BLOCK];
	size_t got = sizeof(h);
	unsigned blocks = 0;
	enum tv_err err = TV_OK;

	while (err == TV_OK && !a->z_end && blocks++ < BLOCKS_AFTER_MAX) {
		err = unpack(a, h, sizeof(h), &got);
		if (err == TV_OK && got == sizeof(h) && !is_zero(h))
			err = refuse(a, TV_EFORMAT, "failed to read snapshot file: trailing data after the end of "
			    "the archive");
	}
	if (err == TV_OK && a->z.avail_in == 0)
		err = refill(a);
	if (err == TV_OK && (!a->z_end || a->z.avail_in > 0))
		err = refuse(a, TV_EFORMAT, "failed to decompress snapshot: trailing data after the end of the "
		    "archive");
	return err;
}

enum tv_err
archive_finish(struct archive_in *a)
{
	enum tv_err err = a->left != 0 ?
	    refuse(a, TV_EFORMAT, "failed to read snapshot file: state.bin has more than one state") : end_member(a);

	if (err == TV_OK)
		err = walk(a);
	if (err == TV_OK)
		err = refuse(a, TV_EFORMAT, "failed to read snapshot file: state.bin is in the archive twice");
	if (err != TV_EOF)
		return err;
	for (unsigned m = 0; m < MEMBER_COUNT; m++)
		if (!a->seen[m])
			return refuse(a, TV_EFORMAT, "failed to read snapshot file: %s is missing", names[m]);
	err = check_sums(a);
	return err == TV_OK ? check_end(a) : err;
}

struct span
archive_meta(const struct archive_in *a)
{
	return buf_span(&a->meta);
}

const char *
archive_sum(const struct archive_in *a, bool state)
{
	return a->sum[state ? MEMBER_STATE : MEMBER_META];
}

const char *
archive_why(const struct archive_in *a)
{
	return a->why;
}

void
archive_close(struct archive_in *a)
{
	if (a == NULL)
		return;
	if (a->z_open)
		(void)inflateEnd(&a->z);
	buf_done(&a->meta);
	buf_done(&a->sums);
	free(a->in);
	free(a);
}

/* -- writing -- */

struct archive_out {
	FILE *file;
	z_stream z;
	uint8_t *out;			/* ARCHIVE_BLOCK_BYTES */
	uint64_t bytes;
	bool failed;
};

/* flush: Z_NO_FLUSH, or Z_FINISH at the end. */
static void
pack(struct archive_out *o, const void *p, size_t n, int flush)
{
	int ret = Z_OK;

	o->z.next_in = (Bytef *)(uintptr_t)p;
	o->z.avail_in = (uInt)n;
	while (!o->failed && (o->z.avail_in > 0 || (flush == Z_FINISH && ret != Z_STREAM_END))) {
		size_t made;

		o->z.next_out = o->out;
		o->z.avail_out = ARCHIVE_BLOCK_BYTES;
		ret = deflate(&o->z, flush);
		made = ARCHIVE_BLOCK_BYTES - o->z.avail_out;
		if (ret == Z_STREAM_ERROR || (made > 0 && fwrite(o->out, 1, made, o->file) != made))
			o->failed = true;
		o->bytes += made;
	}
}

static void
pad(struct archive_out *o, uint64_t size)
{
	static const uint8_t zero[TAR_BLOCK];

	pack(o, zero, (size_t)(-size & (TAR_BLOCK - 1)), Z_NO_FLUSH);
}

static void
put_small(struct archive_out *o, enum member m, struct span bytes, char hex[SUM_HEX + 1])
{
	uint8_t h[TAR_BLOCK], hash[crypto_hash_sha256_BYTES];

	archive_head(h, names[m], bytes.len);
	pack(o, h, sizeof(h), Z_NO_FLUSH);
	pack(o, bytes.p, bytes.len, Z_NO_FLUSH);
	pad(o, bytes.len);
	crypto_hash_sha256(hash, bytes.p, bytes.len);
	sodium_bin2hex(hex, SUM_HEX + 1, hash, sizeof(hash));
}

static void
put_state(struct archive_out *o, FILE *in, uint64_t size, char hex[SUM_HEX + 1], _Atomic uint64_t *done)
{
	crypto_hash_sha256_state st;
	uint8_t h[TAR_BLOCK], hash[crypto_hash_sha256_BYTES], *bytes = malloc(ARCHIVE_BLOCK_BYTES);
	uint64_t left = size;
	size_t n;

	archive_head(h, names[MEMBER_STATE], size);
	pack(o, h, sizeof(h), Z_NO_FLUSH);
	crypto_hash_sha256_init(&st);
	if (bytes == NULL)
		o->failed = true;
	while (!o->failed && left > 0) {
		n = fread(bytes, 1, left < ARCHIVE_BLOCK_BYTES ? (size_t)left : ARCHIVE_BLOCK_BYTES, in);
		if (n == 0) {
			o->failed = true;
			break;
		}
		crypto_hash_sha256_update(&st, bytes, n);
		pack(o, bytes, n, Z_NO_FLUSH);
		left -= n;
		*done += n;
	}
	free(bytes);
	pad(o, size);
	crypto_hash_sha256_final(&st, hash);
	sodium_bin2hex(hex, SUM_HEX + 1, hash, sizeof(hash));
}

static void
put_all(struct archive_out *o, FILE *state, uint64_t size, struct span meta, _Atomic uint64_t *done)
{
	static const uint8_t end[2 * TAR_BLOCK];
	char sums[2][SUM_HEX + 1], text[2 * (SUM_HEX + 16)], unused[SUM_HEX + 1];
	int n;

	put_small(o, MEMBER_META, meta, sums[0]);
	put_state(o, state, size, sums[1], done);
	n = snprintf(text, sizeof(text), "%s  %s\n%s  %s\n", sums[0], names[MEMBER_META], sums[1], names[MEMBER_STATE]);
	put_small(o, MEMBER_SUMS, span_of(text, (size_t)n), unused);
	pack(o, end, sizeof(end), Z_NO_FLUSH);
	pack(o, NULL, 0, Z_FINISH);
}

static FILE *
create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (f == NULL && fd >= 0)
		(void)close(fd);
	return f;
}

enum tv_err
archive_write(const char *path, const char *state_path, struct span meta, uint64_t *bytes, _Atomic uint64_t *done)
{
	struct archive_out o = { .out = malloc(ARCHIVE_BLOCK_BYTES) };
	FILE *state = fopen(state_path, "re");
	struct stat st;
	int why;

	o.failed = o.out == NULL || state == NULL || fstat(fileno(state), &st) < 0 || (o.file = create(path)) == NULL;
	if (!o.failed && deflateInit2(&o.z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
		put_all(&o, state, (uint64_t)st.st_size, meta, done);
		(void)deflateEnd(&o.z);		/* complains only about what was not packed */
	} else {
		o.failed = true;
	}
	if (!o.failed && (fflush(o.file) != 0 || fsync(fileno(o.file)) != 0))
		o.failed = true;
	why = errno;
	if (o.file != NULL && fclose(o.file) != 0)
		o.failed = true;
	if (o.failed && o.file != NULL)
		(void)unlink(path);
	if (state != NULL)
		(void)fclose(state);
	free(o.out);
	*bytes = o.bytes;
	errno = why;
	return o.failed ? TV_ESYS : TV_OK;
}
