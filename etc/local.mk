# Sample configuration, systemd units, users, folders, completion.
etcdir = $(sysconfdir)/triumvir
etc_FILES = etc/cluster.conf etc/gossipd.conf etc/raftd.conf etc/rpcd.conf
unit_IN = etc/systemd/gossipd.service.in etc/systemd/raftd.service.in etc/systemd/rpcd.service.in
unit_FILES = etc/systemd/gossipd.service etc/systemd/raftd.service etc/systemd/rpcd.service
EXTRA_DIST += $(etc_FILES) $(unit_IN) etc/systemd/triumvir.target etc/systemd/triumvir.sysusers \
	etc/systemd/triumvir.tmpfiles etc/systemd/rpcd-port-53.conf etc/clusterctl.bash etc/README.md
CLEANFILES += $(unit_FILES)

all-local: $(unit_FILES)

$(unit_FILES): %.service: %.service.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed -e 's,[@]sbindir[@],$(sbindir),g' -e 's,[@]statedir[@],$(statedir),g' -e 's,[@]rundir[@],$(rundir),g' \
		$(top_srcdir)/$*.service.in > $@.tmp && mv $@.tmp $@

# Configuration that is there already is left alone.
install-data-hook: $(unit_FILES)
	$(MKDIR_P) $(DESTDIR)$(etcdir)/services.d $(DESTDIR)$(systemdsystemunitdir) $(DESTDIR)$(sysusersdir) $(DESTDIR)$(tmpfilesdir) \
		$(DESTDIR)$(datadir)/bash-completion/completions $(DESTDIR)$(pkgdatadir)
	for f in $(etc_FILES); do t=$(DESTDIR)$(etcdir)/$${f##*/}; \
		test -e $$t || $(INSTALL_DATA) $(top_srcdir)/$$f $$t; done
	$(INSTALL_DATA) $(unit_FILES) $(top_srcdir)/etc/systemd/triumvir.target $(DESTDIR)$(systemdsystemunitdir)
	$(INSTALL_DATA) $(top_srcdir)/etc/systemd/rpcd-port-53.conf $(DESTDIR)$(pkgdatadir)
	$(INSTALL_DATA) $(top_srcdir)/etc/systemd/triumvir.sysusers $(DESTDIR)$(sysusersdir)/triumvir.conf
	$(TO_FOLDERS) $(top_srcdir)/etc/systemd/triumvir.tmpfiles >$(DESTDIR)$(tmpfilesdir)/triumvir.conf
	chmod 644 $(DESTDIR)$(tmpfilesdir)/triumvir.conf
	$(INSTALL_DATA) $(top_srcdir)/etc/clusterctl.bash $(DESTDIR)$(datadir)/bash-completion/completions/clusterctl

uninstall-hook:
	for f in $(etc_FILES); do t=$(DESTDIR)$(etcdir)/$${f##*/}; \
		! cmp -s $(top_srcdir)/$$f $$t || rm -f $$t; done
	test ! -d $(DESTDIR)$(etcdir)/services.d || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(etcdir)/services.d
	cd $(DESTDIR)$(systemdsystemunitdir) && rm -f gossipd.service raftd.service rpcd.service triumvir.target
	rm -f $(DESTDIR)$(pkgdatadir)/rpcd-port-53.conf
	test ! -d $(DESTDIR)$(pkgdatadir) || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(pkgdatadir)
	rm -f $(DESTDIR)$(sysusersdir)/triumvir.conf $(DESTDIR)$(tmpfilesdir)/triumvir.conf \
		$(DESTDIR)$(datadir)/bash-completion/completions/clusterctl
