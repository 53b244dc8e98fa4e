# rpcd
noinst_LIBRARIES += rpcd/librpcroute.a
rpcd_librpcroute_a_SOURCES = \
	rpcd/view.c rpcd/view.h rpcd/raftlocal.c rpcd/raftlocal.h \
	rpcd/links.c rpcd/links.h rpcd/linkd.c rpcd/linkd.h \
	rpcd/route.c rpcd/route.h rpcd/admin.c rpcd/admin.h
