"""The exact earth mover's distance between two bags of words (Kusner et al. 2015)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_ASSIGNMENT = 400


def movers_distance(one: Mapping[int, int], other: Mapping[int, int], vectors: NDArray[np.float64]) -> float:
    """The exact earth mover's distance between two non-empty bags of words, each of total weight 1.

    Args:
        one, other: row of `vectors` → count.
        vectors: of words, of length 1, (words, width).
    """
    m, n = sum(one.values()), sum(other.values())
    total = math.lcm(m, n)  # each word of one has total/m parts, each of the other total/n
    supply = {word: count * (total // m) for word, count in one.items()}
    demand = {word: count * (total // n) for word, count in other.items()}
    for word in one.keys() & other.keys():
        shared_mass = min(supply[word], demand[word])
        supply[word] -= shared_mass
        demand[word] -= shared_mass
    source_words = [word for word, parts in supply.items() if parts]
    if not source_words:
        return 0.0
    target_words = [word for word, parts in demand.items() if parts]
    masses = [supply[word] for word in source_words], [demand[word] for word in target_words]
    cost = np.sqrt(np.maximum(2 - 2 * (vectors[source_words] @ vectors[target_words].T), 0))
    return transport(cost, *masses) / total


def transport(cost: NDArray[np.float64], supply: list[int], demand: list[int]) -> float:
    """The minimum cost of moving integer supplies to demands of equal sum; exact.

    Args:
        cost: of a unit, (supplies, demands).
        supply, demand: units at each place.
    """
    common = math.gcd(*supply, *demand)
    if len(supply) == 1 or len(demand) == 1:  # only one flow is possible
        return float((np.array(supply)[:, None] * np.array(demand) * cost).sum() / max(sum(supply), 1))
    if sum(supply) // common <= _MAX_ASSIGNMENT:
        from scipy.optimize import linear_sum_assignment

        unit_costs = np.repeat(
            np.repeat(cost, [s // common for s in supply], axis=0), [d // common for d in demand], axis=1
        )
        row_indices, column_indices = linear_sum_assignment(unit_costs)
        return float(unit_costs[row_indices, column_indices].sum() * common)
    from scipy.optimize import linprog
    from scipy.sparse import identity, kron, vstack

    m, n = cost.shape
    marginals = vstack([kron(identity(m), np.ones((1, n))), kron(np.ones((1, m)), identity(n))])
    masses: Any = np.array([*supply, *demand], np.float64)
    constraints: Any = marginals.tocsr()
    solved = linprog(cost.ravel(), A_eq=constraints, b_eq=masses, method="highs")
    return float(solved.fun or 0.0)
