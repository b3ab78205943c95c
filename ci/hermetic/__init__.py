"""A real kind cluster where there is no docker engine or no registry: everything is built from package registries."""
