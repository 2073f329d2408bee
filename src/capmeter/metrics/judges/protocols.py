"""The protocols that task files name under `ask:`, and the task files: capmeter's, and those of other packages.

A package adds protocols through the entry point group `capmeter.judge_protocols` (name = "module:Class"), and tasks as
YAML files in a folder `prompts` beside the module.

>>> read_task("clair").fill(candidate="a dog")[115:148]
'Candidate set:\\n- a dog\\n\\nReference'
"""

from __future__ import annotations

import functools
from pathlib import Path

import yaml
from pydantic import ValidationError

from capmeter.core.assets import file_stamp, package_folder
from capmeter.core.errors import InputError
from capmeter.core.messages import describe
from capmeter.core.registry import Entry, Registry, find_package
from capmeter.metrics.judges.questions import JudgeProtocol
from capmeter.metrics.judges.tasks import Task

_FOLDER = Path(__file__).resolve().parents[2] / "data" / "prompts"
_MAX_BYTES = 1_000_000

PROTOCOLS: Registry[JudgeProtocol] = Registry(
    "judge protocol",
    JudgeProtocol,
    "capmeter.judge_protocols",
    {
        "caption": Entry("capmeter.metrics.judges.questions:QuestionProtocol"),
        "question": Entry("capmeter.metrics.judges.questions:QuestionProtocol"),
        "checklist": Entry("capmeter.metrics.judges.questions:ChecklistProtocol"),
    },
)
"""The protocols by their names in task files."""


@functools.cache
def find_tasks() -> dict[str, Path]:
    """The task files of the packages, by name."""
    modules = dict.fromkeys(PROTOCOLS.entry(name).target.partition(":")[0] for name in PROTOCOLS.third_party())
    added_folders = {package_folder(module.rpartition(".")[0], "prompts"): None for module in modules}
    folders = [_FOLDER, *(folder for folder in added_folders if folder is not None)]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def read_task(name: str) -> Task:
    """The task with this name in a package, or in this file, read once per content.

    Raises:
        InputError: there is none, or a field is missing, unknown or of another form; the field is named.
    """
    tasks = find_tasks()
    if name in tasks:
        return _read(name, tasks[name], (0, 0))
    path = Path(name).expanduser().absolute()
    expected = f"expected a YAML file, or one of {', '.join(tasks)}"
    expected = find_package("judge_protocols", name) or find_package("metrics", name) or expected
    return _read(name, path, file_stamp("task", str(path), expected))


@functools.lru_cache(maxsize=64)
def _read(name: str, path: Path, stamp: tuple[int, int]) -> Task:
    if stamp[1] > _MAX_BYTES:
        raise InputError(f"task {name!r}: expected a YAML file of at most 1 MB")
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"task {name!r}: {error.strerror}; expected a YAML file that can be read") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"task {name!r}: not valid YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise InputError(f"task {name!r}: expected YAML fields such as prompt: and read:; see docs/judges.md")
    try:
        return Task.model_validate({"name": Path(name).stem, **fields})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ": ".join(map(str, problem["loc"]))
        reason = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            reason = "unknown field; see docs/judges.md for those of a task"
        elif place:
            reason = f"got {describe(problem['input'])}; {reason}"
            if isinstance(problem["input"], bool) and "string" in reason:
                reason += " (yes and no are not text in YAML: write them in quotes)"
        raise InputError(f"task {name!r}: {f'{place}: ' if place else ''}{reason}") from None
