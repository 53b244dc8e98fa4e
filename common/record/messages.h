/*
 * The bodies of messages between daemons (common/net/msg.h), which never become JSON.  Times are in the unit that the
 * name says.  Fields may be appended, with SF_LATER.
 */
#ifndef TV_COMMON_RECORD_MESSAGES_H
#define TV_COMMON_RECORD_MESSAGES_H

#include "common/record/record.h"

RECORD(msg_hello,
	(U64, version),			/* the lowest that is spoken */
	(STR, role),			/* "rpcd", "raftd", "gossipd" */
	(STR, build), (STR, node_id), (U64, highest, SF_LATER))
RECORD(msg_monitor, (U64, level))	/* enum log_level */
RECORD(msg_log, (U64, wall_ms), (U64, level), (STR, area), (STR, text))
RECORD(msg_join,
	(U64, pool),			/* enum gossip_pool, here and below */
	(STRS, addrs))			/* IP or IP:PORT */
RECORD(msg_joined, (U64, contacted))
RECORD(msg_force_leave, (STR, node), (BOOL, prune))
RECORD(msg_user_event, (U64, pool), (U64, ltime), (STR, name), (BIN, payload), (BOOL, coalesce), (BOOL, old))
RECORD(msg_heard, (U64, pool), (U64, ltime), (U64, id), (STR, name), (BIN, payload), (STR, from), (U64, timeout_ms))
RECORD(msg_fire, (U64, pool), (STR, name), (BIN, payload), (BOOL, coalesce))
RECORD(msg_fired, (U64, ltime))
RECORD(msg_query_answer, (STR, from), (BOOL, ack), (BIN, payload))
RECORD(msg_query_answers, (OBJS, answers, msg_query_answer), (U64, alive))
RECORD(msg_respond, (U64, pool), (U64, ltime), (U64, id), (BIN, payload))
RECORD(msg_coords, (U64, pool), (STRS, names))
RECORD(msg_keyring,
	(U64, what),			/* enum keyring_what */
	(BIN, key), (U64, relay),
	(U64, pools))			/* bit 0 LAN, 1 WAN: if it is there */
RECORD(msg_helper_started, (U64, pid))
RECORD(msg_check_setup,
	(U64, runs_max),		/* at once */
	(BOOL, follow_redirects),	/* of HTTP, to other hosts too */
	(U64, log_level),		/* enum log_level */
	(STR, ca_file), (STR, ca_path), (STR, cert_file), (STR, key_file))	/* of tls.checks; empty: none */
RECORD(msg_check_put,
	(U64, handle),			/* of this channel; one that is there is replaced */
	(STR, status),			/* as it is now */
	(BOOL, known),			/* by a result: the first one to come obeys the thresholds */
	(BIN, run),			/* a check_run */
	(STR, id), (STR, service))	/* CheckID, and the name of its service; empty: it is the node's */
RECORD(msg_check_drop, (U64, handle))
RECORD(msg_check_result, (U64, handle), (STR, status), (STR, output))
RECORD(msg_check_stats, (U64, runs), (U64, under_way), (U64, postponed), (U64, timed_out),
	(U64, late),			/* began later than twice their interval after they were due */
	(U64, lookups), (U64, lookups_unanswered), (U64, lookups_old), (U64, lookups_waiting))	/* resolve.h */
RECORD(msg_fetch,
	(BOOL, discovery),		/* it is the URL of an issuer, whose document says where its keys are */
	(STR, url), (STR, ca),		/* ca: PEM of those who may vouch for the server; empty: those of the system */
	(U64, timeout_ms))		/* for all of it */
RECORD(msg_fetched_key, (STR, id), (BIN, der))
RECORD(msg_fetched,
	(STR, error),			/* empty: these are the keys */
	(OBJS, keys, msg_fetched_key),
	(U64, algorithms))		/* bits as in struct jwks: both processes are of one build */
RECORD(msg_resolve,
	(STRS, targets),		/* as common/conf/target.h has them */
	(U64, port),			/* where none is written */
	(U64, timeout_ms))		/* for all of them */
RECORD(msg_resolved,
	(U64, place),			/* in the list of targets */
	(U64, outcome),			/* enum target_outcome */
	(STR, why),			/* a sentence; empty: nothing to say */
	(STRS, addrs))			/* "10.0.0.1:8301", "[fd00::1]:8301" */
/* Names are lowered, and without a final dot; times in s unless they are durations. */
RECORD(msg_dns_setup,
	(STR, domain), (STR, alt_domain), (STR, datacenter),
	(U64, node_ttl), (STRS, service_ttl),		/* "web*=10" */
	(U64, soa_refresh), (U64, soa_retry), (U64, soa_expire), (U64, soa_min_ttl),
	(U64, udp_answer_limit), (U64, a_record_limit),
	(BOOL, truncate), (BOOL, only_passing), (BOOL, compress), (BOOL, node_meta),
	(STRS, recursors),		/* "192.0.2.1 53" */
	(BOOL, random_recursor), (DURATION, recursor_timeout),
	(STRS, recursion_from),		/* "192.0.2.0/24" */
	(U64, conns_max), (U64, conns_source_max),	/* TCP */
	(U64, equal_answers),		/* in a second, to one network; 0: not limited */
	(BOOL, keep),			/* facts may be kept, as far as rpcd says that it goes on telling of them */
	(U64, keep_bytes), (U64, use_ms),	/* in all; between two MSG_DNS_USE */
	(U64, log_level),		/* enum log_level */
	(BOOL, recursor_names))		/* recursors may become others: the walls are to let any address be asked */
RECORD(msg_dns_recursors, (STRS, recursors))	/* as in msg_dns_setup */
RECORD(msg_dns_ask,
	(U64, kind),			/* enum dns_kind */
	(STR, name), (STR, tag), (BOOL, tagged), (STR, datacenter), (STR, source),
	(U64, follow))			/* enum dns_follow */
/* A node, or an instance of a service on it.  What is of the instance is empty for a node alone. */
RECORD(dns_instance,
	(STR, node), (STR, address), (STR, lan4), (STR, lan6),	/* its name in its own case; addresses in text */
	(STR, service_address), (STR, service_lan4), (STR, service_lan6),
	(MAP, meta),			/* of the node */
	(U64, port), (U64, weight),	/* below 65536; weight by its state */
	(U64, state))			/* enum dns_state, the worst one */
RECORD(msg_dns_found,
	(U64, status),			/* enum dns_status */
	(STR, datacenter), (BOOL, ordered), (BOOL, has_ttl), (U64, ttl), (STR, service),
	(OBJS, instances, dns_instance),
	(STRS, names),			/* of a list, in lower case */
	(BOOL, followed),		/* MSG_DNS_FACT follow with each change, and MSG_DNS_END in the end */
	(U64, life_ms),			/* true for so long at most; 0: followed, until told otherwise */
	(BOOL, stale))			/* no server can be reached who would know better */
/* Each identifies, in 8 bytes as in frames, what was asked for by MSG_DNS_ASK. */
RECORD(msg_dns_use, (BIN, used), (BIN, dropped))	/* since the last time; not wanted any more */
RECORD(msg_dns_stats,			/* since the start of the process */
	(U64, udp), (U64, tcp), (U64, answers), (U64, name_errors), (U64, failures), (U64, refused), (U64, malformed),
	(U64, dropped), (U64, limited),
	(U64, conns), (U64, conns_refused), (U64, conns_timed_out), (U64, conns_evicted),
	(U64, lookups), (U64, lookups_joined), (U64, under_way),
	(U64, forwarded), (U64, forwarded_failed), (U64, forwarded_timed_out), (U64, forged),
	(U64, kept), (U64, stale), (U64, denied),	/* look-ups answered from facts that are kept, or by lists */
	(U64, facts), (U64, facts_bytes), (U64, facts_evicted),
	(U64, rendered), (U64, rendered_bytes),	/* answers that were made before; bytes that are kept of such */
	(U64, overrun))			/* questions that found a socket's buffer full, since the sockets are open */
RECORD(msg_keys_setup,
	(STR, cert_file), (STR, key_file), (STR, ca_file), (STR, ca_path),	/* paths; of the last two one at most */
	(BOOL, takes_over),		/* from a process that has a key: ends if it cannot get one itself */
	(U64, log_level))		/* enum log_level */
RECORD(msg_keys_files,
	(BIN, chain), (BIN, ca),	/* PEM */
	(U64, number),			/* of the key */
	(U64, not_after), (U64, ca_not_after),	/* s since 1970; 0: none */
	(STR, subject))			/* of the first certificate */
RECORD(msg_keys_bad,
	(STR, why),			/* a sentence */
	(BOOL, walls))			/* files are where this process' walls do not let it look: another one might */
RECORD(msg_keys_sign,
	(U64, number),
	(U64, alg),			/* enum keys_alg */
	(BIN, what))			/* a message, not its digest */
RECORD(msg_keys_signed,
	(U64, error),			/* -enum tv_err */
	(BIN, signature))
RECORD(msg_raft_status,
	(U64, role),			/* enum raft_role */
	(U64, term), (STR, leader_id),
	(STR, leader_addr),		/* "ip:port" or "" */
	(STR, leader_name), (U64, voters), (BOOL, is_voter), (U64, leader_seen_ms))
RECORD(msg_raft_leave, (BOOL, force),
	(STR, token, SF_LATER))		/* that was shown: it needs agent:write on this node */
RECORD(msg_raft_recover, (BOOL, dry_run),
	(STR, token, SF_LATER))		/* that was shown: it needs operator:write, to look operator:read */
RECORD(msg_raft_hello,
	(U64, version),			/* the lowest that is spoken */
	(STR, node_id), (STR, node_name), (STR, store_id),
	(STR, cluster_id),		/* "" while fresh */
	(U64, generation), (STR, dc), (STR, addr), (U64, raft_port),
	(U64, features, SF_LATER), (U64, highest, SF_LATER),
	(U64, state, SF_LATER),		/* version of the state machine; 1 when it is missing */
	/* Of its disk, and what it remembers of the receiver's: raftd/engine/disk_mark.h. */
	(U64, life, SF_LATER), (U64, mark_term, SF_LATER), (U64, mark_kept, SF_LATER), (U64, mark_vote, SF_LATER),
	(BOOL, went_back, SF_LATER),
	(U64, seen_life, SF_LATER), (U64, seen_term, SF_LATER), (U64, seen_kept, SF_LATER), (U64, seen_vote, SF_LATER),
	(BOOL, seen_went_back, SF_LATER),
	(U64, clock_ms, SF_LATER))	/* what its wall clock shows, ms since 1970; 0 when it is missing */
RECORD(msg_bootstrap_server, (STR, id), (STR, name), (STR, addr))
RECORD(msg_bootstrap, (STR, cluster_id), (U64, expect), (OBJS, servers, msg_bootstrap_server))
RECORD(msg_remove_me, (STR, id), (BOOL, force))
RECORD(msg_log_state,			/* how far a server's log is */
	(U64, last_index), (U64, last_term), (U64, commit),
	(U64, leader_last))		/* of the leader's log as last heard of; 0: never */
RECORD(msg_notice, (U64, why), (STR, text))	/* enum notice_why */

#endif
