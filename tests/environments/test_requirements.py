"""Requirements are parsed, read from files, and compared with what is installed."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

import pytest

from harness.environments.requirements import inline_metadata, is_python, parse, unsatisfied
from harness.errors import UsageError

HERE = platform.python_version()
REDIS = metadata.version("redis")


@pytest.mark.parametrize("text", ["redis=5", "==1", "redis[", "https://example.org/a.whl", ""])
def test_a_malformed_requirement_is_a_usage_error_that_quotes_it(text: str) -> None:
    with pytest.raises(UsageError, match="--with: expected a requirement such as") as caught:
        parse([text], "--with")
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "satisfied"),
    [
        ("redis", True),
        (f"redis=={REDIS}", True),
        ("redis>=4", True),
        ("redis<2", False),
        ("no-such-distribution", False),
        ("no-such-distribution; python_version < '3'", True),
        ("redis @ https://example.org/redis.whl", False),
        ("pytest[dev]", False),  # an extra whose libraries are not here
    ],
)
def test_a_requirement_is_compared_with_the_installed_distributions(text: str, satisfied: bool) -> None:
    wanted = parse([text], "--with")
    assert unsatisfied(wanted) == (() if satisfied else wanted)


@pytest.mark.parametrize(
    ("wanted", "same"),
    [
        ("", True),
        (HERE, True),
        (HERE.rpartition(".")[0], True),
        ("3", True),
        ("3.1", False),
        (">=3.11", True),
        ("<3.11", False),
        ("/usr/bin/python3", False),
    ],
)
def test_a_version_a_specifier_or_a_path_names_a_python(wanted: str, same: bool) -> None:
    assert is_python(wanted) == same


def test_inline_metadata_of_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mylock.py"
    path.write_text(
        "#!/usr/bin/env python\n# /// script\n# requires-python = '>=3.12'\n# dependencies = [\n#   'redis==5.2.1',\n"
        "# ]\n# ///\nimport redis\n"
    )
    found = inline_metadata(path)
    assert ([str(one) for one in found.requirements], found.python) == (["redis==5.2.1"], ">=3.12")


def test_a_file_without_inline_metadata_requires_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mylock.py"
    path.write_text("import redis  # /// script\n")
    assert inline_metadata(path).requirements == ()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("# dependencies = 'redis'\n", "must be a list of texts"),
        ("# dependencies = ['redis=5']\n", "expected a requirement such as"),
        ("# dependencies = [\n", "is not valid TOML"),
        ("# requires-python = 3\n", "must be a text"),
        ("# requires-python = 'new'\n", "expected something like"),
        ("# dependencies = []\n# ///\n\n# /// script\n# dependencies = []\n", "only one is allowed"),
    ],
)
def test_malformed_inline_metadata_is_a_usage_error_that_names_the_file(
    tmp_path: Path, block: str, message: str
) -> None:
    path = tmp_path / "mylock.py"
    path.write_text(f"# /// script\n{block}# ///\n")
    with pytest.raises(UsageError, match=message) as caught:
        inline_metadata(path)
    assert str(path) in str(caught.value)
