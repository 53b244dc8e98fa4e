/* Writing and reading snapshot files.  Lengths are believed only as far as the file goes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raftd/fsm/copy/snapfile.h"
#include "raftd/fsm/table/key.h"

static const char magic[8] = { 'T', 'V', 'S', 'N', 'A', 'P', '1', '\n' };

#define HEAD_BYTES (8 + 4 + 8 + 8)
#define VALUE_BYTES_MAX (64u << 20)

static void
put_be(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

static uint64_t
get_be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/* -- writing -- */

static void
put_bytes(struct snap_out *s, const void *p, size_t n)
{
	if (s->failed || n == 0)
		return;
	if (fwrite(p, 1, n, s->file) != n) {
		s->failed = true;
		s->why = errno;
		return;
	}
	s->bytes += n;
	crypto_generichash_update(&s->sum, p, n);
}

enum tv_err
snap_out_open(struct snap_out *s, const char *path, uint64_t index, uint64_t term)
{
	uint8_t head[HEAD_BYTES];
	int fd;

	memset(s, 0, sizeof(*s));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd == -1)
		return TV_ESYS;
	s->file = fdopen(fd, "w");
	if (s->file == NULL) {
		close(fd);
		return TV_ENOMEM;
	}
	crypto_generichash_init(&s->sum, NULL, 0, SNAP_SUM_BYTES);
	memcpy(head, magic, 8);
	put_be(head + 8, SNAP_VERSION, 4);
	put_be(head + 12, index, 8);
	put_be(head + 20, term, 8);
	put_bytes(s, head, sizeof(head));
	return TV_OK;
}

void
snap_out_record(struct snap_out *s, struct span key, struct span val)
{
	uint8_t lens[8];

	put_be(lens, key.len, 4);
	put_be(lens + 4, val.len, 4);
	put_bytes(s, lens, sizeof(lens));
	put_bytes(s, key.p, key.len);
	put_bytes(s, val.p, val.len);
	s->records++;
}

enum tv_err
snap_out_close(struct snap_out *s, const char *path, uint64_t *bytes, uint64_t *checksum)
{
	uint8_t end[16] = { 0 }, sum[SNAP_SUM_BYTES];

	put_be(end + 8, s->records, 8);
	put_bytes(s, end, sizeof(end));
	crypto_generichash_final(&s->sum, sum, sizeof(sum));
	if (!s->failed && (fwrite(sum, 1, sizeof(sum), s->file) != sizeof(sum) || fflush(s->file) != 0 ||
	    fsync(fileno(s->file)) != 0)) {
		s->failed = true;
		s->why = errno;
	}
	if (fclose(s->file) != 0 && !s->failed) {
		s->failed = true;
		s->why = errno;
	}
	*bytes = s->bytes + sizeof(sum);
	*checksum = get_be(sum, 8);
	if (!s->failed)
		return TV_OK;
	(void)unlink(path);			/* a torn file is of no use to anybody */
	errno = s->why;
	return TV_ESYS;
}

/* -- reading -- */

static enum tv_err
file_source(void *ctx, void *p, size_t n)
{
	FILE *file = ctx;

	if (fread(p, 1, n, file) == n)
		return TV_OK;
	return ferror(file) ? TV_ESYS : TV_ECORRUPT;
}

/* n bytes that the checksum covers. */
static enum tv_err
get(struct snap_in *s, void *p, size_t n)
{
	enum tv_err err;

	if (n > s->left)
		return TV_ECORRUPT;
	err = n > 0 ? s->source(s->ctx, p, n) : TV_OK;
	if (err != TV_OK)
		return err;
	s->left -= n;
	crypto_generichash_update(&s->sum, p, n);
	return TV_OK;
}

/* In every version the last bytes are the checksum of all before them.  TV_EINVAL: it is right. */
static enum tv_err
check_unknown(struct snap_in *s)
{
	uint8_t bytes[4096], want[SNAP_SUM_BYTES], sum[SNAP_SUM_BYTES];
	enum tv_err err = TV_OK;

	while (err == TV_OK && s->left > 0)
		err = get(s, bytes, s->left < sizeof(bytes) ? (size_t)s->left : sizeof(bytes));
	if (err == TV_OK)
		err = s->source(s->ctx, want, sizeof(want));
	if (err != TV_OK)
		return err;
	crypto_generichash_final(&s->sum, sum, sizeof(sum));
	return sodium_memcmp(want, sum, sizeof(sum)) == 0 ? TV_EINVAL : TV_ECORRUPT;
}

enum tv_err
snap_in_open_with(struct snap_in *s, snap_source *source, void *ctx, uint64_t bytes)
{
	uint8_t head[HEAD_BYTES];
	enum tv_err err = TV_EFORMAT;

	memset(s, 0, sizeof(*s));
	s->source = source;
	s->ctx = ctx;
	buf_init(&s->key, TKEY_BYTES_MAX);
	buf_init(&s->val, VALUE_BYTES_MAX);
	crypto_generichash_init(&s->sum, NULL, 0, SNAP_SUM_BYTES);
	if (bytes >= HEAD_BYTES + 16 + SNAP_SUM_BYTES) {
		s->left = bytes - SNAP_SUM_BYTES;
		err = get(s, head, sizeof(head));
	}
	if (err == TV_OK && memcmp(head, magic, 8) != 0)
		err = TV_EFORMAT;
	if (err != TV_OK)
		return err;
	s->version = (uint32_t)get_be(head + 8, 4);
	if (s->version != SNAP_VERSION)
		return check_unknown(s);
	s->index = get_be(head + 12, 8);
	s->term = get_be(head + 20, 8);
	return TV_OK;
}

enum tv_err
snap_in_open(struct snap_in *s, const char *path)
{
	FILE *file = fopen(path, "re");
	struct stat st;
	enum tv_err err;

	memset(s, 0, sizeof(*s));
	if (file == NULL)
		return TV_ESYS;
	if (fstat(fileno(file), &st) == 0) {
		err = snap_in_open_with(s, file_source, file, (uint64_t)st.st_size);
	} else {
		err = TV_ESYS;
	}
	s->file = file;
	if (err != TV_OK)
		snap_in_close(s);
	return err == TV_EFORMAT ? TV_ECORRUPT : err;
}

/* After the end mark: number of records, checksum, nothing more. */
static enum tv_err
check_end(struct snap_in *s)
{
	uint8_t count[8], want[SNAP_SUM_BYTES], sum[SNAP_SUM_BYTES];
	enum tv_err err = get(s, count, sizeof(count));

	if (err != TV_OK)
		return err;
	s->records = get_be(count, 8);
	if (s->left != 0 || s->records != s->seen)
		return TV_ECORRUPT;
	err = s->source(s->ctx, want, sizeof(want));
	if (err != TV_OK)
		return err;
	crypto_generichash_final(&s->sum, sum, sizeof(sum));
	return sodium_memcmp(want, sum, sizeof(sum)) == 0 ? TV_EOF : TV_ECORRUPT;
}

enum tv_err
snap_in_next(struct snap_in *s, struct span *key, struct span *val)
{
	uint8_t lens[8], *kp, *vp;
	uint64_t klen, vlen;
	enum tv_err err = get(s, lens, sizeof(lens));

	if (err != TV_OK)
		return err;
	klen = get_be(lens, 4);
	vlen = get_be(lens + 4, 4);
	if (klen == 0)
		return vlen == 0 ? check_end(s) : TV_ECORRUPT;
	if (klen > TKEY_BYTES_MAX || vlen > VALUE_BYTES_MAX || klen + vlen > s->left)
		return TV_ECORRUPT;
	buf_reset(&s->key);
	buf_reset(&s->val);
	kp = buf_add(&s->key, klen);
	vp = buf_add(&s->val, vlen);
	if (kp == NULL || (vp == NULL && vlen > 0))
		return TV_ENOMEM;
	err = get(s, kp, klen);
	if (err == TV_OK)
		err = get(s, vp, vlen);
	s->seen++;
	*key = buf_span(&s->key);
	*val = buf_span(&s->val);
	return err;
}

void
snap_in_close(struct snap_in *s)
{
	if (s->file != NULL)
		(void)fclose(s->file);	/* it was only read */
	s->file = NULL;
	buf_done(&s->key);
	buf_done(&s->val);
}
