"""Full-gradient methods: GD, AGD, L-BFGS, Newton."""
