/* The tokens of this agent, see tokens.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/file.h"
#include "common/record/ops.h"
#include "common/record/records.h"
#include "common/record/schema_json.h"
#include "rpcd/acl/tokens.h"

#define FILE_BYTES_MAX (16 * 1024)
#define TOKEN_BYTES_MAX OP_NAME_BYTES_MAX

RECORD_LOCAL(kept_tokens,
	(STR, Default, SF_OMITEMPTY), (STR, Agent, SF_OMITEMPTY), (STR, AgentMaster, SF_OMITEMPTY),
	(STR, Replication, SF_OMITEMPTY), (STR, ConfigFile, SF_OMITEMPTY))

static struct span *
field_of(struct kept_tokens *k, enum rpcd_token kind)
{
	struct span *const fields[RPCD_TOKENS] = {
		[RPCD_TOKEN_DEFAULT] = &k->Default, [RPCD_TOKEN_AGENT] = &k->Agent,
		[RPCD_TOKEN_AGENT_MASTER] = &k->AgentMaster, [RPCD_TOKEN_REPLICATION] = &k->Replication,
		[RPCD_TOKEN_CONFIG_FILE] = &k->ConfigFile,
	};

	return fields[kind];
}

static bool
put_token(struct agent_tokens *t, enum rpcd_token kind, struct span token, bool kept)
{
	struct buf fresh = BUF_INIT(TOKEN_BYTES_MAX);

	fresh.secret = true;
	buf_putspan(&fresh, token);
	if (fresh.failed) {
		buf_done(&fresh);
		return false;
	}
	buf_done(&t->set[kind]);
	t->set[kind] = fresh;
	t->is_set[kind] = true;
	t->kept[kind] = kept;
	return true;
}

static enum tv_err
take_file(struct agent_tokens *t, struct span text, char *why, size_t cap)
{
	struct arena a = ARENA_INIT(FILE_BYTES_MAX);
	struct kept_tokens k = { .Default = SPAN_NONE };
	json_t *v = json_first_value(text, why, cap);
	enum tv_err err = v == NULL ? TV_EFORMAT : schema_from_json(&kept_tokens_schema, v, 0, &a, &k, why, cap);

	json_decref(v);
	for (int kind = 0; kind < RPCD_TOKENS && err == TV_OK; kind++) {
		struct span token = *field_of(&k, (enum rpcd_token)kind);

		if (token.len > 0 && !put_token(t, (enum rpcd_token)kind, token, true)) {
			snprintf(why, cap, "a token is too long");
			err = TV_ELIMIT;
		}
	}
	arena_wipe(&a);
	arena_done(&a);
	return err;
}

enum tv_err
agent_tokens_open(struct agent_tokens *t, char *errbuf, size_t cap)
{
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	char why[256] = "";
	enum tv_err err;

	for (int kind = 0; kind < RPCD_TOKENS; kind++)
		t->set[kind] = BUF_INIT(TOKEN_BYTES_MAX);
	if (t->path == NULL || !t->conf->acl_persist)
		return TV_OK;
	text.secret = true;
	err = file_read(t->path, &text);
	if (err != TV_OK && err != TV_ENOENT)
		snprintf(why, sizeof(why), "%s", err == TV_ELIMIT ? "is too large" : strerror(errno));
	if (err == TV_OK)
		err = take_file(t, buf_span(&text), why, sizeof(why));
	buf_done(&text);
	if (err == TV_OK || err == TV_ENOENT)
		return TV_OK;
	agent_tokens_close(t);
	return tv_fail(errbuf, cap, err, "%s: %s", t->path, why);
}

void
agent_tokens_close(struct agent_tokens *t)
{
	for (int kind = 0; kind < RPCD_TOKENS; kind++) {
		buf_done(&t->set[kind]);
		t->is_set[kind] = t->kept[kind] = false;
	}
}

bool
agent_token_kind(struct span name, enum rpcd_token *out)
{
	static const char *const names[RPCD_TOKENS][3] = {
		[RPCD_TOKEN_DEFAULT] = { "default", "acl_token" },
		[RPCD_TOKEN_AGENT] = { "agent", "acl_agent_token" },
		[RPCD_TOKEN_AGENT_MASTER] = { "agent_master", "acl_agent_master_token", "agent_recovery" },
		[RPCD_TOKEN_REPLICATION] = { "replication", "acl_replication_token" },
		[RPCD_TOKEN_CONFIG_FILE] = { "config_file_service_registration" },
	};

	for (int kind = 0; kind < RPCD_TOKENS; kind++)
		for (int i = 0; i < 3 && names[kind][i] != NULL; i++)
			if (span_eqs(name, names[kind][i])) {
				*out = (enum rpcd_token)kind;
				return true;
			}
	return false;
}

struct span
agent_token(const struct agent_tokens *t, enum rpcd_token kind)
{
	if (t->is_set[kind])
		return buf_span(&t->set[kind]);
	return span_str(t->conf->acl_tokens[kind] == NULL ? "" : t->conf->acl_tokens[kind]);
}

struct span
agent_token_default(const struct agent_tokens *t)
{
	return t == NULL ? span_of("", 0) : agent_token(t, RPCD_TOKEN_DEFAULT);
}

struct span
agent_token_own(const struct agent_tokens *t)
{
	struct span own = t == NULL ? span_of("", 0) : agent_token(t, RPCD_TOKEN_AGENT);

	return own.len > 0 ? own : agent_token_default(t);
}

struct span
agent_token_config_file(const struct agent_tokens *t)
{
	return t == NULL ? span_of("", 0) : agent_token(t, RPCD_TOKEN_CONFIG_FILE);
}

const char *
agent_token_own_key(const struct agent_tokens *t)
{
	if (t != NULL && agent_token(t, RPCD_TOKEN_AGENT).len > 0)
		return "acl.tokens.agent";
	return agent_token_default(t).len > 0 ? "acl.tokens.default" : NULL;
}

/* All that were set by requests; an empty one is left out. */
static enum tv_err
write_file(struct agent_tokens *t)
{
	struct kept_tokens k = { .Default = SPAN_NONE };
	struct buf text = BUF_INIT(FILE_BYTES_MAX);
	enum tv_err err;

	text.secret = true;
	for (int kind = 0; kind < RPCD_TOKENS; kind++)
		if (t->is_set[kind])
			*field_of(&k, (enum rpcd_token)kind) = buf_span(&t->set[kind]);
	schema_json_rec(&kept_tokens_schema, &k, &text);
	buf_u8(&text, '\n');
	err = text.failed ? TV_ENOMEM : file_replace(AT_FDCWD, t->path, buf_span(&text), 0600);
	buf_done(&text);
	for (int kind = 0; kind < RPCD_TOKENS && err == TV_OK; kind++)
		t->kept[kind] = t->is_set[kind] && t->set[kind].len > 0;
	return err;
}

enum tv_err
agent_token_set(struct agent_tokens *t, enum rpcd_token kind, struct span token)
{
	enum tv_err err = TV_OK;

	if (token.len > TOKEN_BYTES_MAX)
		return TV_EINVAL;
	if (!put_token(t, kind, token, false))
		return TV_ENOMEM;
	if (t->path != NULL && t->conf->acl_persist)
		err = write_file(t);
	if (t->changed != NULL)
		t->changed(t->ctx);
	return err;
}

void
agent_tokens_reload(struct agent_tokens *t)
{
	for (int kind = 0; kind < RPCD_TOKENS; kind++)
		if (!t->kept[kind]) {
			buf_reset(&t->set[kind]);
			t->is_set[kind] = false;
		}
}
