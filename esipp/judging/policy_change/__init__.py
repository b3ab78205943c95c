"""Traffic policies that change under traffic, judged."""
