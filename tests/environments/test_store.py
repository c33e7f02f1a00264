"""Environments appear whole or not at all, are built once, and can be listed and removed. uv is replaced here."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.environments import store, uv
from harness.errors import UsageError

PYTHON = "/usr/bin/python3"


class FakeUv:
    """Stands in for uv: makes the files of an environment. ``failing`` is raised by an installation."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.failing: BaseException | None = None
        self.may_install = threading.Event()
        self.may_install.set()

    def run(self, *arguments: str) -> str:
        self.calls.append(arguments)
        if arguments[0] == "venv":
            packages = Path(arguments[-1]) / "lib" / "python3.11" / "site-packages"
            packages.mkdir(parents=True)
            program = Path(arguments[-1]) / "bin" / "python"
            program.parent.mkdir()
            program.touch()
            return ""
        self.may_install.wait(120)
        if self.failing is not None:
            raise self.failing
        return ""

    @property
    def builds(self) -> int:
        return sum(call[0] == "venv" for call in self.calls)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeUv:
    fake = FakeUv()
    monkeypatch.setattr(uv, "run", fake.run)
    return fake


def test_the_same_contents_are_built_once(fake: FakeUv) -> None:
    lines: list[str] = []
    first = store.environment(PYTHON, ["redis==5", "lupa", "redis==5"], lines.append)
    second = store.environment(PYTHON, ["lupa", "redis==5"], lines.append)
    assert first.interpreter == second.interpreter
    assert fake.builds == len(lines) == 1
    assert "building an environment with lupa, redis==5 (once;" in lines[0]


@pytest.mark.parametrize(("python", "requirements"), [("/other/python", ["redis==5"]), (PYTHON, ["redis==6"])])
def test_other_contents_are_another_environment(fake: FakeUv, python: str, requirements: list[str]) -> None:
    first = store.environment(PYTHON, ["redis==5"])
    assert store.environment(python, requirements).folder != first.folder
    assert fake.builds == 2


def test_an_environment_has_a_path_entry_with_our_package_alone(fake: FakeUv) -> None:
    built = store.environment(PYTHON, ["redis"])
    (path_file,) = built.folder.glob("lib/*/site-packages/*.pth")
    entry = Path(path_file.read_text().strip())
    assert [path.name for path in entry.iterdir()] == ["harness"]
    assert (entry / "harness" / "__init__.py").exists()


@pytest.mark.parametrize("failing", [UsageError("no such release"), KeyboardInterrupt(), OSError(28, "No space left")])
def test_a_failed_build_leaves_no_environment(fake: FakeUv, folder: Path, failing: BaseException) -> None:
    fake.failing = failing
    with pytest.raises((Exception, KeyboardInterrupt)):
        store.environment(PYTHON, ["redis==99"])
    assert store.environments() == []
    assert [path for path in folder.iterdir() if path.is_dir()] == []
    fake.failing = None
    assert store.environment(PYTHON, ["redis==99"]).interpreter.exists()


def test_remains_of_a_killed_builder_are_removed_by_the_next(fake: FakeUv, folder: Path) -> None:
    key = store.environment(PYTHON, ["redis"]).key
    store.remove()
    left = folder / f".{key}.abcd" / "fresh"
    left.mkdir(parents=True)
    store.environment(PYTHON, ["redis"])
    assert not left.exists()


def test_an_environment_whose_python_is_gone_is_built_again(fake: FakeUv) -> None:
    built = store.environment(PYTHON, ["redis"])
    built.interpreter.unlink()
    assert store.environment(PYTHON, ["redis"]).interpreter.exists()
    assert fake.builds == 2


def test_concurrent_builders_build_once_and_one_says_that_it_waits(fake: FakeUv) -> None:
    fake.may_install.clear()
    lines: list[str] = []
    waiting = threading.Event()

    def report(line: str) -> None:
        lines.append(line)
        if "waiting" in line:
            waiting.set()

    threads = [threading.Thread(target=store.environment, args=(PYTHON, ["redis"], report)) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waiting.wait(120)
    fake.may_install.set()
    for thread in threads:
        thread.join(120)
    assert fake.builds == 1
    assert sorted(line.split(" ")[0] for line in lines) == ["building", "waiting"]


def test_environments_are_listed_and_removed(fake: FakeUv, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (store.environment(PYTHON, [name]) for name in ("redis==5", "redis==6"))
    with pytest.raises(SystemExit):
        main(["env", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {row["key"]: row["requirements"] for row in rows} == {first.key: ["redis==5"], second.key: ["redis==6"]}
    with pytest.raises(SystemExit) as ended:
        main(["env", "clean", first.key[:6]])
    assert ended.value.code == 0
    assert [one.key for one in store.environments()] == [second.key]
    with pytest.raises(SystemExit) as ended:
        main(["env", "clean", ""])  # as a shell gives an unset variable in quotes
    assert ended.value.code == 2
    assert [one.key for one in store.environments()] == [second.key]
    with pytest.raises(SystemExit):
        main(["env", "clean"])
    assert store.environments() == []


def test_removing_an_unknown_key_is_a_usage_error(fake: FakeUv) -> None:
    store.environment(PYTHON, ["redis"])
    with pytest.raises(UsageError, match="no environment's key begins with 'zz'"):
        store.remove(["zz"])
    assert len(store.environments()) == 1


def test_the_reason_of_uv_is_one_line() -> None:
    text = (
        "Using Python 3.11.7 environment at: /tmp/e\nerror: No solution found when resolving dependencies\n"
        "  cause: Because there is no version of redis==99 and you require redis==99, we can conclude that your\n"
        "         requirements are unsatisfiable.\n"
    )
    assert uv.brief(text) == (
        "because there is no version of redis==99 and you require redis==99, we can conclude that your requirements "
        "are unsatisfiable."
    )
