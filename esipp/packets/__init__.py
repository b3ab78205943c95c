"""The second witness: packets, captured on the nodes and joined with what clients and backends told."""
