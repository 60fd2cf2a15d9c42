"""What to train and what that will take: plan, job, choice of method, forecast."""
