/* clusterctl monitor: the live log of a node's daemons. */
#include <stdio.h>

#include "ctl/ctl.h"

int
cmd_monitor(struct ctl *ctl)
{
	struct buf path = BUF_INIT(8192);
	struct client_answer a;
	int rc = 1;

	buf_puts(&path, "/v1/agent/monitor");
	ctl_param(&path, "loglevel", ctl_opt(ctl, "level"));
	ctl_param(&path, "daemon", ctl_opt(ctl, "daemon"));
	ctl_param(&path, "logjson", ctl->json ? "" : NULL);
	client_stream(ctl_client(ctl), buf_cstr(&path), stdout, &a);
	if (ferror(stdout))
		rc = 1;			/* its reader has gone */
	else if (a.status == 200)
		(void)ctl_complain(ctl, "rpcd has ended the stream");
	else
		rc = client_complain(ctl->client, "monitor", &a);
	client_answer_done(&a);
	buf_done(&path);
	return rc;
}
