"""Methods with dual variables: SDCA, accelerated SDCA, Pegasos beside them, and the gap."""
