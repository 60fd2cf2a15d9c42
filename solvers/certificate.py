"""The proof of a state's weights: how far their objective is above the optimum, at most."""

from __future__ import annotations

from typing import NamedTuple

#: Of F_0: objectives below this share of it count as this large.
LEAST_SHARE = 1e-3


class Certificate(NamedTuple):
    """Bounds on a state's weights, proven by a full gradient or a duality gap."""

    objective: float  # mean over several models
    gap: float  # objective minus optimum, at most; largest of several models
    models: tuple[tuple[float, float], ...] = ()  # objective and gap of each of several
    constants: tuple[float, ...] = ()  # F_0 of each model; (): unknown
    zeros: int = 0  # weights that are proven to be 0 at the optimum, of one model

    @property
    def each(self) -> tuple[Certificate, ...]:
        """The certificates of all models, of one model its own."""
        return tuple(Certificate(*pair, constants=(one,)) for pair, one in self._with_scales())

    @property
    def relative(self) -> float:
        """The gap / max(F, F_0 / 1000), the largest of several models; compared with `tol`.

        F is the objective, and F_0 the mean loss of the best constant prediction; where that is
        unknown, F alone counts, which makes the relative gap larger if anything.
        """
        return max(_over_scale(*pair, one) for pair, one in self._with_scales())

    def _with_scales(self) -> zip[tuple[tuple[float, float], float]]:
        """Yield objective and gap of each model, with its F_0."""
        pairs = self.models or ((self.objective, self.gap),)
        return zip(pairs, self.constants or (0.0,) * len(pairs), strict=True)

    @property
    def proves_nothing(self) -> bool:
        """Return whether of some model it says no more than that no loss is below 0."""
        return self.relative >= 1.0

    def with_constants(self, constants: tuple[float, ...]) -> Certificate:
        """Return the same with F_0 of every model."""
        return self._replace(constants=constants)


def _over_scale(objective: float, gap: float, constant: float) -> float:
    scale = max(objective, LEAST_SHARE * constant)
    if scale > 0.0:
        return gap / scale
    return 0.0 if gap <= 0.0 else float("inf")
