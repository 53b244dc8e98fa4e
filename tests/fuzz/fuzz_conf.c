/*
 * Configuration: any text against a table with every type.  What is accepted must print and parse again
 * to the same print; what is refused must say where.  The tree reads back from its own JSON.
 */
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/conf/cluster_conf.h"
#include "common/conf/ucl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
	bool flag;
	uint64_t number, bytes;
	struct mono wait;
	uint16_t port;
	char *text, *path, *name, *addr;
	struct conf_list list;
	int choice;
};

#define F(field_) CONF_FIELD(struct target, field_)

static const struct conf_opt opts[] = {
	{ "flag", CONF_BOOL, F(flag), "false", NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "number", CONF_U64, F(number), "1", "1", "100", NULL, CONF_LIVE, "help" },
	{ "bytes", CONF_SIZE, F(bytes), "1k", NULL, "1T", NULL, CONF_LIVE, NULL },
	{ "wait", CONF_DURATION, F(wait), "1s", "1ns", NULL, NULL, CONF_LIVE, "help" },
	{ "port", CONF_PORT, F(port), "1", NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "block.text", CONF_STRING, F(text), NULL, NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "block.path", CONF_PATH, F(path), NULL, NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "block.in.name", CONF_NAME, F(name), NULL, NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "addr", CONF_ADDR, F(addr), NULL, NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "list", CONF_LIST, F(list), NULL, NULL, NULL, NULL, CONF_LIVE, "help" },
	{ "choice", CONF_CHOICE, F(choice), "a", NULL, NULL, "a|b", CONF_LIVE, "help" },
};
#define OPTS opts, sizeof(opts) / sizeof(opts[0])

static void
table(struct span text)
{
	struct buf first = BUF_INIT(8 << 20), second = BUF_INIT(8 << 20);
	char errbuf[256];
	struct target t;

	if (conf_parse("f", text, OPTS, &t, errbuf, sizeof(errbuf)) != TV_OK) {
		TV_ASSERT(strncmp(errbuf, "f:", 2) == 0 && errbuf[2] >= '1' && errbuf[2] <= '9');
		return;
	}
	conf_print(OPTS, &t, &first);
	conf_free(OPTS, &t);
	TV_ASSERT(!first.failed && conf_parse("p", buf_span(&first), OPTS, &t, errbuf, sizeof(errbuf)) == TV_OK);
	conf_print(OPTS, &t, &second);
	conf_free(OPTS, &t);
	TV_ASSERT(span_eq(buf_span(&first), buf_span(&second)));
	buf_done(&first);
	buf_done(&second);
}

static void
tree(struct span text)
{
	struct arena a = ARENA_INIT(UCL_ARENA_BYTES_MAX), b = ARENA_INIT(UCL_ARENA_BYTES_MAX);
	struct buf first = BUF_INIT(16 << 20), second = BUF_INIT(16 << 20);
	struct ucl_node *root;
	struct ucl_error err;

	if (ucl_parse(text, &a, &root, &err) == TV_OK) {
		ucl_json(root, &first);
		if (first.len <= UCL_TEXT_BYTES_MAX) {
			TV_ASSERT(ucl_parse(buf_span(&first), &b, &root, &err) == TV_OK);
			ucl_json(root, &second);
			TV_ASSERT(span_eq(buf_span(&first), buf_span(&second)));
		}
	} else {
		TV_ASSERT(err.line >= 1 && err.text[0] != '\0');
	}
	arena_done(&a);
	arena_done(&b);
	buf_done(&first);
	buf_done(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char ip[ADDR_IP_BYTES], text[64];
	uint16_t port;

	table(span_of(data, size));
	tree(span_of(data, size));
	if (span_copy(span_of(data, size < 60 ? size : 60), text, sizeof(text)) &&
	    cluster_addr_parse(text, 1, ip, &port))
		TV_ASSERT(port >= 1 && ip[0] != '\0');
	return 0;
}
