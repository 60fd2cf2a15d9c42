"""The penalties: one file each, and one line of the registry."""

from fewpass.solvers.kernels.rows import shrunk
from fewpass.solvers.penalties.elastic_net import ElasticNet
from fewpass.solvers.penalties.group_lasso import GroupLasso
from fewpass.solvers.penalties.l2 import L2
from fewpass.solvers.penalties.penalty import Penalty, in_lanes, scaled_dual, strength
