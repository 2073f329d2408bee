"""Which optional parts are installed, and the commands that install the others."""

from __future__ import annotations

import importlib.util

# extra: the modules it provides
EXTRAS = {
    "neural": ("torch", "transformers", "tokenizers", "safetensors"),
    "meteor": ("pycocoevalcap",),
    "report": ("jinja2", "matplotlib", "PIL"),
}
EXTRAS["all"] = tuple(dict.fromkeys(module for modules in EXTRAS.values() for module in modules))


def availability(extra: str | None) -> str | None:
    """None if an extra is installed or belongs to another package, else the command that installs it."""
    if extra not in EXTRAS or all(importlib.util.find_spec(module) for module in EXTRAS[extra]):
        return None
    return install_command(extra)


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'capmeter[{extra}]'"
