"""Judges of interoperability: isolation between Services, scale, and DNS names."""
