"""Time lines: streams of probes and events on one clock, and what any scenario reads from them."""
