"""A kind cluster without docker engine or image registry: everything is built from package registries."""
