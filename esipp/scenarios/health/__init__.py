"""Health checks of nodes: asked, in every situation and while pods come and go."""
