/* clusterctl: administration of a cluster. */
#include "ctl/ctl.h"

int
main(int argc, char **argv)
{
	return ctl_run(argc, argv);
}
