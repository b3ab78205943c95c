"""``esipp doctor``: all that can be told of a run before anything is created; and nothing is created."""
