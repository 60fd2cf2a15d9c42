"""A plan carried out: what goes over the data, pass by pass, until the model is there."""
