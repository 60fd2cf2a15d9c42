"""Plans of trainings and their cost: plan, job, choice of method, forecast."""
