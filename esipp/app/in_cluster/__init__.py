"""A run as a Job in the cluster, and the transfer of its report."""
