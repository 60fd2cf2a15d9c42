"""All losses, penalties and methods: the name of each, and where its class is.

A loss, a penalty or a method is one file, and one line here (docs/extending.md).  Its class is
imported on first use, so plans and the command line know every name without numba.  No other module
has these names: classes declare their properties, and the defaults are here.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from fewpass.solvers.losses.loss import Loss
    from fewpass.solvers.penalties.penalty import Penalty

LOSSES = {
    "hinge": "fewpass.solvers.losses.hinge:Hinge",
    "squared_hinge": "fewpass.solvers.losses.squared_hinge:SquaredHinge",
    "smoothed_hinge": "fewpass.solvers.losses.smoothed_hinge:SmoothedHinge",
    "logistic": "fewpass.solvers.losses.logistic:Logistic",
    "softmax": "fewpass.solvers.losses.softmax:SoftmaxLoss",
    "squared": "fewpass.solvers.losses.squared:Squared",
    "huber": "fewpass.solvers.losses.huber:Huber",
    "quantile": "fewpass.solvers.losses.quantile:Quantile",
    "epsilon_insensitive": "fewpass.solvers.losses.epsilon_insensitive:EpsilonInsensitive",
    "poisson": "fewpass.solvers.losses.poisson:Poisson",
    "gamma": "fewpass.solvers.losses.gamma:Gamma",
}
LOSS_SETTINGS = ("smoothing", "quantile", "epsilon")  # of plans, parameters of some of them

METHODS = {
    "sgd": "fewpass.solvers.sgd.averaged_sgd:Sgd",
    "asgd": "fewpass.solvers.sgd.averaged_sgd:Asgd",
    "onepass": "fewpass.solvers.onepass.onepass:Onepass",
    "pegasos": "fewpass.solvers.dual.pegasos:Pegasos",
    "s2gd": "fewpass.solvers.s2gd.s2gd:S2gd",
    "s2gd+": "fewpass.solvers.s2gd.s2gd:S2gdPlus",
    "svrg": "fewpass.solvers.s2gd.s2gd:Svrg",
    "sdca": "fewpass.solvers.dual.sdca:Sdca",
    "psdca": "fewpass.solvers.dual.psdca:Psdca",
    "asdca": "fewpass.solvers.dual.asdca:Asdca",
    "gd": "fewpass.solvers.batch.gradient_descent:Gd",
    "agd": "fewpass.solvers.batch.gradient_descent:Agd",
    "sag": "fewpass.solvers.sag:Sag",
    "sag+": "fewpass.solvers.sag:SagPlus",
    "lbfgs": "fewpass.solvers.batch.lbfgs:Lbfgs",
    "newton": "fewpass.solvers.batch.newton:Newton",
    "simba": "fewpass.solvers.simba.simba:Simba",
}

#: Methods for losses of several scores (losses/wide_loss.py): a class of its own beside that above.
WIDE_METHODS = {
    "psdca": "fewpass.solvers.dual.wide_psdca:WidePsdca",
    "asgd": "fewpass.solvers.sgd.wide_asgd:WideAsgd",
    "newton": "fewpass.solvers.batch.wide_newton:WideNewton",
    "lbfgs": "fewpass.solvers.batch.lbfgs:WideLbfgs",
}
#: Methods with a class of its own for penalties with a kink.
KINKED_METHODS = {"newton": "fewpass.solvers.batch.working_set_newton:WorkingSetNewton"}
MOST_NEWTON_WEIGHTS = 1000  # of newton: K (d + 1)

#: Of these the methods that train more than two classes so by default.
ALL_CLASSES_AT_ONCE = ("psdca", "asgd")

PENALTIES = {
    "l2": "fewpass.solvers.penalties.l2:L2",
    "l1": "fewpass.solvers.penalties.elastic_net:ElasticNet",
    "elasticnet": "fewpass.solvers.penalties.elastic_net:ElasticNet",
    "group_lasso": "fewpass.solvers.penalties.group_lasso:GroupLasso",
}

#: The share of lam that each charges for the sizes of weights, where none is given.
L1_RATIOS = {"l2": 0.0, "l1": 1.0, "elasticnet": 0.5, "group_lasso": 1.0}

# Default penalty, the one with zeros in its optima, and what an l1_ratio alone means.
L2 = "l2"
L1 = "l1"
ELASTIC_NET = "elasticnet"
WITH_RATIO = ("elasticnet", "group_lasso")  # those of which an l1_ratio may be given

# Default losses.
LOSS_OF_LABELS = "logistic"
LOSS_OF_NUMBERS = "squared"
LOSS_OF_AMOUNTS = "poisson"  # in place of it for numbers from 0 whose effects multiply
LOSS_OF_CLASSES = "softmax"  # in place of the first where one model tells all classes apart

# The methods that `auto` chooses from (pipeline/planning/auto.py).
SEVERAL_LEARNERS = "onepass"  # one pass
ONE_LEARNER = "asgd"  # the same in less memory, and for very many models
DUAL = "psdca"  # to a tolerance, for any loss
SMALLER_DUAL = "sdca"  # the same in less memory
PRIMAL = "s2gd+"  # to a tolerance, for rows that stay in memory and are short relative to lam
SECOND_ORDER = "newton"  # to a tolerance, for few columns
WHOLE_GRADIENTS = "lbfgs"  # never chosen automatically; second order for many columns

#: All methods by purpose; within a group, the first is the one to try first.
WANTED = {
    "One look at each row": (SEVERAL_LEARNERS, ONE_LEARNER),
    "Certified to a tolerance": (DUAL, SECOND_ORDER, PRIMAL, WHOLE_GRADIENTS),
    "To compare with": (
        SMALLER_DUAL, "asdca", "pegasos", "s2gd", "svrg", "sgd", "gd", "agd", "sag", "sag+",
    ),
    "Without passes": ("simba",),
}  # fmt: skip

if TYPE_CHECKING:  # type checkers cannot read the dictionaries
    LossName = str
    PenaltyName = str
else:
    LossName = Literal[tuple(LOSSES)]
    PenaltyName = Literal[tuple(PENALTIES)]


def loss_class(word: str) -> type[Loss]:
    """Return the class of a loss by name; KeyError for an unknown one."""
    made: type[Loss] = _imported(LOSSES[word])
    return made


def penalty_class(word: str) -> type[Penalty]:
    """Return the class of a penalty by name; KeyError for an unknown one."""
    made: type[Penalty] = _imported(PENALTIES[word])
    return made


def method_class(word: str, width: int = 1) -> Any:
    """Return the class of a method, a `protocol.Settings`; KeyError for an unknown one.

    With a width above 1 that for several scores a row, which few have.
    """
    return _imported((METHODS if width == 1 else WIDE_METHODS)[word])


def fit_for(solver: Any, width: int, *, smooth: bool) -> Any:
    """Return a method as it trains models of that many scores a row, with a smooth penalty or not.

    A method that cannot is returned, too: it refuses the problem by name.
    """
    if width == 1:
        place = None if smooth else KINKED_METHODS.get(solver.kind)
        return _imported(place)(**solver.model_dump()) if place else solver
    if solver.kind not in WIDE_METHODS:
        return solver
    return _imported(WIDE_METHODS[solver.kind])(width=width, **solver.model_dump())


@cache
def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
