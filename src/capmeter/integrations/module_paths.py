"""The module paths of a package that is replaced by a drop-in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType


def add_modules(drop_in: str, paths: Mapping[str, Iterable[str]]) -> None:
    """Makes names of a drop-in importable under the module paths that they have in the package it replaces.

    Args:
        drop_in: the name of the drop-in's module.
        paths: module path within the package → names that are imported from there.
    """
    package = sys.modules[drop_in]
    package.__path__ = []  # a package, so that modules can be imported from it; all are made here
    for path, names in paths.items():
        parent = package
        for part in path.split("."):
            module_name = f"{parent.__name__}.{part}"
            module = sys.modules.get(module_name) or ModuleType(module_name, package.__doc__)
            module.__path__ = []
            sys.modules[module_name] = module
            if not hasattr(parent, part):  # a function may have the name of its module
                setattr(parent, part, module)
            parent = module
        vars(parent).update({name: getattr(package, name) for name in names})
