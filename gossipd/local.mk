# gossipd
