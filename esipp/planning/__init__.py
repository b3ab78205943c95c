"""``esipp plan``: what a run would ask, make and cost where a load balancer of some kind is; no cluster is needed."""
