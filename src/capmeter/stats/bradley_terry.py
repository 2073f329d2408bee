"""Bradley-Terry ratings: how strong is each system, given who won against whom?

The probability that system i wins against system j depends on their strengths alone,

    p(i beats j) = 1 / (1 + exp(r_j - r_i)),

and the strengths are those under which the battles are most likely. A tie is half a win for both. Strengths have a
normal prior of standard deviation 10, which keeps a system that won every battle finite and moves others by about a
point. They are given on Elo's scale: 400 points are odds of 10 to 1, and the mean system has 1000.

>>> ratings = bradley_terry([[0, 30, 5], [10, 0, 5], [5, 5, 0]])
>>> ratings.round().tolist()
[1082.0, 918.0, 1000.0]

R. A. Bradley, M. E. Terry. Rank analysis of incomplete block designs: I. Biometrika 39, 1952.
"""

from __future__ import annotations

import numpy as np

from capmeter.core.errors import InputError
from capmeter.stats.kendall import Array, Numbers

ELO = 400 / np.log(10)
"""Points of Elo's scale per unit of strength."""
MEAN = 1000.0
_PRECISION = 0.01  # of the prior


def count_wins(first: Array, second: Array, outcomes: Array, weights: Array, systems: int) -> Array:
    """How often each system won against each other one, a tie counting half for both.

    Args:
        first, second: the systems of each battle, as numbers from 0 (battles).
        outcomes: 1 where the first won, -1 where the second did, 0 for a tie (battles).
        weights: how often each battle occurs (battles).
        systems: their number.

    Returns:
        The wins of the row's system against the column's (systems, systems).
    """
    shares = weights * (1 + outcomes.astype(float)) / 2
    wins = np.bincount(first * systems + second, shares, systems**2)
    wins += np.bincount(second * systems + first, weights - shares, systems**2)
    return wins.reshape(systems, systems)


def bradley_terry(wins: Numbers, start: Array | None = None) -> Array:
    """The rating of each system on Elo's scale.

    Args:
        wins: of the row's system against the column's (systems, systems).
        start: ratings to start from, for speed.

    Raises:
        InputError: the table is not square, or a number of wins is negative or not finite.
    """
    from scipy.optimize import minimize

    table = np.asarray(wins, float)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not (np.isfinite(table) & (table >= 0)).all():
        raise InputError(f"expected a square table of numbers of wins, but got shape {table.shape}")
    battle_counts = table + table.T

    def loss(strengths: Array) -> tuple[float, Array]:
        strength_gaps = strengths[:, None] - strengths[None, :]
        penalised_loss = (table * np.logaddexp(0, -strength_gaps)).sum() + _PRECISION / 2 * (strengths**2).sum()
        expected_wins = (battle_counts / (1 + np.exp(-strength_gaps))).sum(axis=1)
        return float(penalised_loss), expected_wins - table.sum(axis=1) + _PRECISION * strengths

    initial_strengths = np.zeros(len(table)) if start is None else (start - MEAN) / ELO
    strengths = minimize(loss, initial_strengths, jac=True, method="L-BFGS-B", options={"ftol": 1e-12, "gtol": 1e-8}).x
    ratings: Array = MEAN + ELO * (strengths - strengths.mean())
    return ratings
