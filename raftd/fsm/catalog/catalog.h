/* Nodes, services and checks, and their coordinates: what the files of the catalog share, and what other areas use. */
#ifndef TV_RAFTD_FSM_CATALOG_CATALOG_H
#define TV_RAFTD_FSM_CATALOG_CATALOG_H

#include "raftd/fsm/apply.h"
#include "raftd/fsm/table/table.h"

#define CONNECT_SUBJECT "\0connect"	/* behind the name of a service: what its watches wait for then; with its own NUL */

struct coordinate;
struct sort_near;

/* -- catalog.c, register.c, deregister.c -- */
bool catalog_node(struct fsm *f, struct span name, struct arena *a, struct node *out);
bool catalog_node_by_id(struct fsm *f, struct span id, struct arena *a, struct node *out);
bool catalog_service(struct fsm *f, struct span node, struct span id, struct arena *a, struct service *out);
bool catalog_check(struct fsm *f, struct span node, struct span id, struct arena *a, struct check *out);
/* Raises the index of a service; with by != 0 counts instances, and notes the last one's going. */
void catalog_service_touch(struct fsm *f, struct span name, int by);
/* The service that this one is a proxy of, or speaks for itself: "" for a plain one.  Borrows. */
struct span catalog_connect_name(const struct service *s);
/* As catalog_service_touch(), of what proxies for a service: this is one of these, or nothing happens. */
void catalog_connect_touch(struct fsm *f, const struct service *s, int by);
/* A check of this service is not its own any more: the same for what it proxies for. */
void catalog_check_left(struct fsm *f, struct span node, struct span service_id);
/* Raises the index of every service with an instance on the node. */
void catalog_node_services_touch(struct fsm *f, struct span node);
/* Index that a read of this service reports. *exists: it has instances. */
uint64_t catalog_service_index(struct fsm *f, struct span name, bool checks, bool *exists);
/* The same of a read of what proxies for it. */
uint64_t catalog_connect_index(struct fsm *f, struct span name);
void catalog_remove_node(struct fsm *f, const struct node *n, int64_t now);
void catalog_remove_service(struct fsm *f, struct span node, const struct service *s, int64_t now);
void catalog_remove_check(struct fsm *f, const struct check *c, int64_t now);
/* Before the log: completes what is given of a service or a check (of this node), and refuses what needs no state for that. */
enum tv_err catalog_prepare_node_id(struct prepare *p, struct span id);
enum tv_err catalog_prepare_service(struct prepare *p, struct service *s);
/* The version that a packed check needs, before which r stands: FSM_CHECK_FIELDS_SINCE, or 0 for any.  Takes it. */
uint8_t catalog_check_needs(struct rd *r);
enum tv_err catalog_prepare_check(struct prepare *p, struct span node, struct check *c);
/* Applies a registration, whole or not at all. */
void catalog_register_apply(struct apply *p, const struct catalog_register *q);

/* -- reads: catalog_read.c, health.c -- */
/* May the service be seen that this one is a proxy of? */
bool catalog_may_read_destination(const struct reading *r, const struct service *s);

/* Walk over the instances of a service, ordered by node and id; "" walks over all services. */
struct instances {
	struct fsm *f;
	struct tbl_scan scan;
	struct arena arena;
	struct node node;		/* of the instance at hand */
	struct service service;
	uint8_t names[3][FSM_NAME_BYTES_MAX];
};
void instances_begin(struct fsm *f, struct instances *w, struct span service);
/* Of what proxies for a service. */
void instances_begin_connect(struct fsm *f, struct instances *w, struct span service);
bool instances_next(struct instances *w);
void instances_end(struct instances *w);

/* The number of a field of a record; it has one of this name. */
uint32_t catalog_field(const struct schema *s, const char *name);
/* Text fields of a packed record, these and no others; the numbers rise.  False: it cannot be read. */
bool catalog_texts(struct span val, const uint32_t *numbers, struct span *texts, unsigned n);

bool catalog_map_eq(const struct span_map *a, const struct span_map *b);
bool meta_matches(const struct span_map *want, const struct span_map *have);
bool tags_match(const struct span_list *want, const struct span_list *have);

/* What the checks of an instance must be like: none critical, or all passing; those with these ids are not looked at. */
struct check_rule {
	bool passing;
	const struct span_list *ignored;	/* NULL: none */
};
typedef bool instance_wanted(const void *ctx, const struct instances *at);
/*
 * Appends instances of a service, or of what proxies for it, with their checks: those that are wanted, and good by the rule (NULL:
 * all are).  Each is noted for sorting.  How many.
 */
uint32_t health_instances(struct reading *r, struct span name, bool connect, instance_wanted *wanted, const void *ctx,
    const struct check_rule *rule, struct sort_near *near);

/* -- coordinate.c -- */
/* Removes a node's coordinates. */
void coordinate_node_gone(struct fsm *f, struct span node);
/* The node's coordinate; false when it has none that can be used. */
bool coordinate_of_node(struct fsm *f, struct span node, struct arena *a, struct coordinate *out);

#endif
