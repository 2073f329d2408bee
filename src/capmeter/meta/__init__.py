"""How good is a metric? Benchmarks, protocols, agreement with human judgments, robustness."""

from __future__ import annotations

from typing import Any

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        from capmeter.meta.agreement import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
