/*
 * What /v1/agent/host tells of this machine: memory, processors, system and the file system of data_dir, by the names
 * that Consul has.  What the kernel or the unit of systemd hides is left out.
 */
#ifndef TV_RPCD_API_V1_HOST_H
#define TV_RPCD_API_V1_HOST_H

#include "common/base/buf.h"

struct host {
	int meminfo, cpuinfo;			/* open files of /proc, or -1 with the errno below */
	int meminfo_errno, cpuinfo_errno;
	char platform[64], version[64], family[64];	/* by /etc/os-release; "" unknown */
	char id[37];				/* made of /etc/machine-id, which does not follow from it; "" unknown */
};

/* Reads and opens what the sandbox will hide; before it is entered.  Cannot fail: what is not there is left out. */
void host_open(struct host *h);
/* Writes the object as it is now: reads /proc, and asks the kernel about the file system of this folder. */
void host_json(const struct host *h, const char *data_dir, struct buf *out);

#endif
