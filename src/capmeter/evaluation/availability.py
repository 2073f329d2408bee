"""Which optional dependencies are installed, and the commands that install the others."""

from __future__ import annotations

import importlib.util

EXTRAS = {
    "neural": ("torch", "transformers", "tokenizers", "safetensors"),
    "vision": ("torch", "transformers", "tokenizers", "safetensors", "PIL"),
    "judges": ("openai", "yaml", "PIL"),
    "meteor": ("pycocoevalcap",),
    "report": ("jinja2", "matplotlib", "PIL"),
}
EXTRAS["all"] = tuple(dict.fromkeys(module for modules in EXTRAS.values() for module in modules))


def missing_install_command(extra: str | None) -> str | None:
    """The command that installs what is missing of an extra, or of several ("meteor,neural").

    None if nothing is missing, or if the extra belongs to another package.
    """
    missing_extras = [extra_name for extra_name in (extra or "").split(",") if not _is_installed(extra_name)]
    return install_command(",".join(missing_extras)) if missing_extras else None


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'capmeter[{extra}]'"


def _is_installed(extra: str) -> bool:
    return all(importlib.util.find_spec(module) for module in EXTRAS.get(extra, ()))
