"""Inter-operation: see suites/interoperability."""
