"""Load balancers that do not follow the pods, or lie about the client."""
