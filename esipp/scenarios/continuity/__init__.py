"""The continuity scenario: steady traffic during actions on its pods, nodes and the cluster."""
