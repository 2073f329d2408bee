"""What the site offers language models: `llms.txt`, `llms-full.txt` and `SKILL.md`, made of its pages and commands."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping

import typer

from capmeter.cli.main import commands

_SKILL = """---
name: evaluate-captions
description: Evaluates captions of images, video and sound with capmeter (scores, intervals, comparisons, explanations).
---

# Evaluate captions with capmeter

1. `capmeter validate FILE -r REFERENCES` first: what the file holds, and what may be wrong with it. Read its warnings.
2. `capmeter score FILE -r REFERENCES -m bleu-4,cider-d,rouge-l --format json`. Report each score with its interval and
   its signature; say what the notes on standard error say.
3. Two or more systems: `capmeter compare`. A difference without significance is not an improvement.
4. `capmeter explain FILE -r REFERENCES -m METRIC --worst 5` before anything is said about why a score is low.
5. `capmeter list` names all metrics, `capmeter list NAME` its parameters and when it misleads. Captions of more than
   sixty words: detailed-captions.md, not CIDEr. `capmeter doctor` says what is missing and how to install it.

Exit codes: 0 done, 1 the input is bad, 2 wrong usage, 3 something optional is missing, 4 a requested check failed.

## Commands
"""


def skill() -> str:
    """How to evaluate captions with the command line, with every command's summary and examples."""
    parts = [_SKILL.strip()]
    for name, module in commands().items():
        help = inspect.cleandoc(typer.main.get_command(importlib.import_module(module).app).help or "")
        summary, _, examples = help.partition("**Example")
        lines = re.findall(r"`(capmeter [^`]+)`", examples)
        parts.append(
            "\n".join(
                [f"`{name}`: {summary.split(chr(10) * 2)[0].replace(chr(10), ' ')}", *(f"    {each}" for each in lines)]
            )
        )
    return "\n\n".join(parts) + "\n"


def index(name: str, description: str, pages: Mapping[str, tuple[str, str]]) -> str:
    """`llms.txt`: every page with its first sentence, by https://llmstxt.org.

    Args:
        name: the site's.
        description: the site's.
        pages: the title and the Markdown of each page, by path.
    """
    lines = [f"- [{title}]({path}): {describe(text)}" for path, (title, text) in pages.items()]
    return "\n".join([f"# {name}", "", f"> {description}", "", "## Pages", "", *lines]) + "\n"


def describe(text: str) -> str:
    """The first sentence of a page's first paragraph, as plain text of at most 200 characters."""
    without_code = re.sub(r"(?ms)^```.*?^```$|<!--.*?-->|<[^>]+>", "", text)
    paragraphs = [each.strip() for each in re.split(r"\n\s*\n", without_code)]
    texts = [" ".join(each.split()) for each in paragraphs if each and not re.match(r"[#|!>:*-]|\d+\.", each)]
    plain = next((each for each in texts if len(each) > 40 and not each.endswith(":")), texts[0] if texts else "")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
    sentence = re.split(r"(?<=[a-z0-9`)][.]) ", plain.replace("**", "").replace("`", "").replace("\\", ""))[0]
    return sentence if len(sentence) <= 200 else sentence[:199].rpartition(" ")[0] + "…"
