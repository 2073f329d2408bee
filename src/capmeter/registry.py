"""A registry finds the class behind a name: among capmeter's own, which are imported on first use, and among those that
installed packages provide through an entry point group (name = "module:Class").
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from capmeter.errors import InputError
from capmeter.named import Named, parameters_of, read_parameters, split_name, split_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind", bound=Named)


@dataclass(frozen=True)
class Entry:
    """A name's class as "module:Class", the parameters that the name fixes, its aliases, and its package."""

    target: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    package: str | None = None


class Registry(Generic[Kind]):
    """The names of one family of values: capmeter's own, then those of other packages.

    A name from another package that cannot be used (its import fails, it is not a class of the family, two packages
    provide it …) does not affect other names: `trouble` says why, and using it is an `InputError`.
    """

    def __init__(
        self,
        what: str,
        family: type[Kind],
        group: str,
        builtin: Mapping[str, Entry],
        planned: Mapping[str, str] | None = None,
    ) -> None:
        self.what, self.family, self.group, self.builtin = what, family, group, builtin
        self._planned = planned or {}
        self._aliases = {alias: name for name, entry in builtin.items() for alias in (name, *entry.aliases)}
        self._kinds: dict[str, type[Kind]] = {}

    @cached_property
    def _announced(self) -> dict[str, list[EntryPoint]]:
        from importlib.metadata import entry_points  # which takes longer to load than all of this module

        found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
        for each in entry_points(group=self.group):
            found.setdefault(each.name, {})[_package(each), each.value] = each
        return {name: list(each.values()) for name, each in sorted(found.items())}

    def names(self) -> list[str]:
        """All names, capmeter's first, including names from other packages that cannot be used."""
        return [*self.builtin, *self.foreign()]

    def planned(self) -> list[str]:
        """The names that are kept for what is not there yet."""
        return [name for name in self._planned if name not in self._aliases and name not in self._announced]

    def foreign(self) -> list[str]:
        """The names that come from other packages."""
        return [name for name in self._announced if name not in self._aliases]

    def entry(self, name: str) -> Entry:
        """The entry of a name; the error for an unknown name suggests the nearest."""
        own = self._aliases.get(name.lower())
        if own is not None:
            return self.builtin[own]
        if name not in self._announced:
            if name.lower() in self.planned():
                is_what = self._planned[name.lower()]
                raise InputError(f"the {self.what} {name.lower()} ({is_what}) is planned, and not in this version yet")
            import difflib  # which only mistakes need

            near = difflib.get_close_matches(name.lower(), self.names(), n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(self.names())}"
            raise InputError(f"unknown {self.what} {name!r}; {hint} (`capmeter list` shows all)")
        packages = " and ".join(_package(each) for each in self._announced[name])
        return Entry(self._announced[name][0].value, package=packages)

    def knows(self, name: str) -> bool:
        """Whether the name is in the registry."""
        return name.lower() in self._aliases or name in self._announced

    def label(self, name: str) -> str:
        """The name as it appears in errors: a name from another package is followed by the package."""
        package = self.entry(name).package
        return f"{name} (from {package})" if package else name

    def kind(self, name: str) -> type[Kind]:
        """The class behind a name."""
        entry = self.entry(name)
        if name not in self._kinds:
            module, _, attribute = entry.target.partition(":")
            own = entry.package is None
            self._kinds[name] = getattr(importlib.import_module(module), attribute) if own else self._foreign(name)
        return self._kinds[name]

    def _foreign(self, name: str) -> Any:
        label, announced = self.label(name), self._announced[name]
        if len(announced) > 1:
            raise InputError(f"the {self.what} {label} is provided twice; uninstall one of the packages")
        try:
            found = announced[0].load()  # runs third-party code, which may raise anything
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"
            raise InputError(f"the {self.what} {label} cannot be imported: {said}") from problem
        if not (isinstance(found, type) and issubclass(found, self.family)):
            raise InputError(f"{label}: {announced[0].value} is {found!r}, expected a {self.family.__name__} class")
        missing = sorted(getattr(found, "__abstractmethods__", ()))
        missing += [each for each in ("NAME", "SUMMARY") if not isinstance(getattr(found, each, None), str)]
        if missing:
            raise InputError(f"{label}: the class {found.__name__} has no {' and no '.join(missing)}; define it")
        if name != found.NAME:
            raise InputError(f"{label}: its NAME is {found.NAME!r}; class and entry point must agree")
        try:
            if all(each.default is not MISSING for each in parameters_of(found).values()):
                found()
        except Exception as problem:
            raise InputError(f"{label}: cannot create a {self.what} from {found.__name__}: {problem}") from problem
        return found

    def trouble(self, name: str) -> str | None:
        """Why a name cannot be used, or None."""
        try:
            self.kind(name)
        except InputError as problem:
            return str(problem)
        return None

    def ready(self) -> list[str]:
        """The names that can be used."""
        return [name for name in self.names() if self.trouble(name) is None]

    def shadowed(self) -> dict[str, str]:
        """capmeter's names that other packages also provide, to no effect, and those packages."""
        both = {name: each for name, each in self._announced.items() if name in self._aliases}
        return {name: " and ".join(map(_package, each)) for name, each in both.items()}

    def package(self, value: Kind) -> str | None:
        """The package, with its version, that a value's class comes from; None for capmeter's own."""
        if value.name in self._aliases:  # nothing is asked of the packages that are installed, which takes long
            return None
        if value.name not in self.foreign() or self.trouble(value.name) or self.kind(value.name) is not type(value):
            return None
        return self.entry(value.name).package

    def parse(self, text: str | Kind) -> Kind:
        """The value with this text form; a value is returned unchanged."""
        if isinstance(text, self.family):
            return text
        name, inside = split_name(text, self.what)  # type: ignore[arg-type]
        entry, kind, label = self.entry(name), self.kind(name), self.label(name)
        given = read_parameters(kind, inside, label, fixed=entry.fixed, member=self.parse)
        needed = [key for key, each in parameters_of(kind).items() if each.default is MISSING]
        absent = [key for key in needed if key not in given and key not in entry.fixed]
        if absent:
            raise InputError(f"{label} requires {', '.join(absent)}; give it in parentheses")
        return kind(**entry.fixed, **given)

    def parse_list(self, text: str | Iterable[str | Kind]) -> list[Kind]:
        """Values from a comma-separated text (not at commas inside parentheses) or a list, without duplicates."""
        values = [self.parse(part) for part in (split_text(text, ",") if isinstance(text, str) else text)]
        if not values:
            raise InputError(f"no {self.what} was given; expected at least one, such as {','.join(self.names()[:3])}")
        for k, value in enumerate(values):
            if value in values[:k]:
                raise InputError(f"duplicate {self.what} {value}; name each {self.what} once")
        return values


def _package(announced: EntryPoint) -> str:
    return f"{announced.dist.name}-{announced.dist.version}" if announced.dist else "an unknown package"
