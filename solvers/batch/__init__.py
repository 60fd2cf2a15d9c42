"""Methods of whole gradients: GD, AGD, L-BFGS, Newton."""
