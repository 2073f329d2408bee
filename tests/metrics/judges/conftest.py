"""The fixture of tests of judges."""

from support.judge_server import judging  # noqa: F401
