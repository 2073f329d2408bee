"""Builds the documentation site: python scripts/site/build.py; ends with 1 if a page, link or command is wrong.

Zensical makes HTML of a folder of Markdown (`out/pages`), which is written here. Pages of metrics are made from their
docstrings, those of commands from their help, each with a real run on the example captions; files outside `docs/` that
pages link to (the changelog, the example plug-in …) become pages; every page gets a description.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import agent_pages
import command_pages
import generate_docs
import metric_pages
from console import fold_command, transcript

from capmeter.report.leaderboard import leaderboard_html

ROOT = Path(__file__).resolve().parents[2]
GUIDES, PAPERS = ROOT / "docs", ROOT / "research" / "docs"
OUT = ROOT / "out"
PAGES, SITE, WORK = OUT / "pages", OUT / "site", OUT / "site-work"  # WORK: where the commands of the pages run
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
_BLOCK = re.compile(r"(?ms)^```.*?^```$")
_LONG_COMMAND = re.compile(r"(?m)^(\$ )?((?:capmeter|python) [^\n#|>]{79,})$")
_EXECUTED = re.compile(r'(?ms)^```console exec="on"\n(.*?)^```$')
_log = logging.getLogger("capmeter.site")


class _Complaints(logging.Handler):
    """What was wrong, on standard error; the build ends with 1 if anything was."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts and prints a warning."""
        self.count += 1
        print(f"site: {record.getMessage()}", file=sys.stderr)


def main() -> int:
    """Writes the pages, lets Zensical make the site, checks it; the exit code."""
    complaints = _Complaints(logging.WARNING)
    _log.addHandler(complaints)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", "CAPMETER_SITE": str(WORK)}
    for folder in (PAGES, SITE, WORK):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    pages = make_pages()
    described = {path: (_title(text), text) for path, text in pages.items()}
    for path, (title, text) in described.items():
        description = agent_pages.describe(text)
        if not title or not description:
            _log.warning("%s has no title, or no paragraph to describe it", path)
        target = PAGES / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"---\ndescription: {json.dumps(description, ensure_ascii=False)}\n---\n\n{text}", "utf-8")
    for file in [*GUIDES.iterdir(), *PAPERS.iterdir()]:
        if file.is_file() and file.suffix != ".md":
            shutil.copy(file, PAGES)
    name, about = _write_configuration(pages)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "-f", "out/mkdocs.yml"], cwd=ROOT)
    _write_texts(name, about, described)
    for file in SITE.rglob("*"):
        if file.suffix in (".html", ".css"):
            text = file.read_text("utf-8")
            for result in asked(text):
                _log.warning("%s asks the network: %s", file.relative_to(SITE), result[:100])
            for picture in re.findall(r'<img[^>]+src="([^":]+)"', text):  # which Zensical does not look for
                if not (file.parent / picture).is_file():
                    _log.warning("%s shows %s, which does not exist", file.relative_to(SITE), picture)
    return int(done.returncode != 0 or complaints.count > 0)


def make_pages() -> dict[str, str]:
    """The Markdown of every page, by its path in the site. The commands that pages show are run."""
    made = {
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
    written = {}
    for folder in (GUIDES, PAPERS):
        for path in sorted(folder.glob("*.md")):
            text = generate_docs.generate(path.read_text("utf-8"), "docs")
            text = _moved(text, PurePosixPath(folder.relative_to(ROOT).as_posix()))
            written[path.name] = _BLOCK.sub(_fold_commands, _EXECUTED.sub(_execute, text))
    board = leaderboard_html(GUIDES / "leaderboard")
    written["leaderboard.md"] = written["leaderboard.md"].replace("<!-- the table -->", board.replace("\n\n", "\n"))
    python = re.sub(r"(?m)^\| `(\w+)`", r"| [`\1`](api.md#capmeter.\1)", written["python.md"])
    written["python.md"] = python.replace("(api.md#capmeter.__version__)", "(contributing.md)")
    return written | made


def _execute(block: re.Match[str]) -> str:
    """A block of commands with what they print in the folder of `capmeter demo`."""
    commands = re.findall(r"(?m)^\$ (.+)$", block.group(1))
    return f"```console\n{transcript(commands, WORK / command_pages.DEMO)}\n```"


def _fold_commands(block: re.Match[str]) -> str:
    """A block of code with commands that fit a window of 80 columns."""
    return _LONG_COMMAND.sub(lambda line: (line[1] or "") + fold_command(line[2]), block.group())


def _title(text: str) -> str:
    heading = re.search(r"(?m)^# (.+)$", text)
    return heading.group(1).replace("`", "") if heading else ""


def _write_configuration(pages: dict[str, str]) -> tuple[str, str]:
    """Writes Zensical's configuration, with the navigation of pages that are made; the site's name and description."""
    import yaml

    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    made = {"metrics": metric_pages.navigation(), "commands": command_pages.navigation()}
    for part in settings["nav"]:
        for entries in part.values():
            entries[:] = [
                entry for each in entries for entry in (made.get(each, [each]) if isinstance(each, str) else [each])
            ]
    listed = set(_listed(settings["nav"]))
    for path in sorted(pages.keys() - listed):
        _log.warning("%s is not in the navigation of mkdocs.yml", path)
    (OUT / "mkdocs.yml").write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), "utf-8")
    return settings["site_name"], settings["site_description"]


def _listed(entries: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    for entry in entries if isinstance(entries, list) else entries.values() if isinstance(entries, dict) else ():
        yield from [entry] if isinstance(entry, str) else _listed(entry)


def _write_texts(name: str, about: str, pages: dict[str, tuple[str, str]]) -> None:
    """The files for language models."""
    (SITE / "llms.txt").write_text(agent_pages.index(name, about, pages), "utf-8")
    texts = [f"<!-- {path} -->\n\n{markdown.strip()}\n" for path, (_, markdown) in pages.items()]
    (SITE / "llms-full.txt").write_text("\n".join(texts), "utf-8")
    (SITE / "SKILL.md").write_text(agent_pages.skill(), "utf-8")


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


if __name__ == "__main__":
    sys.exit(main())
