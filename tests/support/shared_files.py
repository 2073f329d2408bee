"""Compressed files of the shared folder: lines of JSON, or one document."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[Any]:
    return list(map(json.loads, gzip.decompress(path.read_bytes()).splitlines()))


def read_document(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))
