"""Tar archives whose damage is not taken for their end.

`tarfile` ends in silence at the first damaged header, and where a file is cut off between two members: the captions
after it would be lost.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Self


class TarShard(tarfile.TarFile):
    """An archive that is read member by member, up to its end mark."""

    has_end = False

    @classmethod
    def open_stream(cls, file: BinaryIO) -> TarShard:
        """The archive in an open file, read once from its start."""
        # blocks of zeros are passed over: what follows them must be the end of the file, or another archive
        return cls.open(fileobj=file, mode="r|", tarinfo=_Member, ignore_zeros=True)


class _Member(tarfile.TarInfo):
    """A member whose header is intact."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """The next member.

        Raises:
            HeaderError: there is none, after an end mark.
            ReadError: its header is damaged, or the archive is cut off before it.
        """
        assert isinstance(tarfile_, TarShard)
        try:
            member = super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            tarfile_.has_end = True
            raise
        except tarfile.EmptyHeaderError:  # type: ignore[attr-defined]
            if tarfile_.has_end:
                raise
            raise tarfile.ReadError("no end mark") from None
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from None
        tarfile_.has_end = False
        return member
