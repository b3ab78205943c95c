"""The health-check node port: asked everywhere, moved under, and held against what the API says."""
