/* clusterctl acl, and where the token comes from: what is asked, what is shown, and what never is. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/ctl_kit.h"

#define ID_A "aaaaaaaa-1111-2222-3333-444444444444"
#define ID_B "bbbbbbbb-1111-2222-3333-444444444444"
#define ID_R "cccccccc-1111-2222-3333-444444444444"
#define SECRET "5ec5e75e-1111-2222-3333-444444444444"

static char dir[64];

/* A file in the folder of this test; returns its path. */
static const char *
file(const char *name, const char *text, mode_t mode)
{
	static char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	close(fd);
	return path;
}

static int
call_with(const char *before, const char *word, const char *behind)
{
	char words[512];

	snprintf(words, sizeof(words), "%s %s %s", before, word, behind);
	return call(words);
}

static void
give_input(const char *text)
{
	int fd = open(file("input", text, 0600), O_RDONLY);

	ck_assert(fd >= 0 && dup2(fd, STDIN_FILENO) == STDIN_FILENO);
	close(fd);
}

/* -- the token that is shown -- */

START_TEST(token_sources)
{
	setenv("CONSUL_HTTP_TOKEN", "theirs", 1);
	ck_assert_int_eq(call("reload"), 0);
	ck_assert_str_eq(fake.token, "theirs");
	ck_assert_str_eq(fake.token_from, "CONSUL_HTTP_TOKEN");
	setenv("CONSUL_HTTP_TOKEN_FILE", file("env", "of-a-file\n", 0600), 1);
	ck_assert_int_eq(call("reload"), 0);
	ck_assert_str_eq(fake.token, "of-a-file");
	setenv("TRIUMVIR_TOKEN", "ours", 1);
	ck_assert_int_eq(call("reload"), 0);
	ck_assert_str_eq(fake.token, "ours");
	ck_assert_str_eq(err_text, "");
	ck_assert_int_eq(call_with("--token-file", file("t", "  tok-en \r\n", 0600), "reload"), 0);
	ck_assert_str_eq(fake.token, "tok-en");
	ck_assert_str_eq(fake.token_from, "--token-file");
	ck_assert_str_eq(err_text, "");
	ck_assert_int_eq(call("reload --token"), 2);
	ck_assert_int_eq(call("reload --token="), 0);	/* none, whatever the environment has */
	ck_assert_ptr_null(fake.token);
	give_input("from-input\nvalue");
	answers(0, "PUT /v1/kv/k", 200, "true");
	ck_assert_int_eq(call("--token-file - kv put k -"), 0);
	ck_assert_str_eq(fake.token, "from-input");
	ck_assert_str_eq(fake.asked, "PUT /v1/kv/k value\n");
}
END_TEST

/* It can be seen there: it is warned of, and overwritten. */
START_TEST(token_on_the_command_line)
{
	static char name[] = "clusterctl", option[] = "--token", verb[] = "reload", secret[] = "s3cret";
	char *argv[] = { name, option, secret, verb, NULL };

	ck_assert_int_eq(call("--token s3cret reload"), 0);
	ck_assert_str_eq(fake.token, "s3cret");
	ck_assert_ptr_nonnull(strstr(err_text, "can see a token on the command line"));
	ck_assert_ptr_null(strstr(err_text, "s3cret"));
	FILE *files[2];
	int was[2] = { divert(stdout, &files[0]), divert(stderr, &files[1]) }, rc = ctl_run(4, argv);
	restore(stdout, was[0], files[0], out_text, sizeof(out_text));
	restore(stderr, was[1], files[1], err_text, sizeof(err_text));
	ck_assert_int_eq(rc, 0);
	for (size_t i = 0; i < sizeof(secret); i++)
		ck_assert_int_eq(secret[i], 0);
}
END_TEST

START_TEST(bad_token_files)
{
	static const struct { const char *text; mode_t mode; const char *says; } v[] = {
		{ "x", 0640, "is accessible to others (mode 0640): chmod 600 /" }, { "x", 0604, "is accessible to others" },
		{ "", 0600, "is empty" }, { " \n", 0600, "is empty" }, { "a b", 0600, "holds more than a token" },
		{ "a\r\nX-Other: 1", 0600, "holds more than a token" }, { "\x80", 0600, "holds more than a token" },
	};
	static char large[10000];

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_int_eq(call_with("--token-file", file("bad", v[i].text, v[i].mode), "reload"), 1);
		ck_assert_msg(strstr(err_text, v[i].says) != NULL, "%u: %s", i, err_text);
		ck_assert_str_eq(fake.asked, "");
	}
	memset(large, 'x', sizeof(large) - 1);
	ck_assert_int_eq(call_with("--token-file", file("bad", large, 0600), "reload"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "is larger than a token"));
	ck_assert_int_eq(call("--token-file /nonexistent/t reload"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "No such file"));
	ck_assert_int_eq(call("--token-file a --token b reload"), 2);
	ck_assert_int_eq(call("--token a_b reload"), 2);
}
END_TEST

START_TEST(a_bad_environment_ends_it)
{
	setenv("CONSUL_HTTP_TOKEN_FILE", "/nonexistent/t", 1);
	(void)call("reload");
}
END_TEST

/* -- refusals -- */

START_TEST(refusals)
{
	answers(0, "PUT /v1/agent/reload", 403, "Permission denied: Missing service:write on web");
	answers(1, "GET /v1/acl/token/self", 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"Description\":\"d\\u001b\"}");
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "No token was shown, so what the anonymous one may is all"));
	setenv("TRIUMVIR_TOKEN", SECRET, 1);
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "The token of TRIUMVIR_TOKEN was shown: accessor " ID_A " (d\\x1b).\n"
	    "`clusterctl acl explain service:web write` shows"));
	ck_assert_ptr_null(strstr(err_text, SECRET));
	answers(0, "PUT /v1/agent/reload", 403, "Permission denied: Missing operator:read permissions");
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "`clusterctl acl explain operator read`"));
	answers(0, "PUT /v1/agent/reload", 403, "Permission denied");
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "`clusterctl acl explain RESOURCE:NAME ACCESS`"));
	answers(0, "PUT /v1/agent/reload", 403, "ACL not found");
	answers(1, "GET /v1/acl/token/self", 403, "ACL not found");
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "The token of TRIUMVIR_TOKEN is not known here"));
	answers(0, "PUT /v1/agent/reload", 401, "ACL support disabled");
	ck_assert_int_eq(call("reload"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "acl { enabled = true }"));
	answers(0, "PUT /v1/agent/reload", 403, "administrative");
	ck_assert_int_eq(call("reload"), 77);
	ck_assert_str_eq(err_text, "clusterctl: reload: administrative\n");
}
END_TEST

/* -- the first token -- */

#define FIRST "{\"ID\":\"" SECRET "\",\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"Description\":\"Bootstrap\"," \
	"\"Policies\":[{\"ID\":\"" ID_B "\",\"Name\":\"global-management\"}],\"Local\":false}"

START_TEST(bootstrap)
{
	char words[256], path[128], text[64] = "";
	struct stat st;

	answers(0, "PUT /v1/acl/bootstrap", 200, FIRST);
	ck_assert_int_eq(call("acl bootstrap"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "AccessorID:          " ID_A "\nSecretID:            " SECRET "\n"));
	ck_assert_ptr_nonnull(strstr(out_text, "Policies:            global-management (" ID_B ")\n"));
	ck_assert_ptr_nonnull(strstr(err_text, "--token-file FILE"));
	snprintf(path, sizeof(path), "%s/first", dir);
	snprintf(words, sizeof(words), "acl bootstrap --out %s", path);
	ck_assert_int_eq(call(words), 0);
	ck_assert(strstr(out_text, SECRET) == NULL && strstr(err_text, SECRET) == NULL);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	int fd = open(path, O_RDONLY);
	ck_assert_int_eq(read(fd, text, sizeof(text)), sizeof(SECRET));
	close(fd);
	ck_assert_str_eq(text, SECRET "\n");
	/* What is there is not written over, and then no token is made either. */
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(fake.asked, "");
	ck_assert_ptr_nonnull(strstr(err_text, "File exists"));
	ck_assert_int_eq(unlink(path), 0);
	snprintf(words, sizeof(words), "--json acl bootstrap --out %s", path);
	ck_assert_int_eq(call(words), 0);
	ck_assert(strstr(out_text, SECRET) == NULL && strstr(out_text, ID_A) != NULL);
	ck_assert_int_eq(unlink(path), 0);
	answers(0, "PUT /v1/acl/bootstrap", 403, "Permission denied: ACL bootstrap no longer allowed (reset index: 33)");
	ck_assert_int_eq(call(words), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "\\n  echo 33 > "));
	ck_assert_ptr_nonnull(strstr(err_text, "/raftd/acl-bootstrap-reset\\n"));
	ck_assert_int_eq(access(path, F_OK), -1);
	/* With a secret of the caller's own. */
	answers(0, "PUT /v1/acl/bootstrap", 200, FIRST);
	snprintf(words, sizeof(words), "acl bootstrap %s", file("chosen", SECRET "\n", 0600));
	ck_assert_int_eq(call(words), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/acl/bootstrap {\"BootstrapSecret\":\"" SECRET "\"}\n");
	ck_assert_ptr_null(strstr(err_text, "older version"));
	give_input(ID_B "\n");
	ck_assert_int_eq(call("acl bootstrap -"), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/acl/bootstrap {\"BootstrapSecret\":\"" ID_B "\"}\n");
	ck_assert_ptr_nonnull(strstr(err_text, "it is not the one that was given"));
	snprintf(words, sizeof(words), "acl bootstrap %s", file("open", SECRET "\n", 0644));
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(fake.asked, "");
}
END_TEST

/* -- tokens, policies, roles -- */

START_TEST(bodies)
{
	static const struct { const char *words, *asked; } v[] = {
		{ "acl token create --description a_b --policy-name p --policy-id " ID_A " --role-name r --service-identity web:dc1,dc2 "
		    "--service-identity api --node-identity n1:dc1 --ttl 8h --local --dc d",
		    "PUT /v1/acl/token?dc=d {\"ExpirationTTL\":\"8h\",\"Local\":true,\"Description\":\"a b\",\"Policies\":[{\"Name\":\"p\"},"
		    "{\"ID\":\"" ID_A "\"}],\"Roles\":[{\"Name\":\"r\"}],\"ServiceIdentities\":[{\"ServiceName\":\"web\","
		    "\"Datacenters\":[\"dc1\",\"dc2\"]},{\"ServiceName\":\"api\"}],\"NodeIdentities\":[{\"NodeName\":\"n1\","
		    "\"Datacenter\":\"dc1\"}]}\n" },
		{ "acl token create --policy-name p --policy-name p", "PUT /v1/acl/token {\"Policies\":[{\"Name\":\"p\"}]}\n" },
		{ "acl token delete a/b", "DELETE /v1/acl/token/a%2Fb\n" },
		{ "acl token clone --description x " ID_A, "PUT /v1/acl/token/" ID_A "/clone {\"Description\":\"x\"}\n" },
		{ "acl policy create --rules k --valid-dc d1 --valid-dc d2 p",
		    "PUT /v1/acl/policy {\"Name\":\"p\",\"Datacenters\":[\"d1\",\"d2\"],\"Rules\":\"k\"}\n" },
		{ "acl policy read --stale x", "GET /v1/acl/policy/name/x?stale\n" },
		{ "acl policy read " ID_A, "GET /v1/acl/policy/" ID_A "\n" },
		{ "acl policy delete " ID_A, "DELETE /v1/acl/policy/" ID_A "\n" },
		{ "acl role create --policy-name p r", "PUT /v1/acl/role {\"Name\":\"r\",\"Policies\":[{\"Name\":\"p\"}]}\n" },
		{ "acl auth-method create --type jwt --max-token-ttl 1h --config {\"A\":1} m",
		    "PUT /v1/acl/auth-method {\"Name\":\"m\",\"Type\":\"jwt\",\"MaxTokenTTL\":\"1h\",\"Config\":{\"A\":1}}\n" },
		{ "acl auth-method delete m", "DELETE /v1/acl/auth-method/m\n" },
		{ "acl binding-rule list --method m", "GET /v1/acl/binding-rules?authmethod=m\n" },
		{ "acl binding-rule create --method m --bind-type service --bind-name ${value.x} --selector value.x==\"y\"",
		    "PUT /v1/acl/binding-rule {\"AuthMethod\":\"m\",\"Selector\":\"value.x==\\\"y\\\"\",\"BindType\":\"service\","
		    "\"BindName\":\"${value.x}\"}\n" },
		{ "acl token list --method m --stale", "GET /v1/acl/tokens?stale&authmethod=m\n" },
		{ "acl replication", "GET /v1/acl/replication\n" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		(void)call(v[i].words);
		ck_assert_msg(strcmp(fake.asked, v[i].asked) == 0, "%s: %s", v[i].words, fake.asked);
	}
	answers(0, "GET /v1/acl/policy/name/p", 200, "{\"ID\":\"" ID_A "\",\"Name\":\"p\"}");
	answers(1, "GET /v1/acl/role/name/r", 200, "{\"ID\":\"" ID_R "\",\"Name\":\"r\"}");
	(void)call("acl token list --policy p --role r");
	ck_assert_str_eq(fake.asked, "GET /v1/acl/policy/name/p\nGET /v1/acl/role/name/r\nGET /v1/acl/tokens?policy=" ID_A
	    "&role=" ID_R "\n");
}
END_TEST

/* An update keeps what is not named. */
START_TEST(updates)
{
	answers(0, "GET /v1/acl/token/" ID_A, 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"Description\":\"o\\nld\","
	    "\"Policies\":[{\"ID\":\"" ID_B "\",\"Name\":\"p\"}],\"Roles\":[{\"ID\":\"" ID_R "\",\"Name\":\"r\"}],\"Local\":true,"
	    "\"CreateTime\":\"x\",\"Hash\":\"y\",\"CreateIndex\":1,\"ModifyIndex\":2}");
	(void)call("acl token update --policy-name q " ID_A);
	ck_assert_ptr_nonnull(strstr(fake.asked, "PUT /v1/acl/token/" ID_A " {\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET
	    "\",\"Description\":\"o\\nld\",\"Policies\":[{\"Name\":\"q\"}],\"Roles\":[{\"ID\":\"" ID_R "\",\"Name\":\"r\"}],\"Local\":true}\n"));
	(void)call("acl token update --merge --policy-name q --policy-name p --clear roles " ID_A);
	ck_assert_ptr_nonnull(strstr(fake.asked, "\"Policies\":[{\"ID\":\"" ID_B "\",\"Name\":\"p\"},{\"Name\":\"q\"}],\"Roles\":[],"));
	ck_assert_int_eq(call("acl token update --clear rolls " ID_A), 2);
	ck_assert_ptr_nonnull(strstr(err_text, "there is no list \"rolls\""));
	answers(1, "PUT /v1/acl/token/" ID_A, 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"Description\":\"d\"}");
	ck_assert_int_eq(call("acl token update --description d " ID_A), 0);
	ck_assert(strstr(out_text, SECRET) == NULL && strstr(out_text, "--show-secret") != NULL);
	ck_assert_int_eq(call("--json acl token update --description d " ID_A), 0);
	ck_assert_ptr_null(strstr(out_text, SECRET));
	ck_assert_int_eq(call("acl token read --show-secret " ID_A), 0);
	ck_assert_ptr_nonnull(strstr(out_text, SECRET));
	answers(0, "GET /v1/acl/role/name/r", 200, "{\"ID\":\"" ID_R "\",\"Name\":\"r\",\"Description\":\"\",\"Hash\":\"x\"}");
	(void)call("acl role update --name s --service-identity web r");
	ck_assert_ptr_nonnull(strstr(fake.asked, "PUT /v1/acl/role/" ID_R " {\"ID\":\"" ID_R "\",\"Name\":\"s\",\"Description\":\"\","
	    "\"ServiceIdentities\":[{\"ServiceName\":\"web\"}]}\n"));
}
END_TEST

START_TEST(wrong_calls)
{
	static const struct { const char *words, *says; } v[] = {
		{ "acl", "usage: clusterctl acl bootstrap" }, { "acl tokne list", "did you mean \"token\"?" },
		{ "acl token create --ttl x", "--ttl: \"x\" is no length of time" },
		{ "acl token create --node-identity n", "--node-identity: \"n\" is not NAME:DC" },
		{ "acl token create -policy-name=x", "\"-policy-name\" is written --policy-name" },
		{ "acl login --method m", "usage: clusterctl acl login --method METHOD --bearer-token-file FILE|- [" },
		{ "acl auth-method create m", "usage: clusterctl acl auth-method create --type TYPE" },
		{ "acl logout", "no token is shown" }, { "acl explain key read", "key rules are about names: key:NAME" },
		{ "acl explain operator:x read", "operator has no names" }, { "acl explain kye:x read", "there is no resource \"kye\", but acl, agent" },
		{ "acl explain node:x list", "\"list\" is not read, write" }, { "acl explain node:x red", "\"red\" is not read" },
		{ "acl explain --default-policy x node:x read", "is not allow or deny" }, { "login -method=m", "is here: clusterctl acl login" },
	};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		ck_assert_msg(call(v[i].words) == 2, "%s", v[i].words);
		ck_assert_msg(strstr(err_text, v[i].says) != NULL, "%s: %s", v[i].words, err_text);
		ck_assert_msg(out_text[0] == '\0' && fake.asked[0] == '\0', "%s: %s%s", v[i].words, out_text, fake.asked);
	}
}
END_TEST

START_TEST(rules_as_a_table)
{
	answers(0, "GET /v1/acl/policy/name/p", 200, "{\"ID\":\"" ID_A "\",\"Name\":\"p\",\"Description\":\"what\\u001b\",\"Rules\":"
	    "\"# first\\nkey_prefix \\\"app/\\\" { policy = \\\"write\\\" }\\nnode_prefix \\\"\\\" { policy = \\\"read\\\" }\\n"
	    "service \\\"w\\\" { policy = \\\"read\\\" intentions = \\\"deny\\\" }\\noperator = \\\"read\\\"\"}");
	ck_assert_int_eq(call("acl policy read p"), 0);
	ck_assert_str_eq(out_text, "ID:                  " ID_A "\nName:                p\nDescription:         what\\x1b\n"
	    "Datacenters:         all\n\n"
	    "Resource  Name  Match   Access                 Line\n"
	    "key       app/  prefix  write                  2\n"
	    "node            all     read                   3\n"
	    "service   w     exact   read, intentions deny  4\n"
	    "operator                read                   5\n");
	ck_assert_int_eq(call("acl policy read --text p"), 0);
	ck_assert_int_eq(strncmp(out_text, "# first\nkey_prefix", 18), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "operator = \"read\"\n"));
	answers(0, "GET /v1/acl/policy/name/p", 200, "{\"ID\":\"" ID_A "\",\"Name\":\"p\",\"Rules\":\"nonsense\"}");
	ck_assert_int_eq(call("acl policy read p"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "Failed to parse ACL rules"));
	/* What Consul says of the token, too, is said of the policy, as long as the token is known. */
	answers(0, "GET /v1/acl/policy/name/q", 403, "ACL not found");
	answers(1, "GET /v1/acl/token/self", 200, "{}");
	ck_assert_int_eq(call("acl policy read q"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "there is no policy \"q\"\n"));
	answers(1, "GET /v1/acl/token/self", 403, "ACL not found");
	ck_assert_int_eq(call("acl policy read q"), 77);
	ck_assert_ptr_null(strstr(err_text, "there is no policy"));
	answers(0, "GET /v1/acl/role/name/r", 404, "");
	ck_assert_int_eq(call("acl role read r"), 1);
	ck_assert_str_eq(err_text, "clusterctl: acl role read: there is no role \"r\"\n`clusterctl acl role list` shows what there is.\n");
}
END_TEST

START_TEST(logins)
{
	static char large[12000];
	char words[256];

	answers(0, "POST /v1/acl/login", 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"AuthMethod\":\"m\"}");
	snprintf(words, sizeof(words), "acl login --method m --bearer-token-file %s --meta a=b=c", file("jwt", "e.y.J\n", 0600));
	ck_assert_int_eq(call(words), 0);
	ck_assert_str_eq(fake.asked, "POST /v1/acl/login {\"AuthMethod\":\"m\",\"Meta\":{\"a\":\"b=c\"},\"BearerToken\":\"e.y.J\"}\n");
	ck_assert_ptr_nonnull(strstr(out_text, SECRET));
	/* Of an issuer that names many groups. */
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	answers(0, "POST /v1/acl/login", 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"AuthMethod\":\"m\"}");
	snprintf(words, sizeof(words), "acl login --method m --bearer-token-file %s", file("jwt", large, 0600));
	ck_assert_int_eq(call(words), 0);
	snprintf(words, sizeof(words), "acl login --method m --bearer-token-file %s --meta a", file("jwt", "e.y.J\n", 0600));
	ck_assert_int_eq(call(words), 2);
	setenv("TRIUMVIR_TOKEN", SECRET, 1);
	answers(0, "POST /v1/acl/logout", 200, "true");
	ck_assert_int_eq(call("acl logout"), 0);
	ck_assert_str_eq(fake.asked, "POST /v1/acl/logout\n");
}
END_TEST

START_TEST(agent_tokens)
{
	char words[256];

	answers(0, "PUT /v1/agent/token/agent", 200, "");
	snprintf(words, sizeof(words), "acl set-agent-token agent %s", file("t", SECRET "\n", 0600));
	ck_assert_int_eq(call(words), 0);
	ck_assert_str_eq(fake.asked, "PUT /v1/agent/token/agent {\"Token\":\"" SECRET "\"}\n");
	ck_assert_ptr_nonnull(strstr(out_text, "ACL token \"agent\" set successfully\n"));
	ck_assert_ptr_null(strstr(out_text, SECRET));
	answers(0, "PUT /v1/agent/token/agent_master", 403, "Permission denied");
	give_input(SECRET "\n");
	ck_assert_int_eq(call("acl set-agent-token recovery -"), 77);
	ck_assert_str_eq(fake.asked, "PUT /v1/agent/token/agent_master {\"Token\":\"" SECRET "\"}\n");
	ck_assert_ptr_nonnull(strstr(err_text, "Permission denied"));
	ck_assert_int_eq(call("acl set-agent-token bogus -"), 2);
	ck_assert_ptr_nonnull(strstr(err_text, "\"bogus\" is not one of default, agent, "));
	ck_assert_int_eq(call("acl set-agent-token agent"), 2);
	snprintf(words, sizeof(words), "acl set-agent-token agent %s", file("open", SECRET "\n", 0644));
	ck_assert_int_eq(call(words), 1);
	ck_assert_str_eq(fake.asked, "");
}
END_TEST

START_TEST(translate)
{
	answers(0, "POST /v1/acl/rules/translate", 200, "key_prefix \"\" {\n  policy = \"read\"\n}");
	ck_assert_int_eq(call_with("acl translate", file("old", "key \"\" { policy = \"read\" }", 0644), ""), 0);
	ck_assert_str_eq(fake.asked, "POST /v1/acl/rules/translate key \"\" { policy = \"read\" }\n");
	ck_assert_str_eq(out_text, "key_prefix \"\" {\n  policy = \"read\"\n}\n");
}
END_TEST

/* -- explain -- */

/* A token with a policy of its own, a role with another, a service identity, and what counts elsewhere only. */
static void
world(const char *default_policy)
{
	static char self[256];

	snprintf(self, sizeof(self), "{\"Config\":{\"Datacenter\":\"dc1\"},\"DebugConfig\":{\"ACLResolverSettings\":"
	    "{\"ACLDefaultPolicy\":\"%s\"}}}", default_policy);
	answers(0, "GET /v1/agent/self", 200, self);
	answers(1, "GET /v1/acl/token/" ID_A, 200, "{\"AccessorID\":\"" ID_A "\",\"SecretID\":\"" SECRET "\",\"Description\":\"ci\","
	    "\"Policies\":[{\"ID\":\"" ID_B "\",\"Name\":\"own\"}],\"Roles\":[{\"ID\":\"" ID_R "\",\"Name\":\"devs\"}],"
	    "\"ServiceIdentities\":[{\"ServiceName\":\"web\"},{\"ServiceName\":\"far\",\"Datacenters\":[\"dc2\"]}]}");
	answers(2, "GET /v1/acl/policy/" ID_B, 200, "{\"ID\":\"" ID_B "\",\"Name\":\"own\",\"Rules\":"
	    "\"key_prefix \\\"app/\\\" {\\n  policy = \\\"read\\\"\\n}\\nkey \\\"app/no\\\" { policy = \\\"deny\\\" }\"}");
	answers(3, "GET /v1/acl/role/" ID_R, 200, "{\"ID\":\"" ID_R "\",\"Name\":\"devs\",\"Policies\":[{\"ID\":\"" ID_A "\"},"
	    "{\"ID\":\"" ID_B "\"}],\"NodeIdentities\":[{\"NodeName\":\"n1\",\"Datacenter\":\"dc1\"}]}");
	answers(4, "GET /v1/acl/policy/" ID_A, 200, "{\"ID\":\"" ID_A "\",\"Name\":\"more\",\"Datacenters\":[\"dc1\"],\"Rules\":"
	    "\"\\nkey_prefix \\\"app/dev/\\\" { policy = \\\"write\\\" }\"}");
}

START_TEST(explanations)
{
	static const struct { const char *words; int rc; const char *says; } v[] = {
		{ "key:app/x read", 0, "allowed: key:app/x read\n  token       " ID_A " (ci)\n"
		    "  decided by  key_prefix \"app/\" { policy = \"read\" }\n  of          line 1 of policy own\n" },
		{ "key:app/dev/x write", 0, "decided by  key_prefix \"app/dev/\" { policy = \"write\" }\n"
		    "  of          line 2 of policy more, by role devs\n" },
		{ "key:app/x write", 1, "not allowed: key:app/x write, but read\n" },
		{ "key:app/x write", 1, "missing     key \"app/x\" { policy = \"write\" }\n" },
		{ "key:app/x list", 1, "missing     key \"app/x\" { policy = \"list\" }\n" },
		{ "key:app/no read", 1, "missing     that rule has to change" },
		{ "service:web write", 0, "decided by  service \"web\" { policy = \"write\" }\n  of          service identity web\n" },
		{ "service:far write", 1, "left out    service identity far does not count in dc1\n" },
		{ "node:n1 write", 0, "of          node identity n1, by role devs\n" },
		{ "session:n1 read", 1, "decided by  no rule is about it: the default policy is deny (the agent)\n" },
		{ "operator write", 1, "missing     operator = \"write\"\n" },
		{ "acl read", 1, "decided by  no rule: acl is never given by default\n" },
		{ "intention:web write", 1, "missing     service \"web\" { policy = \"write\"  intentions = \"write\" }\n" },
	};
	char words[256];

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		world("deny");
		snprintf(words, sizeof(words), "acl explain --accessor " ID_A " %s", v[i].words);
		int rc = call(words);
		ck_assert_msg(rc == v[i].rc, "%s: %d %s", words, rc, err_text);
		ck_assert_msg(strstr(out_text, v[i].says) != NULL, "%s: %s", words, out_text);
		ck_assert_str_eq(err_text, "");
		ck_assert_ptr_null(strstr(out_text, SECRET));
	}
	world("allow");
	ck_assert_int_eq(call("acl explain --accessor " ID_A " operator write"), 0);
	ck_assert_ptr_nonnull(strstr(out_text, "the default policy is allow (the agent)"));
	ck_assert_int_eq(call("acl explain --default-policy deny --accessor " ID_A " operator write"), 1);
	ck_assert_ptr_nonnull(strstr(out_text, "deny (--default-policy)"));
	ck_assert_int_eq(call("acl explain --accessor " ID_A " acl read"), 1);
	answers(0, "GET /v1/agent/self", 403, "Permission denied");
	ck_assert_int_eq(call("acl explain --accessor " ID_A " operator write"), 1);
	ck_assert_ptr_nonnull(strstr(err_text, "counts in some datacenters only: name yours with --dc"));
}
END_TEST

START_TEST(explanation_for_programs)
{
	world("deny");
	ck_assert_int_eq(call("--json acl explain --accessor " ID_A " key:app/x write"), 1);
	json_t *o = json_loads(out_text, 0, NULL), *rule = json_object_get(o, "Rule");
	ck_assert_ptr_nonnull(o);
	ck_assert(json_is_false(json_object_get(o, "Allowed")));
	ck_assert_str_eq(json_text(o, "Given"), "read");
	ck_assert_str_eq(json_text(o, "DecidedBy"), "rule");
	ck_assert_str_eq(json_text(o, "Missing"), "key \"app/x\" { policy = \"write\" }");
	ck_assert_str_eq(json_text(rule, "Text"), "key_prefix \"app/\" { policy = \"read\" }");
	ck_assert_int_eq(json_integer_value(json_object_get(rule, "Line")), 1);
	ck_assert_str_eq(json_text(json_object_get(rule, "Of"), "Name"), "own");
	json_decref(o);
	/* Without a token: the anonymous one.  What may not be read is told. */
	answers(1, "GET /v1/acl/token/00000000-0000-0000-0000-000000000002", 403, "Permission denied");
	ck_assert_int_eq(call("acl explain key:x read"), 77);
	ck_assert_ptr_nonnull(strstr(err_text, "are read with acl = \"read\""));
	setenv("TRIUMVIR_TOKEN", SECRET, 1);
	answers(1, "GET /v1/acl/token/self", 200, "{\"AccessorID\":\"" ID_A "\"}");
	ck_assert_int_eq(call("acl explain key:x read"), 1);
	ck_assert_str_eq(fake.asked, "GET /v1/agent/self\nGET /v1/acl/token/self\n");
}
END_TEST

static void
begin(void)
{
	memset(&fake, 0, sizeof(fake));
	unsetenv("TRIUMVIR_TOKEN");
	unsetenv("CONSUL_HTTP_TOKEN");
	unsetenv("CONSUL_HTTP_TOKEN_FILE");
	snprintf(dir, sizeof(dir), "/tmp/tv-ctl-acl-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
end(void)
{
	static const char *const names[] = { "env", "t", "bad", "input", "first", "jwt", "old", "chosen", "open" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		(void)unlink(path);
	}
	ck_assert_int_eq(rmdir(dir), 0);
}

int
main(void)
{
	Suite *s = suite_create("ctl_acl");
	TCase *t = tcase_create("ctl_acl"), *ends = tcase_create("ends");
	const TTest *const tests[] = {
		token_sources, token_on_the_command_line, bad_token_files, refusals, bootstrap, agent_tokens, bodies, updates, wrong_calls,
		rules_as_a_table, logins, translate, explanations, explanation_for_programs,
	};

	tcase_add_checked_fixture(t, begin, end);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(t, tests[i]);
	tcase_add_exit_test(ends, a_bad_environment_ends_it, 1);
	suite_add_tcase(s, t);
	suite_add_tcase(s, ends);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
