"""Access to the API server: the client, its errors, and helpers for namespaces, pods and rights."""
