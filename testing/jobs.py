"""The job of a plan on a data set, for tests that need no run."""

from fewpass.pipeline.planning.planner import Planner


def job_of(plan, dataset):
    """The job that a training begins with."""
    return Planner(plan, dataset).job(plan.memory)
