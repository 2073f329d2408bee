"""What mkdocs runs beside its plug-ins: pages made from the code and of papers, and links that stay inside the site.

The pages of metrics are made from their docstrings, those of commands from their help, each with a real run on the
example captions. Files outside `docs/` that pages link to (the changelog, the example plug-in …) become pages.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import agent_pages
import command_pages
import generate_docs
import metric_pages
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "research" / "docs"
WORK = ROOT / "out" / "site-work"  # where the commands of the pages run
# what pages may link to outside `docs/`: the page that it becomes
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples": "examples.md",
    "examples/README.md": "examples.md",
    "examples/plugin": "plugin.md",
    "examples/lightning_captioner.py": "lightning.md",
    "examples/torchmetrics_captions.py": "torchmetrics.md",
    "examples/lmms_eval": "lmms_eval.md",
    "examples/evaluate_space": "evaluate_space.md",
}
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
_FOREIGN = re.compile(r"""(?:src|href|action|poster)=["']?(?:https?:)?//[^"'\s>]+|url\(["']?(?:https?:)?//[^)]+""")
_PAGES: dict[str, tuple[str, str]] = {}  # of this build: title and Markdown by path
_log = logging.getLogger("mkdocs.plugins.capmeter")


def on_config(config: Any) -> Any:
    """Commands of pages find this environment's capmeter; the parts of the navigation that are made here are filled."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "CAPMETER_SITE": str(WORK)}
    output = {"metrics": metric_pages.navigation(), "commands": command_pages.navigation()}
    for part in config.nav:
        for pages in part.values():
            pages[:] = [
                page for each in pages for page in (output.get(each, [each]) if isinstance(each, str) else [each])
            ]
    expected_names = {page for part in config.nav for page in _pages(part)}
    for title, folder in (
        ("Guides", Path(config.docs_dir)),
        ("Papers", PAPERS),
    ):  # a page that nobody listed is not lost
        new = sorted(each.name for each in folder.glob("*.md") if each.name not in expected_names)
        next(part for part in config.nav if title in part)[title].extend(new)
    return config


def _pages(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [page for each in (part.values() if isinstance(part, dict) else part) for page in _pages(each)]


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of papers, and those that are made."""
    for path in sorted(PAPERS.iterdir()):
        files.append(File(path.name, str(PAPERS), config.site_dir, config.use_directory_urls))
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    pages = {
        "changelog.md": _moved((ROOT / "CHANGELOG.md").read_text("utf-8"), PurePosixPath()),
        "contributing.md": _moved((ROOT / "CONTRIBUTING.md").read_text("utf-8"), PurePosixPath()),
        "examples.md": (ROOT / "examples" / "README.md").read_text("utf-8"),
        "plugin.md": _plugin(),
        "lightning.md": "# A Lightning module\n\nA captioner that logs its scores.\n\n"
        f"{_code('examples/lightning_captioner.py', 'python')}\n",
        "torchmetrics.md": "# A torchmetrics example\n\nScores of captions in batches, by torchmetrics.\n\n"
        f"{_code('examples/torchmetrics_captions.py', 'python')}\n",
        "lmms_eval.md": _folder("Tasks of lmms-eval", "lmms_eval", ("utils.py", "coco_capmeter.yaml")),
        "evaluate_space.md": _folder(
            "A space for evaluate", "evaluate_space", ("caption_scores.py", "app.py", "requirements.txt", "README.md")
        ),
        "api.md": _interface(),
        **command_pages.pages(WORK),
        **metric_pages.pages(WORK),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that lead out of `docs/` lead to the page that the file became; names lead to their documentation."""
    if page.file.src_uri == "python.md":
        markdown = re.sub(r"(?m)^\| `(\w+)`", r"| [`\1`](api.md#capmeter.\1)", markdown)
        markdown = markdown.replace("(api.md#capmeter.__version__)", "(contributing.md)")
    if page.file.generated_by is not None:
        return markdown
    return _moved(
        generate_docs.generate(markdown, "docs"), PurePosixPath(Path(page.file.src_dir).relative_to(ROOT).as_posix())
    )


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Every page has a description, for search engines and language models."""
    page.meta.setdefault("description", agent_pages.describe(page.markdown))
    _PAGES[page.file.src_uri] = (page.title, page.markdown)
    return html


def on_post_build(config: Any) -> None:
    """The files for language models are written; no page asks the network for anything."""
    site = Path(config.site_dir)
    (site / "llms.txt").write_text(agent_pages.index(config.site_name, config.site_description, _PAGES), "utf-8")
    texts = [f"<!-- {path} -->\n\n{markdown.strip()}\n" for path, (_, markdown) in _PAGES.items()]
    (site / "llms-full.txt").write_text("\n".join(texts), "utf-8")
    (site / "SKILL.md").write_text(agent_pages.skill(), "utf-8")
    for path in [page for page, (title, text) in _PAGES.items() if not title or not agent_pages.describe(text)]:
        _log.warning("%s has no title, or no paragraph to describe it", path)
    for path in Path(config.site_dir).rglob("*"):
        if path.suffix in (".html", ".css"):
            for result in asked(path.read_text("utf-8")):
                _log.warning("%s asks the network: %s", path.relative_to(config.site_dir), result[:100])


def asked(text: str) -> list[str]:
    """What a page or style sheet loads from elsewhere; links that a reader may follow are not loaded."""
    return _FOREIGN.findall(re.sub(r"<a\s[^>]*>", "", text))


def _moved(text: str, folder: PurePosixPath) -> str:
    """Markdown of a file in this folder of the project, with links as the site has them."""

    def lead(result: re.Match[str]) -> str:
        target = result.group(1)
        if "://" in target or target.startswith("mailto:"):
            return target
        place = os.path.normpath(folder / target)
        inside = PurePosixPath(place)
        folder_of_pages = next((each for each in ("docs", "research/docs") if inside.is_relative_to(each)), None)
        return OUTSIDE.get(place) or (target if folder_of_pages is None else str(inside.relative_to(folder_of_pages)))

    return _LINK.sub(lead, text)


def _plugin() -> str:
    """The example plug-in: what its README says, and its files."""
    folder = ROOT / "examples" / "plugin"
    parts = [_moved((folder / "README.md").read_text("utf-8").rstrip(), PurePosixPath("examples/plugin"))]
    for name, language in (
        ("pyproject.toml", "toml"),
        *((f"capmeter_chrf/{name}.py", "python") for name in ("__init__", "more", "command", "image_encoder")),
    ):
        parts.append(f"## {name}\n\n{_code(f'examples/plugin/{name}', language)}")
    return "\n\n".join(parts) + "\n"


def _folder(title: str, folder: str, names: Sequence[str]) -> str:
    """Files of a folder of the examples, each under its name."""
    languages = {".py": "python", ".yaml": "yaml", ".md": "markdown", ".txt": "text"}
    parts = [f"# {title}", f"What the folder `examples/{folder}` of the repository holds."]
    parts += [f"## {name}\n\n{_code(f'examples/{folder}/{name}', languages[Path(name).suffix])}" for name in names]
    return "\n\n".join(parts) + "\n"


def _code(path: str, language: str) -> str:
    """A file of the project as a block of code."""
    text = (ROOT / path).read_text("utf-8").rstrip()
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"


def _interface() -> str:
    """The page of every public function and class, from their docstrings."""
    import capmeter

    parts = [
        "# Functions and classes",
        "What [the Python interface](python.md) lists, with signatures. All of it is imported from `capmeter`.",
    ]
    by_module: dict[str, list[str]] = {}
    for name in vars(capmeter)["__all__"]:
        if name != "__version__" and not inspect.ismodule(public := getattr(capmeter, name)):
            by_module.setdefault(public.__module__, []).append(name)
    for module, names in sorted(by_module.items()):
        parts.append(f"## {module}")
        parts += [_documented(name) for name in names]
    return "\n\n".join(parts) + "\n"


def _documented(name: str) -> str:
    """What mkdocstrings makes of a name; `parse` is a method of the registry, which it cannot know."""
    if name != "parse":
        return f"::: capmeter.{name}"
    import capmeter

    docstring = inspect.getdoc(capmeter.parse)
    return f'### `capmeter.parse(text)` {{ #capmeter.parse }}\n\n{docstring} `parse("cider-d(sigma=5.0)")` is a metric.'
