"""What is installed of the optional parts, and the command that brings what is not."""

from __future__ import annotations

import importlib.util

# extra: the modules it brings
EXTRAS = {
    "neural": ("torch", "transformers", "tokenizers", "safetensors"),
    "meteor": ("pycocoevalcap",),
    "report": ("jinja2", "matplotlib", "PIL"),
}


def availability(extra: str | None) -> str | None:
    """None where an extra's packages are all installed, or it is another package's, else the command to install it."""
    if extra not in EXTRAS or all(importlib.util.find_spec(module) for module in EXTRAS[extra]):
        return None
    return install_command(extra)


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'capmeter[{extra}]'"
