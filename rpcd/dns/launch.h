/* How rpcd-dns is started: rpcd (rpcd/names/dns_process.c) and the program share it. */
#ifndef TV_RPCD_DNS_LAUNCH_H
#define TV_RPCD_DNS_LAUNCH_H

#define DNS_SOCKETS_MAX 16		/* of UDP, which come first behind the channel, and as many of TCP */
#define RECURSORS_MAX 16		/* configured; and of what they lead to: further ones are not asked */

#endif
