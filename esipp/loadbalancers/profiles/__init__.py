"""What is known of load balancers: a file an implementation, data only, each figure with its source and grade."""
