"""API objects that change their meaning with updates."""
