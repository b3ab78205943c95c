"""``esipp doctor``: what would keep a run from being meaningful on this cluster and this machine."""
