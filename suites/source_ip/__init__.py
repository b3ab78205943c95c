"""Where the client's source IP survives: the design proposal's test 1.1, source IP preservation."""
