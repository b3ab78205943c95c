"""Inter-operation: the same Services from inside the cluster, Services beside each other, and names."""
