"""``esipp plan``: shows what a run would check, create and take, without a cluster."""
