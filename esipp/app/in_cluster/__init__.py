"""A run as a Job in the cluster itself, and how its report comes out."""
