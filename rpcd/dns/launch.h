/* How rpcd-dns is started: its arguments and descriptors.  rpcd (rpcd/agent/dns_process.c) and the program share it. */
#ifndef TV_RPCD_DNS_LAUNCH_H
#define TV_RPCD_DNS_LAUNCH_H

#define LAUNCH_PROGRAM "rpcd-dns"
#define LAUNCH_FD 3			/* the socketpair; the sockets follow: those of UDP, then those of TCP */
#define LAUNCH_SOCKETS_MAX 16		/* of each */

#endif
