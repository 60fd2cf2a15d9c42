"""The penalties: one file each, and one line of the registry."""

from fewpass.solvers.penalties.elastic_net import ElasticNet
from fewpass.solvers.penalties.l2 import L2
from fewpass.solvers.penalties.penalty import Penalty, shrunk, strength

__all__ = ["L2", "ElasticNet", "Penalty", "shrunk", "strength"]
