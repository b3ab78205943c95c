"""``esipp plan``: what a run would ask, make and take, before anything is made."""
