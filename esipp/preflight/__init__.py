"""What is found about a cluster before anything is created."""
