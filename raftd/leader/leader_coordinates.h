/*
 * Network coordinates on the leader: reports are collected for a few seconds and go to the log in batches.  What waits
 * is lost with the leadership; every node reports again.
 */
#ifndef TV_RAFTD_LEADER_LEADER_COORDINATES_H
#define TV_RAFTD_LEADER_LEADER_COORDINATES_H

#include "raftd/leader/leader.h"

struct leader_coordinates;

struct leader_coordinates *leader_coordinates_new(struct raftd *d);
void leader_coordinates_free(struct leader_coordinates *c);
void leader_coordinates_start(struct leader_coordinates *c);
void leader_coordinates_stop(struct leader_coordinates *c);
/* See leader_coordinate() and leader_coordinate_forget(). */
enum tv_err leader_coordinates_report(struct leader_coordinates *c, struct span node, struct span segment,
    const struct coordinate *at, leader_coordinate_done *done, void *ctx);
void leader_coordinates_forget(struct leader_coordinates *c, const void *ctx);

#endif
