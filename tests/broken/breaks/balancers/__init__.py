"""Load balancers that do not follow the endpoints, or report a wrong client."""
