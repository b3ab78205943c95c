"""Yesterday's observations, kept so that the judges of today can be given them again (design.md, law 9)."""
