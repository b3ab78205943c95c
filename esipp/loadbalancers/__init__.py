"""Load balancers that can be asked what they know: one small module each."""
