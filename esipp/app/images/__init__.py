"""``esipp images``: the images of a run, and how they get to a registry, a file and kind's nodes."""
