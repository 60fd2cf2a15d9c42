"""Methods with dual variables: SDCA, accelerated SDCA, Pegasos, and the gap."""
