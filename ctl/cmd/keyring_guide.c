/*
 * The guides of clusterctl keyring.
 *
 * rotate   makes a key, installs it everywhere, makes it the primary one, removes the old one; after each step it
 *          looks whether all members have followed, and when one has not, stops and says how to go on.
 * encrypt  says what the next step is on the way from plaintext to encryption.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/cluster_conf.h"
#include "ctl/cmd/keyring.h"

#define STATUS_ALIVE 1
#define STATUS_FAILED 4

/* -- rotate -------------------------------------------------------------------------- */

static json_int_t
count_in(const json_t *pool, const char *map, const char *key)
{
	return json_integer_value(json_object_get(json_object_get(pool, map), key));
}

/* Does every member of every pool have this key (as its primary one)?  Says which does not. */
static bool
all_have(const json_t *list, const char *map, const struct ctl_key *key, const char *lack)
{
	char name[KEYRING_POOL_BYTES];
	bool good = keyring_complaints(list) == 0;
	json_t *pool;
	size_t i;

	json_array_foreach(list, i, pool) {
		json_int_t nodes = json_int(pool, "NumNodes");
		json_int_t have = count_in(pool, map, key->text);

		if (have >= nodes && json_text(pool, "Error")[0] == '\0')
			continue;
		good = false;
		fprintf(stderr, "clusterctl: %s: %lld of %lld members %s key %s\n", keyring_pool_name(pool, name,
		    sizeof(name)),
		    (long long)(nodes - have), (long long)nodes, lack, key->id);
	}
	return good;
}

/* The one primary key of all pools; complains when they differ. */
static bool
the_primary(const json_t *list, struct ctl_key *key)
{
	const char *text, *first = NULL;
	json_t *pool, *count;
	size_t i;

	json_array_foreach(list, i, pool)
		json_object_foreach(json_object_get(pool, "PrimaryKeys"), text, count) {
			if (first == NULL)
				first = text;
			if (strcmp(first, text) == 0)
				continue;
			fprintf(stderr, "clusterctl: keyring rotate: members use different primary keys already: "
			    "decide for one with clusterctl keyring use ID (clusterctl keyring list shows the ids)\n");
			return false;
		}
	if (first != NULL && keyring_key(first, key))
		return true;
	fprintf(stderr, "clusterctl: keyring rotate: no member reported its keys\n");
	return false;
}

/* Members that are down would not hear of it. */
static bool
none_failed(struct ctl *ctl, bool force)
{
	bool good = true;

	for (int wan = 0; wan < 2; wan++) {
		json_t *list = ctl_get(ctl,
		    wan ? "/v1/agent/members?wan=1" : "/v1/agent/members"), *m;
		size_t i;

		if (list == NULL)
			return false;
		json_array_foreach(list, i, m)
			if (json_int(m, "Status") == STATUS_FAILED) {
				good = false;
				(void)ctl_complain(ctl, "%s is down%s", json_text(m, "Name"), wan ? " (WAN)" : "");
			}
		json_decref(list);
	}
	if (good || force)
		return true;
	fprintf(stderr, "It would miss the rotation and could not rejoin by itself. Start it, or remove it with "
	    "clusterctl force-leave; --force continues without it.\n");
	return false;
}

static void
say_resume(const struct ctl_key *key, const char *undo)
{
	fprintf(stderr, "Nothing is lost: both keys are accepted. When the members named above answer (or were "
	    "removed with clusterctl force-leave), continue with\n    clusterctl keyring rotate --key %s\n", key->id);
	if (undo != NULL)
		fprintf(stderr, "or abandon it with\n    clusterctl keyring remove %s\n", undo);
}

static void
make_key(struct ctl_key *key)
{
	uint8_t bytes[KEY_BYTES];

	randombytes_buf(bytes, sizeof(bytes));
	sodium_bin2base64(key->text, sizeof(key->text), bytes, sizeof(bytes), sodium_base64_VARIANT_ORIGINAL);
	key_id_text(span_of(bytes, sizeof(bytes)), key->id);
	sodium_memzero(bytes, sizeof(bytes));
}

/* One order, and the proof that all followed. */
static bool
step(struct ctl *ctl, const char *method, const struct ctl_key *key, bool force, const char *map, const char *lack)
{
	json_t *list;
	bool good;

	if (keyring_change(ctl, method, key, force, NULL, NULL) != 0 && !force)
		return false;
	list = keyring_list(ctl);
	good = list != NULL && (all_have(list, map, key, lack) || force);
	json_decref(list);
	return good;
}

/* After an interruption the new key may be the primary one already: then the others of the ring are the old ones. */
static bool
remove_others(struct ctl *ctl, const struct ctl_key *key, const struct ctl_key *old, bool force)
{
	json_t *list = keyring_list(ctl), *pool, *count, *gone = json_object();
	struct ctl_key other;
	const char *text;
	bool good = list != NULL;
	size_t i;

	json_array_foreach(list, i, pool)
		json_object_foreach(json_object_get(pool, "Keys"), text, count) {
			if (!good || strcmp(text, key->text) == 0 || json_object_get(gone, text) != NULL ||
			    !keyring_key(text, &other) || (strcmp(old->text, key->text) != 0 && strcmp(text,
			    old->text) != 0))
				continue;
			json_object_set_new(gone, text, json_true());
			good = keyring_change(ctl, "DELETE", &other, force, NULL,
			    "is removed from all members.") == 0;
		}
	json_decref(gone);
	json_decref(list);
	sodium_memzero(&other, sizeof(other));
	return good;
}

static int
rotate(struct ctl *ctl, const struct ctl_key *key, const struct ctl_key *old, bool force, bool keep_old)
{
	printf("1. Installing key %s on all members.\n", key->id);
	fflush(stdout);
	if (!step(ctl, "POST", key, force, "Keys", "lack")) {
		say_resume(key, strcmp(key->text, old->text) == 0 ? NULL : key->id);
		return 1;
	}
	printf("2. All have it: making it the primary key.\n");
	fflush(stdout);
	if (!step(ctl, "PUT", key, force, "PrimaryKeys", "do not use")) {
		say_resume(key, NULL);
		return 1;
	}
	if (keep_old) {
		printf("Done. The old key stays until clusterctl keyring remove.\n");
		return 0;
	}
	printf("3. All use it: removing the old key.\n");
	fflush(stdout);
	if (!remove_others(ctl, key, old, force)) {
		say_resume(key, NULL);
		return 1;
	}
	printf("Done. Nodes that join later need the new key in their cluster.key:\n"
	    "    clusterctl keyring export > cluster.key\n");
	return 0;
}

int
keyring_rotate(struct ctl *ctl)
{
	const char *resume = ctl_opt(ctl, "key");
	bool force = ctl_opt(ctl, "force") != NULL;
	struct ctl_key key = { "", "" }, old = { "", "" };
	json_t *list = keyring_list(ctl);
	int rc = 1;

	if (list == NULL)
		return 1;
	if (resume == NULL) {
		make_key(&key);
	} else if (!keyring_key_arg(ctl, resume, list, &key)) {
		json_decref(list);
		return 1;
	}
	if (resume != NULL) {
		/*
		 * Mixed primaries are what an interruption leaves behind; the old key is whichever is not the new one.
		 */
		old = key;
		rc = 0;
	} else if (keyring_complaints(list) > 0 && !force) {
		(void)ctl_complain(ctl, "not begun, because these members would miss it; with --force go on without "
		    "them");
	} else if (the_primary(list, &old)) {
		rc = 0;
	}
	json_decref(list);
	if (rc == 0 && none_failed(ctl, force))
		rc = rotate(ctl, &key, &old, force, ctl_opt(ctl, "keep-old") != NULL);
	else
		rc = 1;
	sodium_memzero(&key, sizeof(key));
	sodium_memzero(&old, sizeof(old));
	return rc;
}

/* -- encrypt -------------------------------------------------------------------------------- */

int
keyring_stage(const json_t *m)
{
	const json_t *tags = json_object_get(m, "Tags");
	const char *enc = json_text(tags, "enc");

	if (json_text(tags, "id")[0] == '\0')
		return -1;
	for (int s = ENCRYPTION_ACCEPT; s <= ENCRYPTION_REQUIRED; s++)
		if (strcmp(enc, cluster_encryption_name(s)) == 0)
			return s;
	return ENCRYPTION_OFF;
}

struct survey {
	char dc[256];			/* own: its servers are in both pools, and counted once */
	unsigned members, at[ENCRYPTION_REQUIRED + 1], strangers, down;
	int lowest, highest;
};

static void
survey_pool(const json_t *list, bool wan, struct survey *v)
{
	json_t *m;
	size_t i;

	json_array_foreach(list, i, m) {
		json_int_t status = json_int(m, "Status");
		int stage = keyring_stage(m);

		if (status != STATUS_ALIVE) {
			v->down += status == STATUS_FAILED;
			if (status == STATUS_FAILED)
				printf("%-24s down\n", json_text(m, "Name"));
			continue;
		}
		if (!wan && stage >= 0)
			snprintf(v->dc, sizeof(v->dc), "%s", json_text_at(m, "Tags.dc"));
		else if (wan && strcmp(json_text_at(m, "Tags.dc"), v->dc) == 0)
			continue;
		printf("%-24s %s\n", json_text(m, "Name"), stage < 0 ? "not a Triumvir node" :
		    cluster_encryption_name(stage));
		v->strangers += stage < 0;
		if (stage < 0)
			continue;
		v->members++;
		v->at[stage]++;
		v->lowest = stage < v->lowest ? stage : v->lowest;
		v->highest = stage > v->highest ? stage : v->highest;
	}
}

static bool
survey(struct ctl *ctl, struct survey *v)
{
	*v = (struct survey){ .lowest = ENCRYPTION_REQUIRED, .highest = ENCRYPTION_OFF };
	for (int wan = 0; wan < 2; wan++) {
		json_t *list = ctl_get(ctl,
		    wan ? "/v1/agent/members?wan=1" : "/v1/agent/members");

		if (list == NULL)
			return false;
		survey_pool(list, wan, v);
		json_decref(list);
	}
	return v->members > 0;
}

/* Makes the keys where there are none; false: it could not. */
static bool
see_to_keys(const char *dir)
{
	char path[4096], err[512];

	snprintf(path, sizeof(path), "%s/cluster.key", dir);
	if (access(path, F_OK) == 0) {
		printf("\n%s is there.\n", path);
		return true;
	}
	if (errno != ENOENT || keys_generate(dir, err, sizeof(err)) != TV_OK) {
		fprintf(stderr, "clusterctl: keyring encrypt: %s: run this as root on one server, or name the folder "
		    "of the keys with --dir\n", errno != ENOENT ? path : err);
		return false;
	}
	printf("\nMade %s/cluster.key, server.key and server.pub.\n", dir);
	return true;
}

static void
say_next(const struct survey *v, int next, const char *dir)
{
	if (next == ENCRYPTION_ACCEPT)
		printf("Copy %s/cluster.key (mode 600) and %s/server.pub to every node, and server.key (mode 600) to "
		    "every\n"
		    "server and to no client. ", dir, dir);
	if (next < ENCRYPTION_REQUIRED)
		printf("Then, on one node after the other: set\n    encryption = \"%s\"\nin cluster.conf, and restart "
		    "the daemons there. ", cluster_encryption_name(next));
	else
		printf("On one node after the other: take `encryption` and `allow_plaintext` out of cluster.conf, and\n"
		    "restart the daemons there. ");
	printf("%u of %u are at that stage already.\nWhen all are, run this again.\n", v->at[next], v->members);
}

int
keyring_encrypt(struct ctl *ctl)
{
	const char *dir = ctl_opt(ctl, "dir");
	struct survey v;
	int next;

	if (dir == NULL)
		dir = TV_SYSCONFDIR;
	if (!survey(ctl, &v))
		return 1;
	if (v.strangers > 0 && v.lowest < ENCRYPTION_REQUIRED)
		fprintf(stderr, "\nclusterctl: keyring encrypt: plain Serf agents know no stages: give them the key "
		    "(-encrypt) when "
		    "all our nodes are at \"accept\", one by one; they are cut off from nodes at \"accept\" and "
		    "\"off\"\n");
	if (v.down > 0 && v.lowest < ENCRYPTION_REQUIRED)
		fprintf(stderr, "\nclusterctl: keyring encrypt: nodes that are down must go through the same stage "
		    "before they are started again\n");
	if (v.highest - v.lowest > 1) {
		fprintf(stderr, "\nclusterctl: keyring encrypt: \"%s\" and \"%s\" do not understand each other: set "
		    "encryption = \"%s\" where it is \"%s\", and restart there\n", cluster_encryption_name(v.lowest),
		    cluster_encryption_name(v.highest), cluster_encryption_name(v.highest - 1),
		    cluster_encryption_name(v.lowest));
		return 1;
	}
	if (v.lowest == ENCRYPTION_REQUIRED) {
		printf("\nDone: all members require encryption. Rotate keys with clusterctl keyring rotate.\n");
		return 0;
	}
	next = v.highest > v.lowest ? v.highest : v.lowest + 1;
	printf("\nStep %d of 3: \"%s\".", next - ENCRYPTION_OFF, cluster_encryption_name(next));
	if (next == ENCRYPTION_ACCEPT && !see_to_keys(dir))
		return 1;
	putchar('\n');
	say_next(&v, next, dir);
	return 0;
}
