"""``esipp plan``: shows what a run would check and create, and how long it would take, without a cluster."""
