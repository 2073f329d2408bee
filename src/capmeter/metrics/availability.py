"""Which optional parts are installed, and the commands that install the others."""

from __future__ import annotations

import importlib.util

# extra: the modules it provides
EXTRAS = {
    "neural": ("torch", "transformers", "tokenizers", "safetensors"),
    "vision": ("torch", "transformers", "tokenizers", "safetensors", "PIL"),
    "judge": ("httpx", "PIL"),
    "meteor": ("pycocoevalcap",),
    "report": ("jinja2", "matplotlib", "PIL"),
}
EXTRAS["all"] = tuple(dict.fromkeys(module for modules in EXTRAS.values() for module in modules))


def availability(extra: str | None) -> str | None:
    """None if an extra (or each of several, "meteor,neural") is installed or belongs to another package, else the
    command that installs what is missing.
    """
    missing = [each for each in (extra or "").split(",") if not _installed(each)]
    return install_command(",".join(missing)) if missing else None


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'capmeter[{extra}]'"


def _installed(extra: str) -> bool:
    return all(importlib.util.find_spec(module) for module in EXTRAS.get(extra, ()))
