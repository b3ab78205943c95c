"""``esipp doctor``: checks whether this cluster and this machine are ready for a run."""
