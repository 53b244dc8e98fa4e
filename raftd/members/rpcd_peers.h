/*
 * Do the rpcds beside the other servers answer?  A leader asks their raftds (MSG_RAFT_SERVED): all of them every two
 * seconds, for the health that autopilot shows, and when it wants to hand leadership over (raftd/serve/rpcd_watch.h).
 */
#ifndef TV_RAFTD_MEMBERS_RPCD_PEERS_H
#define TV_RAFTD_MEMBERS_RPCD_PEERS_H

#include "raftd/members/rules/handover_target.h"
#include "raftd/members/rules/server_health.h"
#include "raftd/peers/links.h"

struct rpcd_peers;

/* NULL: no memory. */
struct rpcd_peers *rpcd_peers_new(struct raftd *d);
/* After links_free(), which ends the questions that are under way. */
void rpcd_peers_free(struct rpcd_peers *s);
/* Once a second or so. */
void rpcd_peers_check(struct rpcd_peers *s);
/* The rpcd of this other server, by answers of the last seconds; a restart is over before it counts as away. */
enum daemon_state rpcd_peers_daemon(const struct rpcd_peers *s, raft_id id);

/*
 * Asks one server.  HANDOVER_TARGET_SILENT: the question is on its way, and done will be called once, within a second; read
 * what it gets with rpcd_peers_answer().  Else what is known without asking, and done will not be called.
 */
enum handover_target_state rpcd_peers_ask(struct raftd *d, const struct raft_server_conf *c, calls_done *done, void *ctx);
enum handover_target_state rpcd_peers_answer(enum tv_err err, struct span body);

#endif
