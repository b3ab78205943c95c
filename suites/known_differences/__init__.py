"""Where a data plane differs for a known reason: data, beside the checks."""
