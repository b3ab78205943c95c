"""The interoperability scenarios: isolation between Services, scale, and DNS names."""
