"""The forward pass in numpy equals that in torch."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from capmeter.text.parsing.network import ParserNetwork, ParserShape, _map_in_threads

torch = pytest.importorskip("torch", reason="the training network needs the neural extra")


@pytest.mark.parametrize("length", [1, 2, 13, 40])
def test_numpy_and_torch_agree(length: int) -> None:
    from capmeter_research.networks.parser.network import ParserModule

    torch.manual_seed(5)
    shape = ParserShape(heads=2, layers=3, tags_after=1)
    module = ParserModule(features=50, tags=7, labels=5, shape=shape, width=16, hidden=24).eval()
    with torch.no_grad():
        for values in module.parameters():  # away from the initial values, where biases are 0 and scales 1
            values += 0.1 * torch.randn(values.shape)
    network = ParserNetwork({name: values.numpy() for name, values in module.state_dict().items()}, shape)
    rows = np.random.default_rng(1).integers(1, 50, (9, 4))
    words = np.random.default_rng(2).integers(0, 9, (6, length))
    with torch.no_grad():
        tags, arcs, relations = module(torch.from_numpy(rows[words]), torch.zeros((6, length), dtype=torch.int64))
    states, scores = network.read_words(words, network.embed_words(rows))
    predicted_tags = scores.argmax(-1)
    np.testing.assert_allclose(scores, tags.numpy(), atol=2e-4, rtol=1e-4)
    states = network.read_tagged(states, predicted_tags)
    governors = network.score_governors(states)
    np.testing.assert_array_equal(predicted_tags, tags.argmax(-1).numpy())
    np.testing.assert_allclose(governors, arcs.numpy(), atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(
        network.score_relations(states, governors.argmax(-1)), relations.numpy(), atol=2e-4, rtol=1e-4
    )


# Numpy on several threads: order of results, errors, and the number of BLAS's threads afterwards.


def blas_threads() -> list[int]:
    """Of numpy's BLAS; scipy brings one of its own, if a test has loaded it."""
    infos = (each for each in threadpool_info() if each["user_api"] == "blas")
    return [each["num_threads"] for each in infos if "scipy.libs" not in each["filepath"]]


def test_results_are_in_order() -> None:
    matrices = [np.full((8, 8), number, np.float32) for number in range(40)]
    before = blas_threads()
    assert [int(product[0, 0]) for product in _map_in_threads(lambda each: each @ each, matrices)] == [
        8 * number * number for number in range(40)
    ]
    assert blas_threads() == before
    assert list(_map_in_threads(str, [])) == []


def test_the_number_of_threads_is_that_of_blas() -> None:
    together = threading.Barrier(2, timeout=20)

    def meet(_: int) -> list[int]:
        together.wait()  # a single thread would time out
        return blas_threads()

    with threadpool_limits(2, "blas"):
        if max(blas_threads()) < 2:
            pytest.skip("numpy's BLAS has one thread here")
        assert {count for counts in _map_in_threads(meet, [0, 1, 2, 3]) for count in counts} == {1}
        assert max(blas_threads()) == 2


def test_one_thread_if_blas_has_one() -> None:
    with threadpool_limits(1, "blas"):
        assert len(set(_map_in_threads(lambda _: threading.get_ident(), range(20)))) == 1


def test_an_error_ends_the_work_and_releases_the_lock() -> None:
    before = blas_threads()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            list(_map_in_threads(lambda number: 1 // number, [1, 0, 2]))
    unfinished = _map_in_threads(str, [1, 2, 3])
    assert next(unfinished) == "1"
    unfinished.close()  # type: ignore[attr-defined]
    assert blas_threads() == before
    assert list(_map_in_threads(str, [4, 5])) == ["4", "5"]
