/* What tokens, policies and roles are made of: links to one another, identities. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text/json_text.h"
#include "raftd/fsm/acl/acl_int.h"
#include "raftd/fsm/session/session.h"
#include "raftd/fsm/table/table.h"

#define IDENTITY_NAME_BYTES_MAX 256
#define SOURCES_MAX 64u			/* datacenters of one identity */

/* -- links -- */

enum tv_err
acl_check_links(struct prepare *p, const struct acl_kind *kind, const struct obj_list *links)
{
	if (links->n > ACL_LINKS_MAX)
		return prepare_fail(p, "more than %u links of one kind (%s): put several of them into one", ACL_LINKS_MAX, kind->lower);
	return TV_OK;
}

static bool
is_linked(const struct acl_link *v, uint32_t n, struct span id)
{
	for (uint32_t i = 0; i < n; i++)
		if (span_eq(v[i].ID, id))
			return true;
	return false;
}

/* The id that a link means, in the entry's memory; false: there is none, and the entry has failed. */
static bool
settle(struct apply *p, const struct acl_kind *kind, const struct acl_link *link, struct span *out)
{
	char id[37], before[64];
	struct span why;
	struct tkey k;

	if (link->ID.len == 0) {
		acl_id_of(p->f, kind, link->Name, id);
		if (id[0] == '\0') {
			snprintf(before, sizeof(before), "No such ACL %s with name ", kind->lower);
			acl_fail_quoted(p, before, link->Name, "");
			return false;
		}
	} else {
		bool is_id = uuid_id(link->ID, "", id, p->out, &why);

		TKEY(&k, kind->by_id, span_str(id));
		if (!is_id || !tbl_has(p->f, &k)) {
			snprintf(before, sizeof(before), "No such ACL %s with ID ", kind->lower);
			acl_fail_quoted(p, before, span_of(link->ID.p, link->ID.len > 256 ? 256 : link->ID.len), "");
			return false;
		}
	}
	*out = arena_copy(&p->f->work, span_str(id));
	if (out->p == NULL)
		p->f->failed = ENOMEM;
	return out->p != NULL;
}

bool
acl_settle_links(struct apply *p, const struct acl_kind *kind, struct obj_list *links)
{
	const struct acl_link *v = links->v;
	struct acl_link *out;
	struct span id;
	uint32_t n = 0;

	if (links->n > ACL_LINKS_MAX) {
		apply_fail(p, TV_EFORMAT, "too many links");
		return false;
	}
	out = arena_array(&p->f->work, links->n, sizeof(*out));
	if (out == NULL)
		p->f->failed = ENOMEM;
	for (uint32_t i = 0; out != NULL && i < links->n; i++) {
		if (!settle(p, kind, &v[i], &id))
			return false;
		if (!is_linked(out, n, id))
			out[n++] = (struct acl_link){ .ID = id };
	}
	*links = (struct obj_list){ .v = out, .n = n, .set = true };
	return out != NULL;
}

bool
acl_show_links(struct fsm *f, const struct acl_kind *kind, struct arena *a, struct obj_list *links)
{
	struct acl_link *v = links->v;
	uint32_t n = 0;

	for (uint32_t i = 0; i < links->n && f->failed == 0; i++) {
		struct acl_link link = v[i];

		if (acl_name_of(f, kind, link.ID, a, &link.Name))
			v[n++] = link;
	}
	links->n = n;
	return f->failed == 0;
}

/* -- identities -- */

/* As in names of services that DNS can say: lower case, letters and digits at both ends. */
static bool
is_identity_name(struct span name)
{
	if (name.len == 0 || name.len > IDENTITY_NAME_BYTES_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.p[i];
		bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'), inner = i > 0 && i + 1 < name.len;

		if (!alnum && !(inner && (c == '-' || c == '_')))
			return false;
	}
	return true;
}

static int
by_text(const void *a, const void *b)
{
	return span_cmp(*(const struct span *)a, *(const struct span *)b);
}

static int
by_service(const void *a, const void *b)
{
	const struct acl_service_identity *x = a, *y = b;

	return span_cmp(x->ServiceName, y->ServiceName);
}

static int
by_node(const void *a, const void *b)
{
	const struct acl_node_identity *x = a, *y = b;
	int c = span_cmp(x->NodeName, y->NodeName);

	return c != 0 ? c : span_cmp(x->Datacenter, y->Datacenter);
}

/* Of two lists of datacenters the one that both make together: no list means all of them. */
static bool
join_sources(struct arena *a, struct span_list *to, const struct span_list *from)
{
	struct span *v;
	uint32_t n = 0;

	if (to->n == 0 || from->n == 0) {
		*to = (struct span_list){ .set = false };
		return true;
	}
	v = arena_array(a, (size_t)to->n + from->n, sizeof(*v));
	if (v == NULL)
		return false;
	memcpy(v, to->v, to->n * sizeof(*v));
	memcpy(v + to->n, from->v, from->n * sizeof(*v));
	qsort(v, (size_t)to->n + from->n, sizeof(*v), by_text);
	for (uint32_t i = 0; i < to->n + from->n; i++)
		if (n == 0 || !span_eq(v[n - 1], v[i]))
			v[n++] = v[i];
	*to = (struct span_list){ .v = v, .n = n, .set = true };
	return true;
}

static enum tv_err
check_services(struct prepare *p, const char *owner, bool local, struct obj_list *list)
{
	struct acl_service_identity *v = list->v;
	struct buf quoted = BUF_INIT(8192);
	enum tv_err err = TV_OK;
	uint32_t n = 0;

	for (uint32_t i = 0; i < list->n && err == TV_OK; i++) {
		buf_reset(&quoted);
		text_quote(span_of(v[i].ServiceName.p, v[i].ServiceName.len > 256 ? 256 : v[i].ServiceName.len), &quoted);
		if (v[i].ServiceName.len == 0)
			err = prepare_fail(p, "Service identity is missing the service name field on this %s", owner);
		else if (local && v[i].Datacenters.n > 0)
			err = prepare_fail(p, "Service identity %s cannot specify a list of datacenters on a local token",
			    buf_cstr(&quoted));
		else if (!is_identity_name(v[i].ServiceName))
			err = prepare_fail(p, "Service identity %s has an invalid name. Only alphanumeric characters, '-' and '_' "
			    "are allowed", buf_cstr(&quoted));
		else if (v[i].Datacenters.n > SOURCES_MAX)
			err = prepare_fail(p, "Service identity %s names more than %u datacenters", buf_cstr(&quoted), SOURCES_MAX);
	}
	buf_done(&quoted);
	if (err != TV_OK || list->n < 2)
		return err;
	qsort(v, list->n, sizeof(*v), by_service);
	for (uint32_t i = 0; i < list->n; i++) {
		if (n == 0 || !span_eq(v[n - 1].ServiceName, v[i].ServiceName))
			v[n++] = v[i];
		else if (!join_sources(p->a, &v[n - 1].Datacenters, &v[i].Datacenters))
			return prepare_fail(p, "out of memory");
	}
	list->n = n;
	return TV_OK;
}

static enum tv_err
check_nodes(struct prepare *p, const char *owner, struct obj_list *list)
{
	struct acl_node_identity *v = list->v;
	uint32_t n = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		if (v[i].NodeName.len == 0)
			return prepare_fail(p, "Node identity is missing the node name field on this %s", owner);
		if (v[i].Datacenter.len == 0)
			return prepare_fail(p, "Node identity is missing the datacenter field on this %s", owner);
		if (!is_identity_name(v[i].NodeName))
			return prepare_fail(p, "Node identity has an invalid name. Only alphanumeric characters, '-' and '_' are allowed");
	}
	if (list->n < 2)
		return TV_OK;
	qsort(v, list->n, sizeof(*v), by_node);
	for (uint32_t i = 0; i < list->n; i++)
		if (n == 0 || by_node(&v[n - 1], &v[i]) != 0)
			v[n++] = v[i];
	list->n = n;
	return TV_OK;
}

enum tv_err
acl_check_identities(struct prepare *p, const char *owner, bool local, struct obj_list *services, struct obj_list *nodes)
{
	enum tv_err err;

	if (services->n > ACL_LINKS_MAX || nodes->n > ACL_LINKS_MAX)
		return prepare_fail(p, "more than %u identities of one kind: make a policy with prefix rules in their place",
		    ACL_LINKS_MAX);
	err = check_services(p, owner, local, services);
	return err != TV_OK ? err : check_nodes(p, owner, nodes);
}

/* -- the field Hash -- */

void
acl_hash_text(crypto_generichash_state *h, struct span text)
{
	uint8_t len[4] = { (uint8_t)(text.len >> 24), (uint8_t)(text.len >> 16), (uint8_t)(text.len >> 8), (uint8_t)text.len };

	(void)crypto_generichash_update(h, len, sizeof(len));	/* cannot fail */
	(void)crypto_generichash_update(h, text.p, text.len);
}

void
acl_hash_links(crypto_generichash_state *h, const struct obj_list *links)
{
	const struct acl_link *v = links->v;

	for (uint32_t i = 0; i < links->n; i++)
		acl_hash_text(h, v[i].ID);
	acl_hash_text(h, SPAN_NONE);
}

void
acl_hash_identities(crypto_generichash_state *h, const struct obj_list *services, const struct obj_list *nodes)
{
	const struct acl_service_identity *s = services->v;
	const struct acl_node_identity *n = nodes->v;

	for (uint32_t i = 0; i < services->n; i++) {
		acl_hash_text(h, s[i].ServiceName);
		for (uint32_t j = 0; j < s[i].Datacenters.n; j++)
			acl_hash_text(h, s[i].Datacenters.v[j]);
	}
	acl_hash_text(h, SPAN_NONE);
	for (uint32_t i = 0; i < nodes->n; i++) {
		acl_hash_text(h, n[i].NodeName);
		acl_hash_text(h, n[i].Datacenter);
	}
	acl_hash_text(h, SPAN_NONE);
}
