"""esipp in a pod: the pod's own credentials, the report that waits there to be fetched, and who fetches it."""
