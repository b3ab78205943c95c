"""Services side by side over the same pods while policies flip: traffic, streams, timelines (suites/compatibility)."""
