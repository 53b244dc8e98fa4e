/* clusterctl monitor: the live log of a node's daemons. */
#include <stdio.h>
#include <string.h>

#include "ctl/ctl.h"

int
cmd_monitor(struct ctl *ctl, int argc, char **argv)
{
	const struct command *cmd = ctl_find("monitor");
	const char *level = NULL, *daemon = NULL;
	const struct option_spec specs[] = { { "level", NULL, &level }, { "daemon", NULL, &daemon } };
	int n = ctl_options(cmd, argc, argv, specs, 2), rc = 1;
	struct buf path = BUF_INIT(8192);
	struct client_answer a;

	if (n != 0)
		return n < 0 ? 2 : ctl_usage(cmd);
	buf_puts(&path, "/v1/agent/monitor");
	ctl_param(&path, "loglevel", level);
	ctl_param(&path, "daemon", daemon);
	ctl_param(&path, "logjson", ctl->json ? "" : NULL);
	client_stream(ctl_client(ctl), buf_cstr(&path), stdout, &a);
	if (ferror(stdout))
		rc = 1;			/* whoever read it has gone */
	else if (a.status == 200)
		fprintf(stderr, "clusterctl: monitor: rpcd has ended the stream\n");
	else
		rc = client_complain(ctl->client, "monitor", &a);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}
