"""Work shared among actors of Ray: who is free gets the next piece, if there is one a piece that it had before.

An actor is a process with what it has loaded and read. If it is lost, its piece goes to another, and a new actor joins
when it has started; nobody waits for it. What a piece of work returns stays in Ray's store, and is fetched only where
that is asked for.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capmeter.errors import CapmeterError, InputError, MissingBackend
from capmeter.progress import task

_TRIES = 20  # of one piece of work, where its actor is lost again and again
Work = Mapping[Any, tuple[Any, ...]]
"""What to do: the arguments of each piece, by its key."""
Run = Callable[[str, Work, str], Iterator[tuple[Any, Any]]]
"""Does such work with a method, and names what it does: the key of each piece and a reference to its result."""


class Actor:
    """What is an actor: a subclass has a method for each kind of work."""

    def do(self, method: str, *given: Any) -> tuple[Any, None]:
        """What the method returns, and None, which is at hand when the method has ended: so is its error."""
        return getattr(self, method)(*given), None

    def ready(self) -> None:
        """Nothing: the actor has started."""


@dataclass(frozen=True, eq=False)
class _Call:
    actor: Any
    key: Hashable
    result: Any


_START = object()  # the key of an actor's first call, which ends when the actor has started


class Actors:
    """So many actors of one kind, each with a processor and `gpus` of a GPU; they end with the `with` block."""

    def __init__(self, kind: type[Actor], number: int, gpus: float = 0.0) -> None:
        self._ray = joined()
        # Ray would start a lost actor again and let its work wait for that, for ever where no node has room for it
        self._kind = self._ray.remote(kind).options(num_cpus=1, num_gpus=gpus, max_restarts=0)
        self._number = number
        self._free: list[Any] = []
        self._calls: dict[Any, _Call] = {}
        self._last: dict[Hashable, Any] = {}
        self._losses: Counter[Hashable] = Counter()

    def __enter__(self) -> Actors:
        for _ in range(self._number):
            self._start()
        return self

    def __exit__(self, *problem: object) -> None:
        for actor in [*self._free, *(call.actor for call in self._calls.values())]:
            self._ray.kill(actor)

    def run(self, method: str, work: Work, what: str) -> Iterator[tuple[Any, Any]]:
        """The key of each piece of work and a reference to its result, as they are finished; `what` names a bar.

        Raises:
            CapmeterError: as the method raised it.
            ObjectLostError: an argument lay on a node that was lost. What had been begun is finished before.
        """
        lost_with_actor = (self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError)
        waiting, lost = dict(work), None
        with task(what, total=len(work)) as advance:
            while waiting or any(call.key is not _START for call in self._calls.values()):
                while waiting and self._free:
                    actor = self._free.pop()
                    key = self._best(actor, waiting)
                    self._call(actor, key, method, *waiting.pop(key))
                (done,), _ = self._ray.wait(list(self._calls), num_returns=1)
                call = self._calls.pop(done)
                try:
                    got(done)
                except lost_with_actor as problem:
                    self._lose(call, problem)
                    if call.key is not _START and lost is None:
                        waiting[call.key] = work[call.key]
                except self._ray.exceptions.ObjectLostError as problem:
                    self._free.append(call.actor)
                    waiting, lost = {}, problem
                else:
                    self._free.append(call.actor)
                    if call.key is not _START:
                        self._last[call.key] = call.actor
                        del self._losses[_START]
                        advance(1)
                        yield call.key, call.result
        if lost is not None:
            raise lost

    def _start(self) -> None:
        self._call(self._kind.remote(), _START, "ready")

    def _call(self, actor: Any, key: Hashable, method: str, *given: Any) -> None:
        result, done = actor.do.options(num_returns=2).remote(method, *given)
        self._calls[done] = _Call(actor, key, result)

    def _best(self, actor: Any, waiting: Iterable[Hashable]) -> Hashable:
        """The first piece that this actor has worked on before, else that none has, else that another has."""
        rank = {actor: 0, None: 1}
        return min(waiting, key=lambda key: rank.get(self._last.get(key), 2))

    def _lose(self, call: _Call, problem: Exception) -> None:
        """Forgets an actor, and starts another."""
        self._ray.kill(call.actor)  # it may only be out of reach
        self._last = {key: actor for key, actor in self._last.items() if actor != call.actor}
        self._losses[call.key] += 1
        if self._losses[call.key] == _TRIES + (self._number if call.key is _START else 0):
            what = "could not start" if call.key is _START else f"was lost {_TRIES} times at {call.key}"
            raise InputError(f"a worker {what}; Ray says: {str(problem).strip()}") from problem
        self._start()


def by_tasks(kind: type[Actor]) -> Run:
    """Work as `Actors.run` does it, but each piece by itself: Ray repeats it wherever it, or its result, is lost."""

    def run(method: str, work: Work, what: str) -> Iterator[tuple[Any, Any]]:
        once = joined().remote(_once).options(max_retries=-1, num_returns=2)
        calls = {key: once.remote(kind, method, *given) for key, given in work.items()}
        with task(what, total=len(work)) as advance:
            for key, (result, done) in calls.items():
                got(done)
                advance(1)
                yield key, result

    return run


def _once(kind: type[Actor], method: str, *given: Any) -> tuple[Any, None]:
    return kind().do(method, *given)


def joined() -> Any:
    """Ray, of the cluster that `RAY_ADDRESS` names, or started on this machine."""
    try:
        import ray
    except ImportError:
        raise MissingBackend("the engine ray needs Ray: pip install 'capmeter[ray]'") from None
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS")
        ray.init(**({"address": address} if address else {"include_dashboard": False}), log_to_driver=False)
    return ray


def got(reference: Any) -> Any:
    """A result; its error, if it is one of capmeter's, as it was raised there."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as problem:
        if isinstance(problem.cause, CapmeterError):
            raise problem.cause from None
        raise


def number_of(workers: int, gpus: float) -> int:
    """The number of actors with a processor and `gpus` of a GPU: `workers`, or 0: as many as the cluster has room for.

    Raises:
        InputError: the cluster has not so many GPUs; Ray would wait for them for ever.
    """
    if gpus < 0 or (gpus > 1 and gpus % 1):
        raise InputError(f"gpus={gpus:g}: expected a share of one GPU, such as 0.25, or a whole number of GPUs")
    nodes = [node["Resources"] for node in joined().nodes() if node["Alive"]]
    room = sum(int(min(node.get("CPU", 0), _shares(node.get("GPU", 0), gpus))) for node in nodes)
    if gpus and room < max(workers, 1):
        have = sum(node.get("GPU", 0) for node in nodes)
        raise InputError(
            f"the cluster has {have:g} GPU{'s' * (have != 1)} (on {len(nodes)} node{'s' * (len(nodes) > 1)}), which is "
            f"room for {room} workers with {gpus:g} each, and not for {max(workers, 1)}; ask for fewer workers or a "
            "smaller share, leave --gpus out to use processors, or start nodes with GPUs"
        )
    return workers or max(room, 1)


def _shares(have: float, gpus: float) -> float:
    """How many times a node's GPUs give `gpus`; a share lies on one of them."""
    if not gpus:
        return math.inf
    return have // gpus if gpus >= 1 else int(have) * int(1 / gpus + 1e-9)


__all__ = ["Actor", "Actors", "Run", "Work", "by_tasks", "got", "joined", "number_of"]
