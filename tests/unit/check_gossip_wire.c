/*
 * Every vector of tests/data/serf-vectors.json: read and compared with its
 * `decoded` member, written again and compared byte for byte where the vector
 * says that this is possible, and refused where real peers refuse.
 */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <zlib.h>

#include "tests/unit/gossip_describe.h"

#define PARTS_MAX 8

static json_t *vectors;

/* -- helpers --------------------------------------------------------------------- */

static const char *
str(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s != NULL ? s : "";
}

static size_t
unhex(const char *hex, uint8_t *out, size_t cap)
{
	size_t n = strlen(hex) / 2;

	ck_assert_uint_le(n, cap);
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)strtoul((char[]){ hex[2 * i], hex[2 * i + 1], '\0' }, NULL, 16);
	return n;
}

/* The vector's bytes; exactly sized heap memory, so that the sanitizer sees each overrun. */
static struct span
load(const char *hex)
{
	size_t n = strlen(hex) / 2;
	uint8_t *p = malloc(n > 0 ? n : 1);

	unhex(hex, p, n);
	return span_of(p, n);
}

static void
unload(struct span s)
{
	free((void *)(uintptr_t)s.p);
}

static bool
is_kind(const json_t *v, const char *kind)
{
	return strcmp(str(v, "kind"), kind) == 0;
}

/* Helpers of the file that are no wire fields and that the description has not. */
static json_t *
stripped(const json_t *j)
{
	json_t *copy = json_deep_copy(j);

	json_object_del(copy, "filters_decoded");
	json_object_del(copy, "payload_decoded");
	return copy;
}

static void
assert_same_json(const char *name, json_t *got, const json_t *want)
{
	json_t *clean = stripped(want);
	char *g = json_dumps(got, JSON_SORT_KEYS | JSON_ENCODE_ANY), *w = json_dumps(clean, JSON_SORT_KEYS | JSON_ENCODE_ANY);

	ck_assert_msg(got != NULL, "%s: does not decode", name);
	ck_assert_msg(json_equal(got, clean), "%s:\n got %s\nwant %s", name, g, w);
	free(g);
	free(w);
	json_decref(clean);
	json_decref(got);
}

static void
assert_same_bytes(const char *name, struct span got, struct span want)
{
	size_t at = 0;

	while (at < got.len && at < want.len && got.p[at] == want.p[at])
		at++;
	ck_assert_msg(span_eq(got, want), "%s: %zu bytes written, %zu wanted, first difference at %zu", name, got.len,
	    want.len, at);
}

/* -- the layers of a vector, from `decoded` ---------------------------------------- */

struct layers {
	struct seal_ring ring;
	struct envelope envelope;
	uint8_t nonce[SEAL_NONCE_BYTES];
	uint8_t label[WIRE_LABEL_BYTES_MAX];
	bool crc;
	json_t *leaf[PARTS_MAX];
	unsigned leaves;
};

static void
find_leaves(struct layers *l, json_t *message)
{
	json_t *parts = json_object_get(message, "parts"), *part;
	size_t i;

	switch (json_integer_value(json_object_get(message, "type"))) {
	case WIRE_CRC:
		l->crc = true;
		find_leaves(l, json_object_get(message, "plain"));
		break;
	case WIRE_COMPRESS:
		l->envelope.compress = true;
		find_leaves(l, json_object_get(message, "plain"));
		break;
	case WIRE_COMPOUND:
		json_array_foreach(parts, i, part)
			find_leaves(l, part);
		break;
	default:
		ck_assert_uint_lt(l->leaves, PARTS_MAX);
		l->leaf[l->leaves++] = message;
	}
}

/* The additional data names the label even where the stream shows none. */
static void
layers_of(struct layers *l, const json_t *v)
{
	json_t *decoded = json_object_get(v, "decoded"), *enc = json_object_get(decoded, "encryption");
	const char *label = str(decoded, "label"), *aad = str(enc, "aad");
	uint8_t key[SEAL_KEY_BYTES_MAX];

	memset(l, 0, sizeof(*l));
	l->envelope.version = 1;
	if (enc != NULL) {
		ck_assert_int_eq(seal_ring_add(&l->ring, span_of(key, unhex(str(enc, "key"), key, sizeof(key)))), TV_OK);
		unhex(str(enc, "nonce"), l->nonce, sizeof(l->nonce));
		l->envelope.ring = &l->ring;
		l->envelope.version = (uint8_t)json_integer_value(json_object_get(enc, "version"));
	}
	memcpy(l->label, label, strlen(label));
	l->envelope.label = span_of(l->label, strlen(label));
	if (l->envelope.label.len == 0 && strlen(aad) > 10)
		l->envelope.label = span_of(l->label, unhex(aad + 10, l->label, sizeof(l->label)));
	find_leaves(l, json_object_get(decoded, "message"));
}

/* -- packets --------------------------------------------------------------------------- */

struct visit {
	const char *name;
	const struct layers *layers;
	struct buf again[PARTS_MAX];
	unsigned seen;
};

static void
on_message(void *arg, enum wire_type type, struct span body)
{
	struct visit *v = arg;

	ck_assert_msg(v->seen < v->layers->leaves, "%s: too many messages", v->name);
	buf_init(&v->again[v->seen], 1 << 16);
	assert_same_json(v->name, describe_message(type, body, &v->again[v->seen]), v->layers->leaf[v->seen]);
	v->seen++;
}

static void
rebuild_packet(const struct layers *l, struct packet_scratch *s, struct visit *visit, struct span want)
{
	struct span parts[PARTS_MAX];
	struct buf out = BUF_INIT(PACKET_BYTES_MAX);

	for (unsigned i = 0; i < l->leaves; i++)
		parts[i] = buf_span(&visit->again[i]);
	ck_assert_int_eq(packet_build(&l->envelope, s, parts, l->leaves, l->crc, l->nonce, &out), TV_OK);
	assert_same_bytes(visit->name, buf_span(&out), want);
	buf_done(&out);
}

static void
check_packet(const json_t *v, struct layers *l, struct span bytes)
{
	struct packet_scratch *s = malloc(sizeof(*s));
	struct visit visit = { .name = str(v, "name"), .layers = l };
	struct packet_result res;

	packet_scratch_init(s);
	res = packet_open(&l->envelope, s, bytes, on_message, &visit);
	ck_assert_msg(res.err == TV_OK && res.dropped == 0, "%s: %s", visit.name, tv_strerror(res.err));
	ck_assert_uint_eq(res.messages, l->leaves);
	ck_assert_uint_eq(visit.seen, l->leaves);
	if (json_is_true(json_object_get(v, "exact")))
		rebuild_packet(l, s, &visit, bytes);
	for (unsigned i = 0; i < visit.seen; i++)
		buf_done(&visit.again[i]);
	packet_scratch_done(s);
	free(s);
}

/* -- streams ---------------------------------------------------------------------------- */

/* All at once, and byte by byte: the message must be complete at its last byte, not before. */
static void
feed(const char *name, struct stream_reader *r, struct span bytes, bool slowly)
{
	size_t step = slowly ? 1 : bytes.len;
	enum tv_err err = TV_EAGAIN;

	for (size_t at = 0; at < bytes.len; at += step) {
		ck_assert_msg(err == TV_EAGAIN, "%s: %s after %zu of %zu bytes", name, tv_strerror(err), at, bytes.len);
		err = stream_feed(r, span_of(bytes.p + at, step));
	}
	ck_assert_msg(err == TV_OK, "%s: %s at the end", name, tv_strerror(err));
}

static void
check_stream(const json_t *v, const struct layers *l, struct span bytes, bool slowly)
{
	enum stream_side side = str(json_object_get(v, "decoded"), "label")[0] != '\0' ? STREAM_ACCEPTED : STREAM_DIALLED;
	const char *name = str(v, "name");
	struct packet_scratch *s = malloc(sizeof(*s));
	struct buf again = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
	struct stream_reader r;

	stream_reader_init(&r, &l->envelope, &STREAM_LIMITS_DEFAULT, side);
	feed(name, &r, bytes, slowly);
	assert_same_json(name, describe_stream(stream_message(&r), &again), l->leaf[0]);
	if (json_is_true(json_object_get(v, "exact"))) {
		packet_scratch_init(s);
		ck_assert_int_eq(stream_build(&l->envelope, s, side == STREAM_ACCEPTED ? STREAM_DIALLED : STREAM_ACCEPTED,
		    buf_span(&again), l->nonce, &out), TV_OK);
		assert_same_bytes(name, buf_span(&out), bytes);
		packet_scratch_done(s);
	}
	stream_reader_done(&r);
	buf_done(&again);
	buf_done(&out);
	free(s);
}

/* Two packets of the file are stream messages: an error, and a compression that grew. */
static bool
stream_only(const json_t *v)
{
	return is_kind(v, "stream") || is_kind(v, "capture-stream") || strcmp(str(v, "name"), "ml_error") == 0 ||
	    strcmp(str(v, "name"), "ml_compressed_ping") == 0;
}

/* A sealed block whose plaintext is no message. */
static void
check_block(const json_t *v, const struct layers *l, struct span bytes)
{
	struct span plain = load(str(json_object_get(json_object_get(v, "decoded"), "encryption"), "plain"));
	struct buf out = BUF_INIT(1024);
	uint8_t got[1024];
	size_t len;

	ck_assert_int_eq(seal_open(&l->ring, SPAN_NONE, bytes, got, sizeof(got), &len), TV_OK);
	assert_same_bytes(str(v, "name"), span_of(got, len), plain);
	seal_put(&out, &l->ring, l->envelope.version, l->nonce, SPAN_NONE, plain);
	assert_same_bytes(str(v, "name"), buf_span(&out), bytes);
	buf_done(&out);
	unload(plain);
}

START_TEST(test_envelope_vector)
{
	const json_t *v = json_array_get(vectors, (size_t)_i);
	struct layers l;
	struct span bytes;

	if (!is_kind(v, "packet") && !is_kind(v, "capture-packet") && !is_kind(v, "stream") && !is_kind(v, "capture-stream"))
		return;
	bytes = load(str(v, "hex"));
	layers_of(&l, v);
	if (json_object_get(json_object_get(v, "decoded"), "message") == NULL) {
		check_block(v, &l, bytes);
	} else if (stream_only(v)) {
		check_stream(v, &l, bytes, false);
		check_stream(v, &l, bytes, true);
	} else {
		check_packet(v, &l, bytes);
	}
	unload(bytes);
}
END_TEST

static void
count_message(void *arg, enum wire_type type, struct span body)
{
	(void)type;
	(void)body;
	++*(unsigned *)arg;
}

/* Every truncation of every packet: no message that is not whole, nothing read beyond the end. */
START_TEST(test_truncated_vector)
{
	const json_t *v = json_array_get(vectors, (size_t)_i);
	struct packet_scratch *s = malloc(sizeof(*s));
	struct layers l;
	struct span bytes;

	if (is_kind(v, "packet") || is_kind(v, "capture-packet")) {
		bytes = load(str(v, "hex"));
		layers_of(&l, v);
		packet_scratch_init(s);
		for (size_t n = 0; n < bytes.len; n++) {
			unsigned count = 0;
			uint8_t *cut = malloc(n > 0 ? n : 1);

			memcpy(cut, bytes.p, n);
			packet_open(&l.envelope, s, span_of(cut, n), count_message, &count);
			if (l.crc || l.envelope.ring != NULL || l.envelope.compress)
				ck_assert_msg(count == 0, "%s cut at %zu", str(v, "name"), n);
			ck_assert_uint_le(count, l.leaves);
			free(cut);
		}
		packet_scratch_done(s);
		unload(bytes);
	}
	free(s);
}
END_TEST

START_TEST(test_stream_prefix)
{
	const json_t *v = json_array_get(vectors, (size_t)_i), *d = json_object_get(v, "decoded");
	const json_t *want = json_object_get(d, "header");
	struct envelope e = { .version = 1 };
	struct wire_pp_header h;
	struct stream_reader r;
	struct span bytes;
	struct rd rd;

	if (!is_kind(v, "stream-prefix"))
		return;
	bytes = load(str(v, "hex"));
	stream_reader_init(&r, &e, &STREAM_LIMITS_DEFAULT, STREAM_ACCEPTED);
	ck_assert_int_eq(stream_feed(&r, bytes), TV_EAGAIN);
	stream_reader_done(&r);
	rd = rd_over(bytes.p + 1, bytes.len - 1);
	ck_assert_int_eq(fields_read(&rd, &wire_pp_header_table, NULL, &h), TV_OK);
	ck_assert_int_eq(rd.p - bytes.p, json_integer_value(json_object_get(d, "header_end_offset")));
	ck_assert_int_eq(h.nodes, json_integer_value(json_object_get(want, "Nodes")));
	ck_assert_int_eq(h.user_state_len, json_integer_value(json_object_get(want, "UserStateLen")));
	ck_assert_int_eq(h.join, json_is_true(json_object_get(want, "Join")));
	unload(bytes);
}
END_TEST

/* -- bare formats -------------------------------------------------------------------------- */

/* The bytes of a "hex:" value. */
static struct span
load_hex(const json_t *j)
{
	const char *s = json_string_value(j);

	ck_assert(s != NULL && strncmp(s, "hex:", 4) == 0);
	return load(s + 4);
}

/* What a query carries has a reader and writer of its own: filters, and the key of a key query. */
static void
check_inside(const char *name, const json_t *query)
{
	const json_t *fields = json_object_get(query, "fields"), *want;
	json_t *key = json_object_get(query, "payload_decoded"), *got;
	struct buf again = BUF_INIT(1 << 16);
	struct span bytes;
	size_t i;

	json_array_foreach(json_object_get(query, "filters_decoded"), i, want) {
		bytes = load_hex(json_array_get(json_object_get(fields, "Filters"), i));
		got = describe_filter(bytes, &again);
		ck_assert_msg(json_equal(json_object_get(got, "filter_type"), json_object_get(want, "filter_type")), "%s", name);
		if (json_object_get(want, "nodes") != NULL) {
			ck_assert(json_equal(json_object_get(got, "value"), json_object_get(want, "nodes")));
		} else {
			ck_assert_str_eq(str(json_object_get(got, "value"), "Expr"), str(want, "Expr"));
			ck_assert_str_eq(str(json_object_get(got, "value"), "Tag"), str(want, "Tag"));
		}
		assert_same_bytes(name, buf_span(&again), bytes);
		buf_reset(&again);
		json_decref(got);
		unload(bytes);
	}
	if (key != NULL) {
		bytes = load_hex(json_object_get(fields, "Payload"));
		assert_same_json(name, describe_serf(bytes, &again), key);
		assert_same_bytes(name, buf_span(&again), bytes);
		unload(bytes);
	}
	buf_done(&again);
}

START_TEST(test_serf_vector)
{
	const json_t *v = json_array_get(vectors, (size_t)_i), *d = json_object_get(v, "decoded");
	struct buf again = BUF_INIT(1 << 20);
	struct span bytes;

	if (is_kind(v, "serf-message")) {
		bytes = load(str(v, "hex"));
		assert_same_json(str(v, "name"), describe_serf(bytes, &again), d);
		check_inside(str(v, "name"), d);
	} else if (is_kind(v, "node-meta")) {
		bytes = load(str(v, "hex"));
		assert_same_json(str(v, "name"), describe_tags(bytes, &again),
		    json_object_get(d, "tags") != NULL ? json_object_get(d, "tags") : d);
		ck_assert(serf_meta_ok(bytes));
	} else if (is_kind(v, "query-filter")) {
		bytes = load(str(v, "hex"));
		assert_same_json(str(v, "name"), describe_filter(bytes, &again), d);
	} else if (is_kind(v, "ack-payload")) {
		json_t *got;

		bytes = load(str(v, "hex"));
		got = describe_coord(bytes, &again);
		if (json_object_get(d, "version") != NULL)
			assert_same_json(str(v, "name"), got, d);
		else
			json_decref(got);
		ck_assert(span_eq(buf_span(&again), bytes));
	} else {
		return;
	}
	if (json_is_true(json_object_get(v, "exact")))
		assert_same_bytes(str(v, "name"), buf_span(&again), bytes);
	buf_done(&again);
	unload(bytes);
}
END_TEST

START_TEST(test_lzw_vector)
{
	const json_t *v = json_array_get(vectors, (size_t)_i), *d = json_object_get(v, "decoded");
	static struct lzw_table table;
	struct buf again = BUF_INIT(1 << 20);
	size_t want = (size_t)json_integer_value(json_object_get(d, "plain_len")), len;
	struct span bytes;
	uint8_t *plain;

	if (!is_kind(v, "lzw"))
		return;
	bytes = load(str(v, "hex"));
	plain = malloc(want);
	ck_assert_int_eq(lzw_size(bytes, want, &len), TV_OK);
	ck_assert_uint_eq(len, want);
	ck_assert_int_eq(lzw_decode(bytes, plain, want, &len), TV_OK);
	ck_assert_uint_eq(len, want);
	ck_assert_uint_eq(crc32_z(0, plain, len), strtoul(str(d, "plain_crc32"), NULL, 16));
	ck_assert_int_eq(lzw_decode(bytes, plain, want - 1, &len), TV_ELIMIT);
	ck_assert_int_eq(lzw_decode(bytes, plain, want, &len), TV_OK);
	lzw_encode(&table, span_of(plain, len), &again);
	assert_same_bytes(str(v, "name"), buf_span(&again), bytes);
	buf_done(&again);
	free(plain);
	unload(bytes);
}
END_TEST

/* -- verdicts of real peers -------------------------------------------------------------------- */

static bool
takes_alive(struct span b, struct arena *a)
{
	struct wire_alive m;

	return wire_get_alive(b, a, &m) == TV_OK;
}

static bool
takes_ack(struct span b, struct arena *a)
{
	struct wire_ack m;

	return wire_get_ack(b, a, &m) == TV_OK;
}

static bool
takes_header(struct span b, struct arena *a)
{
	struct wire_pp_header m;

	return wire_get_pp_header(b, a, &m) == TV_OK;
}

/* Opens `type` and the bytes as a packet; true when a message came out. */
static bool
opens(int type, struct span b, const struct envelope *e)
{
	struct packet_scratch *s = malloc(sizeof(*s));
	struct buf whole = BUF_INIT(1024);
	unsigned count = 0;

	packet_scratch_init(s);
	if (type >= 0)
		buf_u8(&whole, (uint8_t)type);
	buf_putspan(&whole, b);
	packet_open(e, s, buf_span(&whole), count_message, &count);
	buf_done(&whole);
	packet_scratch_done(s);
	free(s);
	return count > 0;
}

/* Expansion as peers do it: whatever message comes out. */
static bool
takes_compress(struct span b, struct arena *a)
{
	struct wire_compress m;
	uint8_t out[64];
	size_t len;

	return wire_get_compress(b, a, &m) == TV_OK && lzw_decode(m.data, out, sizeof(out), &len) == TV_OK && len > 0;
}

static bool
takes_compound(struct span b, struct arena *a)
{
	(void)a;
	return opens(WIRE_COMPOUND, b, &(struct envelope){ .version = 1 });
}

static bool
takes_sealed(struct span b, struct arena *a)
{
	static const uint8_t key[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	struct seal_ring ring = { .count = 0 };
	uint8_t out[64];
	size_t len;

	(void)a;
	seal_ring_add(&ring, span_of(key, sizeof(key)));
	return seal_open(&ring, SPAN_NONE, b, out, sizeof(out), &len) == TV_OK;
}

/* The label is taken when what is left is complained about, not the label. */
static bool
takes_label(struct span b, struct arena *a)
{
	struct envelope e = { .label = span_str("abc"), .version = 1 };
	struct packet_scratch *s = malloc(sizeof(*s));
	unsigned count = 0;
	enum tv_err err;

	(void)a;
	packet_scratch_init(s);
	err = packet_open(&e, s, b, count_message, &count).err;
	packet_scratch_done(s);
	free(s);
	ck_assert_uint_eq(count, 0);
	return err != TV_EAUTH;
}

START_TEST(test_verdict)
{
	static const struct {
		const char *kind;
		bool (*takes)(struct span, struct arena *);
	} kinds[] = {
		{ "decode-alive", takes_alive }, { "decode-ack", takes_ack }, { "decode-pphdr", takes_header },
		{ "decode-compound", takes_compound }, { "decode-compress", takes_compress },
		{ "decode-encrypted16", takes_sealed }, { "decode-label", takes_label },
	};
	const json_t *v = json_array_get(vectors, (size_t)_i);
	struct arena a = ARENA_INIT(4096);
	bool want = strcmp(str(v, "verdict_memberlist_0.5.2"), "accept") == 0, known = false;
	struct span bytes;

	if (strncmp(str(v, "kind"), "decode-", 7) != 0)
		return;
	bytes = load(str(v, "hex"));
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (!is_kind(v, kinds[k].kind))
			continue;
		known = true;
		ck_assert_msg(kinds[k].takes(bytes, &a) == want, "%s: peers %s it", str(v, "name"), want ? "accept" : "reject");
	}
	ck_assert_msg(known, "%s: a kind without a test", str(v, "kind"));
	unload(bytes);
	arena_done(&a);
}
END_TEST

/*
 * Each kind of the file has its test above; a new one must not go unseen.  The counts are those of doc/testing.md: all
 * are read, and those that have one encoding are written, by the tests of their kinds.
 */
START_TEST(test_every_kind_is_tested)
{
	static const struct {
		const char *name;
		bool written;
	} kinds[] = {
		{ "packet", true }, { "capture-packet", true }, { "stream", true }, { "capture-stream", true },
		{ "serf-message", true }, { "node-meta", true }, { "query-filter", true }, { "ack-payload", true },
		{ "lzw", true }, { "stream-prefix", false },
	};
	unsigned written = 0, exact = 0;
	json_t *v;
	size_t i;

	json_array_foreach(vectors, i, v) {
		bool known = strncmp(str(v, "kind"), "decode-", 7) == 0;

		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			known = known || is_kind(v, kinds[k].name);
			written += kinds[k].written && is_kind(v, kinds[k].name) && json_is_true(json_object_get(v, "exact"));
		}
		exact += json_is_true(json_object_get(v, "exact"));
		ck_assert_msg(known, "kind %s", str(v, "kind"));
	}
	ck_assert_uint_eq(json_array_size(vectors), 167);
	ck_assert_uint_eq(exact, 104);
	ck_assert_uint_eq(written, exact);
}
END_TEST

/* -- values behind the verdicts, and rules of our own ---------------------------------------------- */

static struct span
hex_body(const char *hex, uint8_t *buf, size_t cap)
{
	return span_of(buf, unhex(hex, buf, cap));
}

START_TEST(test_alive_forms)
{
	static const struct {
		const char *what, *hex;
		uint32_t incarnation;
		uint16_t port;
		size_t node_len, meta_len, vsn_len;
	} cases[] = {
		{ "array form", "9601a16ea47f000001cd1f0aa0a6010502020505", 1, 7946, 1, 0, 6 },
		{ "array form, longer than known", "9701a16ea47f000001cd1f0aa0a601050202050505", 1, 7946, 1, 0, 6 },
		{ "array form, shorter", "9201a16e", 1, 0, 1, 0, 0 },
		{ "vsn as array", "81a356736e96010502020505", 0, 0, 0, 0, 6 },
		{ "last duplicate wins", "82a4506f72740aa4506f72740b", 0, 11, 0, 0, 0 },
		{ "duplicate nil resets", "82a4506f72740aa4506f7274c0", 0, 0, 0, 0, 0 },
		{ "whole struct nil", "c0", 0, 0, 0, 0, 0 },
		{ "signed form", "81ab496e6361726e6174696f6ed30000000000000005", 5, 0, 0, 0, 0 },
		{ "meta bin32", "82a44d657461c600000003616263a44e6f6465a16e", 0, 0, 1, 3, 0 },
		{ "large byte array", "81a4416464729400cc80ccffcd0001", 0, 0, 0, 0, 0 },
	};
	uint8_t raw[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arena a = ARENA_INIT(4096);
		struct wire_alive m;

		ck_assert_msg(wire_get_alive(hex_body(cases[i].hex, raw, sizeof(raw)), &a, &m) == TV_OK, "%s", cases[i].what);
		ck_assert_msg(m.incarnation == cases[i].incarnation && m.port == cases[i].port &&
		    m.node.len == cases[i].node_len && m.meta.len == cases[i].meta_len && m.vsn.len == cases[i].vsn_len, "%s",
		    cases[i].what);
		arena_done(&a);
	}
}
END_TEST

/* Inputs that peers accept and that we must not: they crash somebody or make no sense. */
START_TEST(test_own_refusals)
{
	static const struct {
		const char *what, *hex;
	} cases[] = {
		{ "vsn of one byte", "81a356736ea101" },
		{ "vsn of three bytes", "81a356736ea3010502" },
		{ "vsn of five bytes", "81a356736ea50105020205" },
		{ "address of five bytes", "81a441646472a57f00000101" },
		{ "address of one byte", "81a441646472a17f" },
		{ "address of 17 bytes", "81a441646472b10000000000000000000000000000000000" },
		{ "array of integers above a byte", "81a4416464729400cd010000" },
		{ "array where text is wanted", "81a44e6f64659161" },
		{ "map32 of four thousand million", "dfffffffff" },
		{ "str32 beyond the end", "81a44e6f6465dbffffffff61" },
		{ "unassigned byte", "81a44e6f6465c1" },
	};
	uint8_t raw[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct arena a = ARENA_INIT(4096);
		struct wire_alive m;

		ck_assert_msg(wire_get_alive(hex_body(cases[i].hex, raw, sizeof(raw)), &a, &m) != TV_OK, "%s", cases[i].what);
		arena_done(&a);
	}
}
END_TEST

START_TEST(test_deep_nesting)
{
	struct buf b = BUF_INIT(1 << 20);
	struct wire_alive m;

	mpw_map(&b, 2);
	mpw_raw_cstr(&b, "x");
	for (unsigned i = 0; i < 100000; i++)
		mpw_array(&b, 1);
	mpw_nil(&b);
	mpw_raw_cstr(&b, "Port");
	mpw_uint(&b, 1);
	ck_assert_int_ne(wire_get_alive(buf_span(&b), NULL, &m), TV_OK);
	buf_done(&b);
}
END_TEST

/* Nil and empty are two things on the wire. */
START_TEST(test_nil_and_empty)
{
	struct buf b = BUF_INIT(256);
	struct wire_ack m = { .seq = 1 };

	wire_put_ack(&b, &m);
	ck_assert(span_eq(buf_span(&b), span_of("\x02\x82\xa7Payload\xc0\xa5SeqNo\x01", 18)));
	buf_reset(&b);
	m.payload = span_str("");
	wire_put_ack(&b, &m);
	ck_assert(span_eq(buf_span(&b), span_of("\x02\x82\xa7Payload\xa0\xa5SeqNo\x01", 18)));
	ck_assert_int_eq(wire_get_ack(span_of(b.data + 1, b.len - 1), NULL, &m), TV_OK);
	ck_assert_ptr_nonnull(m.payload.p);
	buf_done(&b);
}
END_TEST

START_TEST(test_small_rules)
{
	static const uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 };
	static const uint8_t v6[16] = { 0xfd, [15] = 1 };
	struct span v4 = span_of(mapped + 12, 4), both = span_of(mapped, 16);

	ck_assert(wire_addr_same(v4, both) && wire_addr_same(both, v4) && wire_addr_same(v4, v4));
	ck_assert(!wire_addr_same(span_of(v6, 16), both) && !wire_addr_same(SPAN_NONE, v4));
	ck_assert(wire_vsn_usable(SPAN_NONE));
	ck_assert(wire_vsn_usable(span_of("\1\5\2\2\5\5", 6)));
	ck_assert(!wire_vsn_usable(span_of("\0\5\2\2\5\5", 6)));
	ck_assert(!wire_vsn_usable(span_of("\1\0\2\2\5\5", 6)));
	ck_assert(!wire_vsn_usable(span_of("\3\2\2\2\5\5", 6)));
	ck_assert(!wire_vsn_usable(span_of("\1\5\2", 3)));
}
END_TEST

/* A bad node is passed over; bytes that are no msgpack end the walk. */
START_TEST(test_node_walk)
{
	struct buf b = BUF_INIT(1024);
	struct wire_node n = { .name = span_str("a"), .vsn = span_of("\1\5\2\2\5\5", 6) }, bad = n, got;
	struct wire_node_iter it;

	bad.vsn = span_of("\1\5\2", 3);
	wire_put_node(&b, &n);
	wire_put_node(&b, &bad);
	mpw_uint(&b, 7);
	wire_put_node(&b, &n);
	it = wire_nodes(buf_span(&b), 5);
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_OK);
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_EFORMAT);
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_EFORMAT);
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_OK);
	ck_assert(span_eqs(got.name, "a"));
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_EFORMAT);
	ck_assert_int_eq(wire_node_next(&it, NULL, &got), TV_EOF);
	buf_done(&b);
}
END_TEST

/* -- Serf's own refusals ------------------------------------------------------------------------------ */

START_TEST(test_serf_refusals)
{
	struct buf b = BUF_INIT(4096);
	struct serf_query q = { .name = span_str("_serf_use-key"), .filters = span_of("\x91\xa0", 2) };
	struct serf_relay r = { .inner = span_of("\x09", 1) };

	serf_put_query(&b, &q);
	ck_assert_int_eq(serf_get_query(span_of(b.data + 1, b.len - 1), NULL, &q), TV_EFORMAT);	/* empty filter */
	buf_reset(&b);
	q = (struct serf_query){ .name = span_str("_serf_use-key") };
	serf_put_query(&b, &q);
	ck_assert_int_eq(serf_get_query(span_of(b.data + 1, b.len - 1), NULL, &q), TV_EFORMAT);	/* no payload */
	buf_reset(&b);
	q = (struct serf_query){ .name = span_str("_serf_list-keys") };
	serf_put_query(&b, &q);
	ck_assert_int_eq(serf_get_query(span_of(b.data + 1, b.len - 1), NULL, &q), TV_OK);
	buf_reset(&b);
	serf_put_relay(&b, &r);
	ck_assert_int_eq(serf_get_relay(span_of(b.data + 1, b.len - 1), NULL, &r), TV_EFORMAT);	/* relay in relay */
	buf_done(&b);
}
END_TEST

START_TEST(test_tags_limits)
{
	struct buf b = BUF_INIT(4096);
	char value[600];
	struct member_tag tag = { span_str("t"), span_of(value, sizeof(value)) }, many[MEMBER_TAGS_MAX + 1];

	memset(value, 'v', sizeof(value));
	ck_assert_int_eq(serf_put_meta(&b, &tag, 1), TV_ELIMIT);
	ck_assert_uint_eq(b.len, 0);
	tag.value.len = 512 - 1 - 1 - 2 - 3;		/* magic, map, name, da and length */
	ck_assert_int_eq(serf_put_meta(&b, &tag, 1), TV_OK);
	ck_assert_uint_eq(b.len, 512);
	ck_assert(serf_meta_ok(buf_span(&b)));
	ck_assert(!serf_meta_ok(span_of(b.data, b.len - 1)));
	ck_assert(!serf_meta_ok(span_of("\xff", 1)));
	ck_assert(!serf_meta_ok(span_of("\xff\x81\xa1k", 4)));
	ck_assert(!serf_meta_ok(span_of("\xff\x81\x01\xa0", 4)));
	ck_assert(serf_meta_ok(SPAN_NONE) && serf_meta_ok(span_str("web")));
	for (unsigned i = 0; i < MEMBER_TAGS_MAX + 1; i++)
		many[i] = (struct member_tag){ span_str("k"), span_str("") };
	ck_assert_int_eq(serf_put_meta(&b, many, MEMBER_TAGS_MAX + 1), TV_ELIMIT);
	buf_done(&b);
}
END_TEST

START_TEST(test_coord_refusals)
{
	struct coordinate c = { .error = 1.5, .height = 1e-5 };
	struct buf b = BUF_INIT(256);

	serf_put_coord(&b, &c);
	ck_assert_uint_eq(b.len, 130);
	ck_assert_int_eq(serf_get_coord(buf_span(&b), &c), TV_OK);
	b.data[0] = 2;
	ck_assert_int_eq(serf_get_coord(buf_span(&b), &c), TV_ENOENT);
	ck_assert_int_eq(serf_get_coord(SPAN_NONE, &c), TV_ENOENT);
	buf_reset(&b);
	c.vec[3] = __builtin_nan("");
	serf_put_coord(&b, &c);
	ck_assert_int_eq(serf_get_coord(buf_span(&b), &c), TV_EFORMAT);
	ck_assert_int_eq(serf_get_coord(span_of("\1\x81\xa3Vec\x91\x01", 8), &c), TV_EFORMAT);
	buf_done(&b);
}
END_TEST

/* Every truncation of every Serf message is refused or read as a shorter one, without touching what is not there. */
START_TEST(test_serf_truncated)
{
	const json_t *v = json_array_get(vectors, (size_t)_i);
	struct span bytes;

	if (!is_kind(v, "serf-message"))
		return;
	bytes = load(str(v, "hex"));
	for (size_t n = 0; n < bytes.len; n++) {
		struct buf again = BUF_INIT(1 << 20);
		uint8_t *cut = malloc(n > 0 ? n : 1);

		memcpy(cut, bytes.p, n);
		json_decref(describe_serf(span_of(cut, n), &again));
		free(cut);
		buf_done(&again);
	}
	unload(bytes);
}
END_TEST

static Suite *
gossip_wire_suite(void)
{
	Suite *s = suite_create("gossip_wire");
	TCase *tv = tcase_create("vectors"), *tc = tcase_create("rules");
	int n = (int)json_array_size(vectors);

	tcase_add_loop_test(tv, test_envelope_vector, 0, n);
	tcase_add_loop_test(tv, test_truncated_vector, 0, n);
	tcase_add_loop_test(tv, test_stream_prefix, 0, n);
	tcase_add_loop_test(tv, test_serf_vector, 0, n);
	tcase_add_loop_test(tv, test_lzw_vector, 0, n);
	tcase_add_loop_test(tv, test_verdict, 0, n);
	tcase_add_loop_test(tv, test_serf_truncated, 0, n);
	tcase_add_test(tv, test_every_kind_is_tested);
	tcase_add_test(tc, test_alive_forms);
	tcase_add_test(tc, test_own_refusals);
	tcase_add_test(tc, test_deep_nesting);
	tcase_add_test(tc, test_nil_and_empty);
	tcase_add_test(tc, test_small_rules);
	tcase_add_test(tc, test_node_walk);
	tcase_add_test(tc, test_serf_refusals);
	tcase_add_test(tc, test_tags_limits);
	tcase_add_test(tc, test_coord_refusals);
	suite_add_tcase(s, tv);
	suite_add_tcase(s, tc);
	return s;
}

int
main(void)
{
	SRunner *sr;
	int failed;

	vectors = json_load_file(TV_SRCDIR "/tests/data/serf-vectors.json", 0, NULL);
	if (vectors == NULL)
		return 1;
	sr = srunner_create(gossip_wire_suite());
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	json_decref(vectors);
	return failed == 0 ? 0 : 1;
}
