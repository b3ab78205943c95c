"""Where the client's source IP survives (seed 003, "Source IP Preservation")."""
