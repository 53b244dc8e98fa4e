# man
dist_man_MANS += man/clusterctl.8 man/triumvir.7
