"""``esipp diff`` and ``esipp merge``: comparisons of several runs."""
