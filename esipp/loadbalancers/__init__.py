"""Load balancers: profiles of products, detection, and what they report of themselves."""
