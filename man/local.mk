# man
dist_man_MANS += man/clusterctl.8 man/triumvir.7
dist_man_MANS += man/cluster.conf.5
dist_man_MANS += man/raftd.8 man/raftd.conf.5
dist_man_MANS += man/rpcd.8 man/rpcd.conf.5
dist_man_MANS += man/gossipd.8 man/gossipd.conf.5
EXTRA_DIST += man/README.md
