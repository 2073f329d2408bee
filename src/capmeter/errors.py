"""What can go wrong, as few kinds as a caller can act on.

Every message says where (file, line or id), what came, what was expected, and what to do.
"""

from __future__ import annotations


class CapmeterError(Exception):
    """The base of every error that capmeter raises on purpose."""


class InputError(CapmeterError):
    """The captions, the references or a file of them are not what was expected (exit code 1)."""


class ProtocolError(CapmeterError):
    """A benchmark's data does not fit the protocol it was to be judged by (exit code 1)."""


class MissingBackend(CapmeterError):
    """Something optional is not installed; the message names the command that brings it (exit code 3)."""


class AssetError(CapmeterError):
    """A model, table or index is missing, damaged or not the one it should be (exit code 3)."""


class MetricError(CapmeterError):
    """A metric, most likely one of another package, gave something that is no score (exit code 1)."""
