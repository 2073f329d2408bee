"""A registry finds the class of a name: among capmeter's own, which are imported on first use, and among those that
installed packages provide through an entry point group (name = "module:Class").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from capmeter.core.errors import InputError
from capmeter.core.json_text import read_bundled_json
from capmeter.core.named import Named, parameters_of, read_parameters, split_name, split_text

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind", bound=Named)


@dataclass(frozen=True)
class Entry:
    """A name in a registry.

    Attributes:
        target: its class, as "module:Class".
        implied_parameters: the parameters that the name implies.
        aliases: its other names.
        package: the package, with its version, that provides it; None for capmeter.
    """

    target: str
    implied_parameters: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    package: str | None = None


class Registry(Generic[Kind]):
    """The names of one family of values: capmeter's own, then those of other packages.

    A name from another package that cannot be used (its import fails, it is not a class of the family, two packages
    provide it …) does not affect other names: `load_error` says why, and using it is an `InputError`.

    Args:
        what: a word for the family's values, for messages.
        family: the base class.
        group: the entry point group of other packages.
        builtin: capmeter's own names.
        bundles: names that stand for several others in a list.
    """

    def __init__(
        self,
        what: str,
        family: type[Kind],
        group: str,
        builtin: Mapping[str, Entry],
        bundles: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.what, self.family, self.group, self.builtin, self.bundles = what, family, group, builtin, bundles
        self._aliases = {fold_name(alias): name for name, entry in builtin.items() for alias in (name, *entry.aliases)}
        self._classes: dict[str, type[Kind]] = {}

    @cached_property
    def third_party(self) -> dict[str, str]:
        """The names from other packages by what people type."""
        return {fold_name(name): name for name in self._entry_points if self.builtin_name(name) is None}

    @cached_property
    def _entry_points(self) -> dict[str, list[EntryPoint]]:
        from importlib.metadata import entry_points  # takes longer to load than all of this module

        points_by_name: dict[str, dict[tuple[str, str], EntryPoint]] = {}
        for entry_point in entry_points(group=self.group):
            points_by_name.setdefault(entry_point.name, {})[_package(entry_point), entry_point.value] = entry_point
        return {name: list(distinct.values()) for name, distinct in sorted(points_by_name.items())}

    def __contains__(self, name: str) -> bool:
        return self.builtin_name(name) is not None or fold_name(name) in self.third_party

    def builtin_name(self, name: str) -> str | None:
        """capmeter's name that this is, whatever its case, hyphens and underscores; None if there is none."""
        return self._aliases.get(fold_name(name))

    def names(self) -> list[str]:
        """All names, capmeter's first, including names from other packages that cannot be used."""
        return [*self.builtin, *self.third_party.values()]

    def available(self) -> list[str]:
        """The names that can be used."""
        return [name for name in self.names() if self.load_error(name) is None]

    def overridden(self) -> dict[str, str]:
        """capmeter's names that other packages also provide, without effect, and those packages."""
        overridden_points = {
            name: points for name, points in self._entry_points.items() if self.builtin_name(name) is not None
        }
        return {name: " and ".join(map(_package, points)) for name, points in overridden_points.items()}

    def entry(self, name: str) -> Entry:
        """The entry of a name.

        Raises:
            InputError: the name is unknown; suggests the nearest ones.
        """
        if (canonical_name := self.builtin_name(name)) is not None:
            return self.builtin[canonical_name]
        if (third_party_name := self.third_party.get(fold_name(name))) is None:
            raise InputError(f"unknown {self.what} {name!r}; {self.suggest(name)}")
        package_names = " and ".join(map(_package, self._entry_points[third_party_name]))
        return Entry(self._entry_points[third_party_name][0].value, package=package_names)

    def similar(self, name: str) -> list[str]:
        """The names that may have been meant by an unknown one."""
        import difflib  # needed for mistakes only

        return difflib.get_close_matches(name.lower(), self.names(), n=3, cutoff=0.7)

    def suggest(self, name: str) -> str:
        """Where an unknown name is, or what may have been meant by it."""
        similar, kind = self.similar(name), self.group.removeprefix("capmeter.")
        hint = f" (`capmeter list {kind}` shows all)" if kind in ("metrics", "transforms") else ""
        nearest = f"did you mean {' or '.join(similar)}?{hint}" if similar else f"known are: {', '.join(self.names())}"
        return find_package(kind, name) or nearest

    def label(self, name: str) -> str:
        """The name as it appears in errors: a name from another package is followed by the package."""
        package = self.entry(name).package
        return f"{name} (from {package})" if package else name

    def class_of(self, name: str) -> type[Kind]:
        """The class of a name.

        Raises:
            InputError: the name is unknown, or its class cannot be used.
        """
        entry = self.entry(name)
        if name not in self._classes:
            self._classes[name] = self._load_third_party(name) if entry.package else resolve_name(entry.target)
        return self._classes[name]

    def _load_third_party(self, name: str) -> Any:
        name = self.third_party[fold_name(name)]
        label, entry_points = self.label(name), self._entry_points[name]
        if len(entry_points) > 1:
            raise InputError(f"the {self.what} {label} is provided twice; uninstall one of the packages")
        try:
            loaded = entry_points[0].load()  # runs third-party code, which may raise anything
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"the {self.what} {label} cannot be imported: {reason}") from error
        if not (isinstance(loaded, type) and issubclass(loaded, self.family)):
            raise InputError(f"{label}: {entry_points[0].value} is {loaded!r}, expected a {self.family.__name__} class")
        missing_members = sorted(getattr(loaded, "__abstractmethods__", ()))
        missing_members += [key for key in ("NAME", "SUMMARY") if not isinstance(getattr(loaded, key, None), str)]
        if missing_members:
            raise InputError(
                f"{label}: the class {loaded.__name__} has no {' and no '.join(missing_members)}; define it"
            )
        if name != loaded.NAME:
            raise InputError(f"{label}: its NAME is {loaded.NAME!r}; class and entry point must agree")
        try:
            if all(parameter.default is not MISSING for parameter in parameters_of(loaded).values()):
                loaded()
        except Exception as error:
            raise InputError(f"{label}: cannot create a {self.what} from {loaded.__name__}: {error}") from error
        return loaded

    def load_error(self, name: str) -> str | None:
        """Why a name cannot be used, or None."""
        try:
            self.class_of(name)
        except InputError as error:
            return str(error)
        return None

    def package_of(self, value: Kind) -> str | None:
        """The package, with its version, that a value's class comes from; None for capmeter's own."""
        name = value.name
        if name in self.builtin:  # without a look at the installed packages, which takes long
            return None
        if name not in self.third_party.values() or self.load_error(name) or self.class_of(name) is not type(value):
            return None
        return self.entry(name).package

    def parse(self, text: str | Kind) -> Kind:
        """The value with this text form; a value is returned unchanged.

        Raises:
            InputError: an unknown name, or parameters that are wrong or missing.
        """
        if isinstance(text, self.family):
            return text
        name, inside = split_name(text, self.what)  # type: ignore[arg-type]
        implied, kind, label = self.entry(name).implied_parameters, self.class_of(name), self.label(name)
        try:
            parameters = read_parameters(kind, inside, label, implied=implied, member=self.parse)
        except RecursionError:
            raise InputError(f"the {self.what} {label} is nested too deeply") from None
        required_names = [key for key, parameter in parameters_of(kind).items() if parameter.default is MISSING]
        missing_names = [key for key in required_names if key not in parameters and key not in implied]
        if missing_names:
            raise InputError(f"{label} requires {', '.join(missing_names)}; give it in parentheses")
        return kind(**implied, **parameters)

    def parse_list(self, text: str | Iterable[str | Kind]) -> list[Kind]:
        """Values from a comma-separated text (not at commas inside parentheses) or a list; a bundle gives its members.

        Raises:
            InputError: no value, the same value twice (outside bundles), or one that `parse` rejects.
        """
        only_bundled: dict[Kind, bool] = {}  # each value: whether only bundles contain it
        for part in split_text(text, ",") if isinstance(text, str) else text if isinstance(text, Iterable) else [text]:
            bundle = self.bundles.get(part.strip().lower(), ()) if isinstance(part, str) else ()
            for value in map(self.parse, bundle or (part,)):
                if not bundle and not only_bundled.get(value, True):
                    raise InputError(f"duplicate {self.what} {value}; name each {self.what} once")
                only_bundled[value] = bool(bundle) and only_bundled.get(value, True)
        if not only_bundled:
            raise InputError(f"no {self.what} was given; expected at least one, such as {','.join(self.names()[:3])}")
        return list(only_bundled)


def other_packages() -> dict[str, dict[str, Any]]:
    """Names that another distribution of the project provides, for users who have not installed it: `metrics`,
    `commands`, `scene_graphs`, `judge_protocols` and `larger_encoders` of each, and how to `install` it; the
    `demo_metrics`, which take a second, and the `threshold_metric`, whose threshold `calibrate` measures, where they
    are installed.
    """
    packages: dict[str, dict[str, Any]] = read_bundled_json("other_packages.json")
    return packages


def find_package(kind: str, name: str) -> str:
    """Which distribution of the project provides a name, for users who have not installed it; empty if none does.

    Args:
        kind: of the name, as in `other_packages`.
        name: a name that was not found.
    """
    packages = other_packages().items()
    provider = next((each for each in packages if fold_name(name) in map(fold_name, each[1].get(kind, ()))), None)
    return f"it is part of {provider[0]}, which is not installed: {provider[1]['install']}" if provider else ""


def fold_name(name: str) -> str:
    """A name without what people write differently: case, hyphens, underscores, and the @ of BLEU@4."""
    return re.sub("[-_@]", "", name.lower())


def _package(entry_point: EntryPoint) -> str:
    return f"{entry_point.dist.name}-{entry_point.dist.version}" if entry_point.dist else "an unknown package"
