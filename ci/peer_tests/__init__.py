"""Upstream's own tests on the same clusters, healthy and broken, beside ours: what `ci/peer` runs."""
