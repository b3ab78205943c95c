"""Packets: captured on nodes, and followed from client to backend."""
