"""How a client is made to dial: the prober's protocol, and the ways to reach a prober."""
