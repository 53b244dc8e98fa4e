# man: the sources say /etc/triumvir and so on, what is installed says the folders of this build.
man_PAGES = man/clusterctl.8 man/triumvir.7 man/triumvir-metrics.7 man/cluster.conf.5 man/raftd.8 man/raftd-fetch.8 man/raftd.conf.5 man/rpcd.8 man/rpcd-check.8 man/rpcd-dns.8 man/rpcd-keys.8 man/rpcd.conf.5 man/services.d.5 \
	man/gossipd.8 man/gossipd-names.8 man/gossipd.conf.5
man_BUILT = $(man_PAGES:man/%=man/built/%)
EXTRA_DIST += $(man_PAGES) man/README.md
CLEANFILES += $(man_BUILT)
nodist_man_MANS += $(man_BUILT)

$(man_BUILT): man/built/%: man/% Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)$(TO_FOLDERS) $< >$@.tmp && mv $@.tmp $@
