"""The errors that capmeter raises: only as many kinds as a caller can act on.

Every message says where (file, line or id), what was found, what was expected, and what to do.
"""

from __future__ import annotations


class CapmeterError(Exception):
    """The base class of all errors that capmeter raises deliberately."""


class InputError(CapmeterError):
    """The captions, the references or an input file are not as expected (exit code 1)."""


class ProtocolError(CapmeterError):
    """A benchmark's data does not fit the chosen protocol (exit code 1)."""


class MissingBackend(CapmeterError):
    """An optional dependency is not installed; the message gives the install command (exit code 3)."""


class AssetError(CapmeterError):
    """A model, table or index is missing, damaged or not the expected one (exit code 3)."""


class MetricError(CapmeterError):
    """A metric, most likely one from another package, returned something that is not a valid score (exit code 1)."""
