"""Whether a file that was read before is still the same."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISDIR, S_ISREG

from capmeter.core.errors import InputError


def file_stamp(option: str, path: str, expected: str) -> tuple[int, int]:
    """When a file was last changed, in ns, and its size in bytes: a cache of its content is valid while both are equal.

    Args:
        option: the metric's option that names the file, for the message.
        path: of the file.
        expected: what the option accepts, for the message.

    Raises:
        InputError: there is no such file, it is a folder or a device, cannot be reached, or its name has a NUL.
    """
    try:
        file_stat = Path(path).stat()
    except (OSError, ValueError) as problem:  # a `ValueError` for a name with NUL or half of a surrogate pair
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InputError(f"{option}={path!a}: {reason}; {expected}") from problem
    if S_ISDIR(file_stat.st_mode):
        raise InputError(f"{option}={path!a}: it is a folder; {expected}")
    if not S_ISREG(file_stat.st_mode):  # such as /dev/zero, which never ends
        raise InputError(f"{option}={path!a}: it is a pipe, a socket or a device, expected a file; {expected}")
    return file_stat.st_mtime_ns, file_stat.st_size
