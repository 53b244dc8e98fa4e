/* clusterctl keyring: list, install, use, remove, export; the guides are in keyring_guide.c. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/cmd/keyring.h"

const char *
keyring_pool_name(const json_t *pool, char *text, size_t cap)
{
	if (json_flag(pool, "WAN"))
		snprintf(text, cap, "WAN");
	else
		snprintf(text, cap, "LAN (%s)", json_text(pool, "Datacenter"));
	return text;
}

json_t *
keyring_list(struct ctl *ctl)
{
	return ctl_answer(ctl, "GET", "/v1/operator/keyring", SPAN_NONE, KEYRING_TIMEOUT_S);
}

unsigned
keyring_complaints(const json_t *list)
{
	char name[KEYRING_POOL_BYTES];
	unsigned count = 0;
	const char *node;
	json_t *pool, *text;
	size_t i;

	json_array_foreach(list, i, pool) {
		keyring_pool_name(pool, name, sizeof(name));
		if (json_text(pool, "Error")[0] != '\0' && ++count)
			fprintf(stderr, "clusterctl: %s: %s\n", name, json_text(pool, "Error"));
		json_object_foreach(json_object_get(pool, "Messages"), node, text)
			if (++count)
				fprintf(stderr, "clusterctl: %s: %s: %s\n", name, node, json_string_value(text));
	}
	return count;
}

bool
keyring_key(const char *text, struct ctl_key *key)
{
	uint8_t bytes[KEY_BYTES], len;
	bool good = key_decode(span_str(text), bytes, &len) && span_copy(span_str(text), key->text, sizeof(key->text));

	if (good)
		key_id_text(span_of(bytes, len), key->id);
	sodium_memzero(bytes, sizeof(bytes));
	return good;
}

/* The key of this id among those that any pool holds. */
static bool
find_id(const json_t *list, const char *id, struct ctl_key *key)
{
	const char *text;
	json_t *pool, *count;
	size_t i;

	json_array_foreach(list, i, pool)
		json_object_foreach(json_object_get(pool, "Keys"), text, count)
			if (keyring_key(text, key) && strcmp(key->id, id) == 0)
				return true;
	return false;
}

static bool
read_stdin(struct ctl_key *key)
{
	char line[256] = "";
	bool good;

	if (isatty(STDIN_FILENO))
		fprintf(stderr, "Key (base64): ");
	good = fgets(line, sizeof(line), stdin) != NULL;
	line[strcspn(line, "\r\n")] = '\0';
	good = good && keyring_key(line, key);
	sodium_memzero(line, sizeof(line));
	return good;
}

bool
keyring_key_arg(struct ctl *ctl, const char *arg, const json_t *list, struct ctl_key *key)
{
	json_t *asked = NULL;
	bool found;

	if (strcmp(arg, "-") == 0) {
		found = read_stdin(key);
	} else if (strlen(arg) == KEY_ID_TEXT_BYTES - 1 && strspn(arg, "0123456789abcdef") == strlen(arg)) {
		if (list == NULL)
			list = asked = keyring_list(ctl);
		if (list == NULL)
			return false;
		found = find_id(list, arg, key);
		json_decref(asked);
		if (!found)
			(void)ctl_complain(ctl, "no member holds a key with the id %s; `clusterctl keyring list` "
			    "shows them", arg);
		return found;
	} else {
		found = keyring_key(arg, key);
		if (found)
			fprintf(stderr, "Other users of this machine can see a key on the command line: give its id, "
			    "or \"-\" and the key on standard input.\n");
	}
	if (!found)
		(void)ctl_complain(ctl, "a key is base64 of 16, 24 or 32 bytes");
	return found;
}

int
keyring_change(struct ctl *ctl, const char *method, const struct ctl_key *key, bool force,
    const char *relay, const char *ok)
{
	struct buf body = BUF_INIT(256), path = BUF_INIT(256);
	int rc;

	buf_printf(&body, "{\"Key\":\"%s\"}", key->text);	/* base64 needs no quoting */
	buf_printf(&path, "/v1/operator/keyring%s%s%s", force ? "?force" : "", relay == NULL ? "" : force ? "&" : "?",
	    relay == NULL ? "" : "relay-factor=");
	if (relay != NULL)
		client_encode(&path, relay, false);
	rc = ctl_send(ctl, method, buf_cstr(&path), buf_span(&body), KEYRING_TIMEOUT_S);
	if (rc == 0 && ok != NULL)
		printf("Key %s %s\n", key->id, ok);
	sodium_memzero(body.data, body.cap);
	buf_done(&body);
	buf_done(&path);
	return rc;
}

/* One line for each key of each pool. */
static void
print_list(const json_t *list, bool show_keys)
{
	const struct column columns[] = {
		COL("Pool"), COL("Key"), COL("Members"), COL("Primary"),
		COL_AS(show_keys ? "Secret" : NULL, "Secret"), COL_END
	};
	json_t *rows = json_array(), *pool, *count;
	char name[KEYRING_POOL_BYTES];
	struct ctl_key key;
	const char *text;
	size_t i;

	json_array_foreach(list, i, pool)
		json_object_foreach(json_object_get(pool, "Keys"), text, count) {
			json_t *primary = json_object_get(json_object_get(pool, "PrimaryKeys"), text);

			json_array_append_new(rows, json_pack("{s:s,s:s,s:o,s:O*,s:s}", "Pool",
			    keyring_pool_name(pool, name, sizeof(name)), "Key", keyring_key(text, &key) ? key.id : "?",
			    "Members", json_sprintf("%lld of %lld", (long long)json_integer_value(count),
			    json_int(pool, "NumNodes")), "Primary",
			    json_integer_value(primary) > 0 ? primary : NULL, "Secret", show_keys ? text : ""));
		}
	json_safe(rows);
	out_rows(rows, columns);
	json_decref(rows);
	sodium_memzero(&key, sizeof(key));
}

/* In a map of keys to numbers: ids in their place. */
static void
hide_keys(json_t *pool, const char *name)
{
	json_t *counts = json_object_get(pool, name), *ids, *count;
	const char *text;
	struct ctl_key key;

	if (!json_is_object(counts))
		return;
	ids = json_object();
	json_object_foreach(counts, text, count)
		json_object_set(ids, keyring_key(text, &key) ? key.id : "?", count);
	sodium_memzero(&key, sizeof(key));
	json_object_set_new(pool, name, ids);
}

static void
hide_all(json_t *list)
{
	json_t *pool;
	size_t i;

	json_array_foreach(list, i, pool) {
		hide_keys(pool, "Keys");
		hide_keys(pool, "PrimaryKeys");
	}
}

int
keyring_show(struct ctl *ctl)
{
	bool show_keys = ctl_opt(ctl, "show-keys") != NULL;
	json_t *list = keyring_list(ctl);
	unsigned bad;

	if (list == NULL)
		return 1;
	if (ctl->json && !show_keys)
		hide_all(list);
	if (ctl->json)
		out_json(list);
	else
		print_list(list, show_keys);
	fflush(stdout);
	bad = ctl->json ? 0 : keyring_complaints(list);
	json_decref(list);
	return bad > 0;
}

/* A cluster.key for nodes that lack the keys in use: those that whole pools use as primary ones, then the others. */
int
keyring_export(struct ctl *ctl)
{
	json_t *list = keyring_list(ctl), *pool, *count, *done = json_object();
	const char *text;
	size_t i;

	if (list == NULL)
		return 1;
	printf("# Triumvir cluster key: secret, on every node.\n");
	for (int round = 0; round < 2; round++)
		json_array_foreach(list, i, pool)
			json_object_foreach(json_object_get(pool, round == 0 ? "PrimaryKeys" : "Keys"), text, count)
				if (json_object_get(done, text) == NULL) {
					printf("%s\n", text);
					json_object_set_new(done, text, json_true());
				}
	json_decref(done);
	json_decref(list);
	return 0;
}

/* The single orders. */
static int
change(struct ctl *ctl, const char *method, const char *ok)
{
	struct ctl_key key;
	int rc = 1;

	if (keyring_key_arg(ctl, ctl->argv[0], NULL, &key))
		rc = keyring_change(ctl, method, &key, ctl_opt(ctl, "force") != NULL, ctl_opt(ctl, "relay"), ok);
	sodium_memzero(&key, sizeof(key));
	return rc;
}

int
keyring_install(struct ctl *ctl)
{
	return change(ctl, "POST", "is installed on all members.");
}

int
keyring_use(struct ctl *ctl)
{
	return change(ctl, "PUT", "is the primary key of all members.");
}

int
keyring_remove(struct ctl *ctl)
{
	return change(ctl, "DELETE", "is removed from all members.");
}
