"""The penalties: one file each, and one line of the registry."""

from fewpass.solvers.penalties.elastic_net import ElasticNet
from fewpass.solvers.penalties.group_lasso import GroupLasso
from fewpass.solvers.penalties.l2 import L2
from fewpass.solvers.penalties.penalty import (
    Penalty,
    dot_both_lanes_shrunk,
    dot_both_shrunk,
    dot_shrunk,
    in_lanes,
    shrunk,
    strength,
)
