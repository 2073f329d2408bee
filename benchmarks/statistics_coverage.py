"""Do the intervals hold the truth, and is p uniform under the null? Simulated, with the truth known.

    python benchmarks/statistics_coverage.py [RUNS]

Normal scores of people and metric share each image's luck with correlation .5, so τ = 2 asin(.5) / π = 1/3 and r =
.5. For each statistic, the share of RUNS (1,000) whose 95 % cluster-bootstrap interval holds the truth; beside it,
intervals that take judgments as independent although they are not. Then the share of p ≤ .01, .05, .10, .50 of the
paired permutation test and of Williams' test where the systems are equally good.
"""

from __future__ import annotations

import sys
from math import asin, pi

import numpy as np

from capmeter.stats.bootstrap import bootstrap_interval
from capmeter.stats.correlation import Pearson
from capmeter.stats.kendall import TauA, TauB
from capmeter.stats.permutation import PairedSums, permutation_tests, williams_test

RHO, IMAGES, PER_IMAGE = 0.5, 150, 4
MIX = np.linalg.cholesky(np.asarray([[1, RHO], [RHO, 1]]))
IMAGE = np.repeat(np.arange(IMAGES), PER_IMAGE)


def sample(random: np.random.Generator) -> np.ndarray:
    luck = np.repeat(random.normal(size=(IMAGES, 2)) @ MIX.T, PER_IMAGE, axis=0)
    return luck + random.normal(size=(len(IMAGE), 2)) @ MIX.T


def main(runs: int) -> None:
    kendall = 2 / pi * asin(RHO)
    for name, statistic, truth in (("tau-a", TauA, kendall), ("tau-b", TauB, kendall), ("pearson", Pearson, RHO)):
        by_image = alone = 0
        for run in range(runs):
            points = statistic(*sample(np.random.default_rng(run)).T)
            result = bootstrap_interval(points, IMAGE, resamples=400, seed=run)
            wrong = bootstrap_interval(points, np.arange(len(IMAGE)), resamples=400, seed=run)
            by_image += result.low <= truth <= result.high
            alone += wrong.low <= truth <= wrong.high
        print(f"{name:8} 95 % intervals hold the truth: by image {by_image / runs:.1%}, by judgment {alone / runs:.1%}")

    permuted, williamsed = [], []
    for run in range(runs):
        random = np.random.default_rng(run)
        shared = np.repeat(random.normal(size=IMAGES), PER_IMAGE)
        systems = [shared + np.repeat(random.normal(size=IMAGES), PER_IMAGE) for _ in range(2)]
        sums = np.stack([scores.reshape(IMAGES, PER_IMAGE, 1).sum(axis=1) for scores in systems])
        scores_by_image = PairedSums(sums, np.full((2, IMAGES), float(PER_IMAGE)))
        permuted.append(permutation_tests([scores_by_image], permutations=999, seed=run)[0][0, 1])
        human = random.normal(size=60)
        a, b = (human + random.normal(size=60) for _ in range(2))
        williamsed.append(williams_test(Pearson(human, a)(), Pearson(human, b)(), Pearson(a, b)(), 60))
    for name, values in (("permutation", permuted), ("williams", williamsed)):
        shares = ", ".join(f"p <= {at}: {np.mean(np.asarray(values) <= at):.3f}" for at in (0.01, 0.05, 0.1, 0.5))
        print(f"{name:12} {shares}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
