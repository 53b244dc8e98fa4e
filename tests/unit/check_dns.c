/* Packets, names and answers of DNS: what the recorded cases cannot show. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpcd/dns/explain.h"
#include "rpcd/dns/rate.h"

#define NITEMS(a_) (sizeof(a_) / sizeof((a_)[0]))

static struct dns_zone zone;
static struct dns_names names;
static struct arena arena, work;	/* work: of one answer, as in rpcd-dns */
static struct buf out;

static void
setup(void)
{
	zone = (struct dns_zone){ .datacenter = span_str("dc1"), .udp_answer_limit = 3, .compress = true,
	    .node_meta = true, .soa_refresh = 3600, .soa_retry = 600, .soa_expire = 86400 };
	ck_assert_int_eq(dname_of_text(span_str("consul."), &zone.domain), TV_OK);
	arena = ARENA_INIT(8 << 20);
	work = ARENA_INIT(32 << 20);
	out = BUF_INIT(2 * DNS_MESSAGE_BYTES_MAX);
}

static void
teardown(void)
{
	arena_done(&arena);
	arena_done(&work);
	buf_done(&out);
}

/* A question; edns 0: none. */
static struct span
question(const char *name, uint16_t type, uint16_t edns)
{
	struct buf b = BUF_INIT(1024);
	struct dname n;

	ck_assert_int_eq(dname_of_text(span_str(name), &n), TV_OK);
	buf_u16be(&b, 0x4242);
	buf_u16be(&b, DNS_RD);
	buf_u16be(&b, 1);
	buf_u32be(&b, 0);
	buf_u16be(&b, edns > 0);
	buf_putspan(&b, dname_span(&n));
	buf_u16be(&b, type);
	buf_u16be(&b, 1);
	if (edns > 0) {
		buf_u8(&b, 0);
		buf_u16be(&b, DNS_OPT);
		buf_u16be(&b, edns);
		buf_u32be(&b, 0);
		buf_u16be(&b, 0);
	}
	struct span kept = arena_copy(&arena, buf_span(&b));
	buf_done(&b);
	return kept;
}

/* -- names -- */

START_TEST(names_that_are_read)
{
	static const struct { const char *bytes; size_t len, at, len_read; int err; } cases[] = {
		{ "\1a\0", 3, 0, 3, TV_OK },
		{ "\0", 1, 0, 1, TV_OK },
		{ "\1a", 2, 0, 0, TV_EFORMAT },
		{ "", 0, 0, 0, TV_EFORMAT },
		{ "\1a\0\1b\300\0", 7, 3, 5, TV_OK },
		{ "\300\0", 2, 0, 0, TV_EFORMAT },		/* to itself */
		{ "\1a\300\4\1b\0", 7, 0, 0, TV_EFORMAT },	/* forwards */
		{ "\1a\300\0", 4, 0, 0, TV_EFORMAT },		/* round and round */
		{ "\100a\0", 3, 0, 0, TV_EFORMAT },
		{ "\300", 1, 0, 0, TV_EFORMAT },
	};

	for (unsigned i = 0; i < NITEMS(cases); i++) {
		struct dname n;
		size_t at = cases[i].at;

		ck_assert_int_eq(dname_read(span_of(cases[i].bytes, cases[i].len), &at, &n), cases[i].err);
		if (cases[i].err == TV_OK)
			ck_assert_uint_eq(n.len, cases[i].len_read);
	}
}
END_TEST

START_TEST(longest_name)
{
	uint8_t bytes[300];
	struct dname n;
	size_t at = 0;

	for (unsigned i = 0; i < 254; i += 2)
		bytes[i] = 1, bytes[i + 1] = 'a';
	bytes[254] = 0;
	ck_assert_int_eq(dname_read(span_of(bytes, 255), &at, &n), TV_OK);
	ck_assert_uint_eq(n.len, 255);
	for (unsigned i = 0; i < 256; i += 2)
		bytes[i] = 1, bytes[i + 1] = 'a';
	bytes[256] = 0;
	at = 0;
	ck_assert_int_eq(dname_read(span_of(bytes, 257), &at, &n), TV_EFORMAT);
}
END_TEST

START_TEST(text_of_names)
{
	static const struct { const char *text; int err; unsigned len; } cases[] = {
		{ "a.b", TV_OK, 5 }, { "a.b.", TV_OK, 5 }, { ".", TV_OK, 1 }, { "", TV_EINVAL, 0 }, { "a..b", TV_EINVAL, 0 },
		{ ".a", TV_EINVAL, 0 }, { "a..", TV_EINVAL, 0 },
		{ "0123456789012345678901234567890123456789012345678901234567890123", TV_EINVAL, 0 },
	};
	char text[8] = "";
	size_t used = 0;

	for (unsigned i = 0; i < NITEMS(cases); i++) {
		struct dname n;

		ck_assert_int_eq(dname_of_text(span_str(cases[i].text), &n), cases[i].err);
		if (cases[i].err == TV_OK)
			ck_assert_uint_eq(n.len, cases[i].len);
	}
	ck_assert(dname_label_text((const uint8_t *)"a.", 2, text, sizeof(text), &used));
	ck_assert_str_eq(text, "a\\.");
	used = 0;
	ck_assert(!dname_label_text((const uint8_t *)"\1\1", 2, text, sizeof(text), &used));
}
END_TEST

/* -- meanings -- */

START_TEST(what_names_mean)
{
	static const struct { const char *name; uint16_t type; int form, kind; const char *of, *tag, *dc; } cases[] = {
		{ "n1.node.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_NODE, "n1", "", "" },
		{ "a.b.node.dc2.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_NODE, "a.b", "", "dc2" },
		{ "n1.node.dc2.x.consul", DNS_A, DNS_FORM_NONE, 0, "", "", "" },
		{ "x.service.z.node.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_NODE, "x.service.z", "", "" },
		{ "v1.2.web.service.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_SERVICE, "web", "v1.2", "" },
		{ "_db._tcp.service.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_SERVICE, "db", "", "" },
		{ "_db._x.consul", DNS_SRV, DNS_FORM_LOOKUP, DNS_KIND_SERVICE, "db", "x", "" },
		{ "_db._x.consul", DNS_A, DNS_FORM_NONE, 0, "", "", "" },
		{ "_._tcp.service.consul", DNS_SRV, DNS_FORM_NONE, 0, "", "", "" },
		{ "x.web.connect.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_CONNECT, "web", "", "" },
		{ "x.web.ingress.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_INGRESS, "web", "", "" },
		{ "a.q.query.dc2.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_QUERY, "a.q", "", "dc2" },
		{ "_q._tcp.query.consul", DNS_SRV, DNS_FORM_LOOKUP, DNS_KIND_QUERY, "q", "", "" },
		{ "_a.q._x.query.dc2.consul", DNS_A, DNS_FORM_LOOKUP, DNS_KIND_QUERY, "a.q", "", "dc2" },
		{ "_q.query.consul", DNS_SRV, DNS_FORM_LOOKUP, DNS_KIND_QUERY, "_q", "", "" },
		{ "_q.tcp.query.consul", DNS_SRV, DNS_FORM_LOOKUP, DNS_KIND_QUERY, "_q.tcp", "", "" },
		{ "_._tcp.query.consul", DNS_SRV, DNS_FORM_NONE, 0, "", "", "" },
		{ "service.consul", DNS_A, DNS_FORM_NONE, 0, "", "", "" },
		{ "consul", DNS_A, DNS_FORM_NONE, 0, "", "", "" },
		{ "0a000001.addr.x.y.consul", DNS_A, DNS_FORM_ADDR, 0, "", "", "" },
		{ "0a00000.addr.consul", DNS_A, DNS_FORM_EMPTY, 0, "", "", "" },
		{ "0a0000011.addr.consul", DNS_A, DNS_FORM_NONE, 0, "", "", "" },
	};

	for (unsigned i = 0; i < NITEMS(cases); i++) {
		struct dns_asked asked;
		struct dname n;
		size_t labels;

		ck_assert_int_eq(dname_of_text(span_str(cases[i].name), &n), TV_OK);
		ck_assert_int_eq(dns_place_of(&zone, &n, &labels), DNS_PLACE_ZONE);
		dns_parse(&zone, &n, labels, cases[i].type, &asked);
		ck_assert_msg(asked.form == (enum dns_form)cases[i].form, "%s", cases[i].name);
		if (asked.form != DNS_FORM_LOOKUP)
			continue;
		ck_assert_msg(asked.lookup.kind == (enum dns_kind)cases[i].kind, "%s", cases[i].name);
		ck_assert(span_eqs(asked.lookup.name, cases[i].of));
		ck_assert(span_eqs(asked.lookup.tag, cases[i].tag));
		ck_assert(asked.lookup.tagged == (cases[i].tag[0] != '\0'));
		ck_assert(span_eqs(asked.lookup.datacenter, cases[i].dc));
	}
}
END_TEST

START_TEST(reverse_names)
{
	static const struct { const char *name; unsigned len; } cases[] = {
		{ "4.3.2.10.in-addr.arpa", 4 }, { "3.2.10.in-addr.arpa", 0 }, { "5.4.3.2.10.in-addr.arpa", 0 },
		{ "04.3.2.10.in-addr.arpa", 0 }, { "256.3.2.10.in-addr.arpa", 0 }, { "a.3.2.10.in-addr.arpa", 0 },
		{ "b.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", 16 },
		{ "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa", 0 },
		{ "4.0.3.0.2.0.a.0.f.f.f.f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", 0 },	/* mapped */
	};
	uint8_t address[16];

	for (unsigned i = 0; i < NITEMS(cases); i++) {
		struct dname n;

		ck_assert_int_eq(dname_of_text(span_str(cases[i].name), &n), TV_OK);
		ck_assert_msg(dns_parse_reverse(&n, address) == cases[i].len, "%s", cases[i].name);
		if (cases[i].len == 4)
			ck_assert_mem_eq(address, "\12\2\3\4", 4);
		if (cases[i].len == 16)
			ck_assert_mem_eq(address, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x0b", 16);
	}
}
END_TEST

/* -- answers -- */

/* Answers a question about a service whose instances are given; returns whether it was done. */
static enum dns_outcome
answer(struct span msg, bool tcp, const struct dns_found *found)
{
	struct dns_facts facts = { .n = 0 };
	struct dns_asker asker = { .tcp = tcp, .seed = 7, .names = &names };
	struct dns_query q;
	enum dns_rcode rcode;

	ck_assert_int_eq(dns_query_read(msg, &q, &rcode), DNS_SERVE);
	for (unsigned round = 0; round < 10; round++) {
		buf_reset(&out);
		if (facts.n == 0)
			arena_reset(&work);
		enum dns_outcome o = dns_answer(&zone, &q, &asker, &facts, &work, &out);

		if (o != DNS_NEED)
			return o;
		for (unsigned i = 0; i < facts.n; i++)
			facts.v[i].found = found;
	}
	ck_abort_msg("it never has enough");
	return DNS_NEED;
}

static unsigned
answers(void)
{
	return (unsigned)out.data[6] << 8 | out.data[7];
}

static struct dns_instance *
many(unsigned n)
{
	struct dns_instance *v = arena_array(&arena, n, sizeof(*v));

	for (unsigned i = 0; i < n; i++) {
		v[i].node = arena_printf(&arena, "node-%u", i);
		v[i].address = arena_printf(&arena, "10.0.%u.%u", i / 250, i % 250 + 1);
		v[i].port = 80;
		v[i].weight = 1;
	}
	return v;
}

START_TEST(sizes)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(5000),
	    .count = 5000 };

	for (unsigned type = 0; type < 2; type++)
		for (unsigned size = 0; size <= 4096; size += 372) {
			struct span q = question("web.service.consul", type == 0 ? DNS_A : DNS_SRV, (uint16_t)size);

			ck_assert_int_eq(answer(q, false, &found), DNS_DONE);
			ck_assert_uint_ge(answers(), 1);
			ck_assert_uint_le(out.len, (size > 512 ? size : 512) + 4);
		}
	ck_assert_int_eq(answer(question("web.service.consul", DNS_A, 0), true, &found), DNS_DONE);
	ck_assert_uint_eq(answers(), 4092);
	ck_assert_uint_le(out.len, DNS_MESSAGE_BYTES_MAX);
	ck_assert_int_eq(answer(question("web.service.consul", DNS_SRV, 0), true, &found), DNS_DONE);
	ck_assert_uint_le(answers(), 1024);
	ck_assert_uint_le(out.len, DNS_MESSAGE_BYTES_MAX);
	ck_assert_uint_eq(out.data[2] & 2, 0);			/* TC: off */
	zone.truncate = true;
	ck_assert_int_eq(answer(question("web.service.consul", DNS_A, 0), false, &found), DNS_DONE);
	ck_assert_uint_eq(answers(), 3);
	ck_assert_uint_ne(out.data[2] & 2, 0);
}
END_TEST

/* Each host name leads to the next question; it ends, and no question needs more facts than there may be. */
START_TEST(aliases_end)
{
	struct dns_instance *v = many(100);
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = v, .count = 100 };

	for (unsigned i = 0; i < 100; i++)
		v[i].service_address = arena_printf(&arena, "s%u.service.consul", i);
	for (unsigned type = 0; type < 3; type++) {
		ck_assert_int_eq(answer(question("web.service.consul", type == 0 ? DNS_A : type == 1 ? DNS_SRV :
		    DNS_ANY, 4096), true, &found), DNS_DONE);
		ck_assert_uint_ge(answers(), 1);
	}
	v[0].address = span_str("n.node.consul");
	found.count = 1;
	ck_assert_int_eq(answer(question("n.node.consul", DNS_A, 0), false, &found), DNS_DONE);
	ck_assert_uint_eq(answers(), DNS_ALIASES_MAX + 1);
}
END_TEST

/* Where the catalog takes a node's name and DNS cannot write it, its address is the target; nothing else suffers. */
START_TEST(names_that_cannot_be_written)
{
	struct dns_instance *v = many(2);
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = v, .count = 2 };
	struct span meta[1][2] = { { span_str("k"), arena_printf(&arena, "%0300d", 0) } };

	static const uint8_t target[] = "\0100a000001\4addr\3dc1\6consul";
	v[0].node = arena_printf(&arena, "%070d", 0);
	v[1].meta = (struct span_map){ meta, 1, true };
	ck_assert_int_eq(answer(question("web.service.consul", DNS_SRV, 0), true, &found), DNS_DONE);
	ck_assert_uint_eq(answers(), 2);
	ck_assert_int_eq(answer(question("web.service.consul", DNS_A, 0), true, &found), DNS_DONE);
	ck_assert_uint_eq(answers(), 2);
	zone.compress = false;
	found.count = 1;
	for (unsigned i = 0; i < 2; i++) {		/* then with an empty label: it is not the name of another node */
		ck_assert_int_eq(answer(question("web.service.consul", DNS_SRV, 0), true, &found), DNS_DONE);
		ck_assert_uint_eq(answers(), 1);
		ck_assert_ptr_nonnull(memmem(out.data, out.len, target, sizeof(target)));
		v[0].node = span_str("node-1.");
	}
}
END_TEST

/* Does the answer have this name, written in full? */
static bool
names_it(const char *name)
{
	struct dname n;

	ck_assert_int_eq(dname_of_text(span_str(name), &n), TV_OK);
	return memmem(out.data, out.len, n.wire, n.len) != NULL;
}

/* What is below the alternate domain is answered of it; one below the main domain is a part of that. */
START_TEST(zone_of_the_question)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(1), .count = 1 };
	static const struct { const char *alt, *below, *other; } cases[] = {
		{ "corp.example", "corp.example", "consul" }, { "alt.consul", "consul", "dc1.alt.consul" },
	};
	char name[64], target[64];

	zone.compress = false;
	for (unsigned i = 0; i < NITEMS(cases); i++) {
		ck_assert_int_eq(dname_of_text(span_str(cases[i].alt), &zone.alt_domain), TV_OK);
		snprintf(target, sizeof(target), "%s.%s", "node-0.node.dc1", cases[i].below);
		for (unsigned type = 0; type < 3; type++) {
			snprintf(name, sizeof(name), "%s.%s", type == 0 ? "web.service" : "x", cases[i].alt);
			if (type == 1)
				snprintf(name, sizeof(name), "%s", cases[i].alt);
			ck_assert_int_eq(answer(question(name, type == 0 ? DNS_SRV : type == 1 ? DNS_NS : DNS_A, 0), true,
			    &found), DNS_DONE);
			snprintf(name, sizeof(name), "%s.%s", "hostmaster", cases[i].below);
			ck_assert_msg(names_it(type == 2 ? name : target), "%u %s", type, cases[i].alt);
			snprintf(name, sizeof(name), "%s.%s", type == 2 ? "hostmaster" : "node-0.node.dc1", cases[i].other);
			ck_assert(i == 1 || !names_it(name));
		}
		snprintf(name, sizeof(name), "%s.%s", "0a000001.addr", cases[i].alt);
		ck_assert_int_eq(answer(question(name, DNS_A, 0), true, &found), DNS_DONE);
		snprintf(name, sizeof(name), "%s.%s", "0a000001.addr", cases[i].below);
		ck_assert(answers() == 1 && names_it(name));
	}
}
END_TEST

/* Other classes, opcodes and versions of EDNS are refused as the RFCs have it. */
START_TEST(not_our_kind)
{
	static const struct { size_t from_end; uint8_t value; unsigned size; int rcode; } cases[] = {
		{ 1, 3, 0, DNS_REFUSED }, { 1, 4, 0, DNS_REFUSED }, { 1, 255, 0, DNS_REFUSED }, { 5, 1, 1232, DNS_BADVERS },
		{ 5, 200, 1232, DNS_BADVERS }, { 0, 0x21, 0, DNS_NOTIMP }, { 0, 0x29, 0, DNS_NOTIMP },
	};

	for (unsigned i = 0; i < NITEMS(cases); i++) {
		struct span q = question("web.service.consul", DNS_A, (uint16_t)cases[i].size);
		uint8_t *bytes = arena_alloc(&arena, q.len);
		struct dns_query read;
		enum dns_rcode rcode;

		memcpy(bytes, q.p, q.len);
		bytes[cases[i].from_end > 0 ? q.len - cases[i].from_end : 2] = cases[i].value;
		ck_assert_int_eq(dns_query_read(span_of(bytes, q.len), &read, &rcode), DNS_REJECT);
		ck_assert_int_eq(rcode, cases[i].rcode);
		buf_reset(&out);
		dns_reply_bare(&read, 0, rcode, &out);
		ck_assert_uint_eq(out.data[3] & 15, cases[i].rcode == DNS_BADVERS ? 0 : cases[i].rcode);
		ck_assert_uint_eq(out.data[11], cases[i].rcode == DNS_BADVERS);
		if (cases[i].rcode == DNS_BADVERS)	/* extended code 1, version 0 */
			ck_assert_mem_eq(out.data + out.len - 6, "\1\0\0\0\0\0", 6);
	}
}
END_TEST

/* Any cut of a message has an answer, or none; with every bit turned, too. */
START_TEST(cut_and_turned)
{
	struct span whole = question("web.service.consul", DNS_SRV, 1232);
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(5), .count = 5 };

	for (size_t n = 0; n <= whole.len; n++) {
		struct dns_query q;
		enum dns_rcode rcode;
		enum dns_verdict v = dns_query_read(span_of(whole.p, n), &q, &rcode);

		ck_assert_int_eq(v == DNS_IGNORE, n < DNS_HEADER_BYTES);
		buf_reset(&out);
		if (v == DNS_REJECT)
			dns_reply_bare(&q, 0, rcode, &out);
	}
	for (size_t bit = 0; bit < whole.len * 8; bit++) {
		uint8_t *bytes = arena_alloc(&arena, whole.len);
		struct dns_query q;
		enum dns_rcode rcode;

		memcpy(bytes, whole.p, whole.len);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (dns_query_read(span_of(bytes, whole.len), &q, &rcode) == DNS_SERVE)
			(void)answer(span_of(bytes, whole.len), false, &found);
	}
}
END_TEST

START_TEST(order_is_fair)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(4), .count = 4 };
	unsigned first[4] = { 0 };

	for (uint64_t seed = 0; seed < 4000; seed++) {
		struct dns_facts facts = { .n = 1, .v[0] = { { .kind = DNS_KIND_SERVICE, .name = span_str("web") }, &found } };
		struct dns_asker asker = { .seed = seed, .names = &names };
		struct dns_query q;
		enum dns_rcode rcode;
		struct span msg = question("web.service.consul", DNS_A, 0);

		ck_assert_int_eq(dns_query_read(msg, &q, &rcode), DNS_SERVE);
		buf_reset(&out);
		ck_assert_int_eq(dns_answer(&zone, &q, &asker, &facts, &work, &out), DNS_DONE);
		first[out.data[msg.len + 15] - 1]++;
		arena_reset(&work);
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert(first[i] > 850 && first[i] < 1150);
}
END_TEST

/* -- explanations -- */

static struct arena again;		/* of the answers that an explanation makes */

/* Explains a question about these facts, the first one of which is of what is asked. */
static struct dns_explanation
explained(const char *name, uint16_t type, bool tcp, const struct dns_found *found)
{
	struct dns_facts facts = { .n = 0 };
	struct dns_asker asker = { .tcp = tcp, .seed = 7, .names = &names };
	struct dns_explanation e;
	struct dns_query q;
	enum dns_rcode rcode;

	ck_assert_int_eq(dns_query_read(question(name, type, 0), &q, &rcode), DNS_SERVE);
	arena_reset(&work);
	for (;;) {
		buf_reset(&out);
		if (dns_answer(&zone, &q, &asker, &facts, &work, &out) != DNS_NEED)
			break;
		for (unsigned i = 0; i < facts.n; i++)
			facts.v[i].found = found;
	}
	again = ARENA_INIT(32 << 20);
	dns_explain(&zone, &q, &asker, &facts, &arena, &again, &out, &e);
	arena_done(&again);
	ck_assert_int_ne(e.outcome, DNS_NO_ANSWER);
	return e;
}

static unsigned
of_kind(const struct dns_explanation *e, enum dns_why why)
{
	unsigned n = 0;

	for (unsigned i = 0; i < e->instance_count; i++)
		n += e->instances[i].why == why;
	return n;
}

START_TEST(why_instances)
{
	struct dns_instance *v = many(12);
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = v, .count = 12 };
	struct dns_explanation e;

	v[0].state = DNS_CRITICAL;
	v[1].state = DNS_WARNING;
	v[2].address = span_str("2001:db8::1");
	v[3].address = v[4].address;
	v[5].service_address = span_str("www.example.net");
	v[6].node = arena_printf(&arena, "%070d", 0);
	v[7].service_address = arena_printf(&arena, "%070d", 0);
	e = explained("web.service.consul", DNS_A, true, &found);
	ck_assert_uint_eq(e.instance_count, 12);
	ck_assert_int_eq(e.instances[0].why, DNS_WHY_CRITICAL);
	ck_assert_int_eq(e.instances[1].why, DNS_WHY_ANSWERED);
	ck_assert_int_eq(e.instances[2].why, DNS_WHY_NO_ADDRESS);
	ck_assert_int_eq(e.instances[3].why, DNS_WHY_ANSWERED);
	ck_assert_int_eq(e.instances[4].why, DNS_WHY_SAME);
	ck_assert_int_eq(e.instances[5].why, DNS_WHY_HOST_NAME);
	ck_assert_uint_eq(of_kind(&e, DNS_WHY_ANSWERED), e.record_count);
	ck_assert_uint_eq(e.record_count, 7);
	e = explained("web.service.consul", DNS_SRV, true, &found);
	ck_assert_int_eq(e.instances[2].why, DNS_WHY_ANSWERED);
	ck_assert_int_eq(e.instances[4].why, DNS_WHY_ANSWERED);		/* another node */
	ck_assert_int_eq(e.instances[5].why, DNS_WHY_ANSWERED);
	ck_assert_int_eq(e.instances[6].why, DNS_WHY_ANSWERED);
	ck_assert_int_eq(e.instances[7].why, DNS_WHY_UNWRITABLE);
	zone.only_passing = true;
	e = explained("web.service.consul", DNS_A, true, &found);
	ck_assert_int_eq(e.instances[1].why, DNS_WHY_NOT_PASSING);
	zone.only_passing = false;
	/* All that is left out for its health: the name is not there. */
	found.count = 1;
	e = explained("web.service.consul", DNS_A, true, &found);
	ck_assert_int_eq(e.rcode, DNS_NXDOMAIN);
	ck_assert_int_eq(e.instances[0].why, DNS_WHY_CRITICAL);
}
END_TEST

START_TEST(why_limits)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(1000),
	    .count = 1000 };
	struct dns_explanation e = explained("web.service.consul", DNS_A, false, &found);

	ck_assert_uint_eq(of_kind(&e, DNS_WHY_ANSWERED) + of_kind(&e, DNS_WHY_ANSWER_LIMIT), DNS_EXPLAIN_MAX);
	ck_assert_uint_eq(e.record_count, 3);
	ck_assert_uint_eq(e.instance_count, DNS_EXPLAIN_MAX);
	ck_assert_uint_eq(e.instances_left_out, 1000 - DNS_EXPLAIN_MAX);
	zone.a_record_limit = 2;
	e = explained("web.service.consul", DNS_A, true, &found);
	ck_assert_uint_eq(of_kind(&e, DNS_WHY_ANSWERED) + of_kind(&e, DNS_WHY_RECORD_LIMIT), DNS_EXPLAIN_MAX);
	zone.a_record_limit = 0;
	for (unsigned i = 0; i < 8; i++)
		((struct dns_instance *)(uintptr_t)found.instances)[i].node = arena_printf(&arena, "%060u", i);
	found.count = 8;
	zone.udp_answer_limit = 8;
	e = explained("web.service.consul", DNS_SRV, false, &found);
	ck_assert_uint_eq(e.instance_count, 8);
	ck_assert_uint_eq(of_kind(&e, DNS_WHY_ANSWERED), e.record_count / 2);
	ck_assert_uint_eq(of_kind(&e, DNS_WHY_ANSWERED) + of_kind(&e, DNS_WHY_SIZE), 8);
	ck_assert_uint_ge(of_kind(&e, DNS_WHY_SIZE), 1);
}
END_TEST

START_TEST(ttls_and_texts)
{
	const struct dns_service_ttl ttls[] = { { span_str("w"), true, 7 }, { span_str("db"), false, 9 } };
	struct span meta[][2] = { { span_str("k"), span_str("a\"b\\c\1") } };
	struct dns_instance *v = many(1);
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = v, .count = 1 };
	struct dns_explanation e;

	zone.service_ttls = ttls;
	zone.service_ttl_count = 2;
	zone.node_ttl = 5;
	v[0].meta = (struct span_map){ meta, 1, true };
	e = explained("t.web.service.consul", DNS_SRV, true, &found);
	ck_assert_uint_eq(e.record_count, 3);
	ck_assert(span_eqs(e.records[0].data, "1 1 80 node-0.node.dc1.consul."));
	ck_assert(span_eqs(e.records[0].ttl_from, "dns_config.service_ttl \"w*\""));
	ck_assert_uint_eq(e.records[0].ttl, 7);
	ck_assert(span_eqs(e.records[1].owner, "node-0.node.dc1.consul.") && span_eqs(e.records[1].data, "10.0.0.1"));
	ck_assert(span_eqs(e.records[2].data, "\"k=a\\\"b\\\\c\\001\""));
	ck_assert_int_eq(e.records[2].section, DNS_SECTION_ADDITIONAL);
	e = explained("db.service.consul", DNS_A, true, &found);
	ck_assert(span_eqs(e.records[0].ttl_from, "dns_config.service_ttl \"db\""));
	e = explained("x.service.consul", DNS_A, true, &found);
	ck_assert_uint_eq(e.records[0].ttl, 0);
	e = explained("n.node.consul", DNS_A, true, &found);
	ck_assert(span_eqs(e.records[0].ttl_from, "dns_config.node_ttl"));
	ck_assert_uint_eq(e.instance_count, 0);
	found.has_ttl = true;
	e = explained("q.query.consul", DNS_A, true, &found);
	ck_assert(span_eqs(e.records[0].ttl_from, "the prepared query"));
	e = explained("consul", DNS_SOA, true, &found);
	ck_assert(e.apex && span_eqs(e.records[0].ttl_from, "dns_config.soa.min_ttl"));
	ck_assert(span_starts(e.records[0].data, span_str("ns.consul. hostmaster.consul. 0 3600 600 86400 0")));
	e = explained("4.3.2.10.in-addr.arpa", DNS_PTR, true, &found);
	ck_assert(span_eqs(e.records[0].data, "node-0.node.dc1.consul."));
	e = explained("www.example.net", DNS_A, true, &found);
	ck_assert_int_eq(e.outcome, DNS_FORWARD);
	ck_assert_int_eq(e.main, -1);
	e = explained("x.consul", DNS_A, true, &found);
	ck_assert_int_eq(e.rcode, DNS_NXDOMAIN);
}
END_TEST

START_TEST(types)
{
	char text[16];

	ck_assert_uint_eq(dns_type_of(span_str("srv")), DNS_SRV);
	ck_assert_uint_eq(dns_type_of(span_str("TYPE65535")), 65535);
	for (size_t i = 0; i < 6; i++)
		ck_assert_uint_eq(dns_type_of(span_str((const char *const[]){ "", "TYPE", "TYPE65536", "TYPE1x", "SR",
		    "TYPE+1" }[i])), 0);
	ck_assert_str_eq(dns_type_text(DNS_AAAA, text, sizeof(text)), "AAAA");
	ck_assert_str_eq(dns_type_text(65, text, sizeof(text)), "TYPE65");
}
END_TEST

/* Whatever the bytes are. */
START_TEST(records_that_are_none)
{
	struct dns_found found = { .status = DNS_FOUND, .datacenter = span_str("dc1"), .instances = many(3), .count = 3 };
	struct dns_shown *v;
	unsigned n;

	ck_assert_int_eq(answer(question("web.service.consul", DNS_SRV, 1232), false, &found), DNS_DONE);
	for (size_t cut = 0; cut < out.len; cut++)
		ck_assert(!dns_records_show(span_of(out.data, cut), &arena, &v, &n) || cut == out.len);
	for (size_t bit = 0; bit < out.len * 8; bit++) {
		out.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		(void)dns_records_show(buf_span(&out), &arena, &v, &n);
		out.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		arena_reset(&arena);
	}
}
END_TEST

/* -- the limit -- */

START_TEST(equal_answers)
{
	static struct rate r;
	unsigned passed = 0, slipped = 0;

	for (unsigned i = 0; i < 1000; i++) {
		enum rate_verdict v = rate_take(&r, 77, 10, 5000);

		passed += v == RATE_PASS;
		slipped += v == RATE_SLIP;
	}
	ck_assert_uint_eq(passed, 10);
	ck_assert_uint_eq(slipped, 495);
	ck_assert_int_eq(rate_take(&r, 78, 10, 5000), RATE_PASS);
	ck_assert_int_eq(rate_take(&r, 77, 10, 5099), RATE_DROP);
	ck_assert_int_eq(rate_take(&r, 77, 10, 5200), RATE_PASS);
	ck_assert_int_eq(rate_take(&r, 77, 0, 5200), RATE_PASS);
	for (passed = 0; rate_take(&r, 77, 1000000, 90000) == RATE_PASS; passed++)
		;
	ck_assert_uint_le(passed, 1000000);
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("dns");
	TCase *t = tcase_create("pure");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, names_that_are_read);
	tcase_add_test(t, longest_name);
	tcase_add_test(t, text_of_names);
	tcase_add_test(t, what_names_mean);
	tcase_add_test(t, reverse_names);
	tcase_add_test(t, sizes);
	tcase_add_test(t, aliases_end);
	tcase_add_test(t, names_that_cannot_be_written);
	tcase_add_test(t, zone_of_the_question);
	tcase_add_test(t, not_our_kind);
	tcase_add_test(t, cut_and_turned);
	tcase_add_test(t, order_is_fair);
	tcase_add_test(t, why_instances);
	tcase_add_test(t, why_limits);
	tcase_add_test(t, ttls_and_texts);
	tcase_add_test(t, types);
	tcase_add_test(t, records_that_are_none);
	tcase_add_test(t, equal_answers);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
