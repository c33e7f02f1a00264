"""The files for GitHub, Docker and contributors: they can be parsed, and what they name exists."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.clusters.abilities import TAPS, TRAFFIC
from harness.faults.catalogue import FAULTS

from .command_lines import in_shell, problems

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXAMPLES = sorted((ROOT / "examples" / "github").glob("*.yml"))
ACTION = ROOT / "action.yml"
RELEASED = re.compile(r"[\w.-]+/[\w./-]+@v\d+(\.\d+)*|\./")
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./(\.github/workflows/\w+\.yml)?")
PLACES = re.compile(r"`((?:\.ci|\.github|docs|docker|checkers|harness|lock_impls|scenarios|tests)/[^`*]*)`")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(document: Any) -> Iterator[Any]:
    """Yield the steps of a workflow or of an action. A job that calls another workflow has none."""
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])
    yield from document.get("runs", {}).get("steps", [])


def test_there_is_a_workflow_for_each_occasion() -> None:
    occasions = {path.stem: set(read(path)[True]) for path in WORKFLOWS}  # YAML reads the key "on" as true
    assert {"push", "pull_request"} <= occasions["ci"]
    assert {"schedule", "workflow_dispatch"} <= occasions["nightly"]
    assert read(ROOT / ".github/workflows/release.yml")[True] == {"push": {"tags": ["v*"]}}


@pytest.mark.parametrize("path", [*WORKFLOWS, *EXAMPLES, ACTION], ids=lambda path: path.stem)
def test_a_step_runs_a_command_or_an_action(path: Path) -> None:
    found = list(steps(read(path)))
    assert found
    assert [step for step in found if ("run" in step) == ("uses" in step)] == []


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.stem)
def test_an_action_is_named_by_its_commit_and_the_release_that_it_is(path: Path) -> None:
    """The owner of an action can move a tag to other code."""
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert used
    assert [one for one in used if not PINNED.fullmatch(one)] == []


def test_each_commit_of_an_action_is_called_by_one_release() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*WORKFLOWS, ACTION)]
    names = {pair for text in texts for pair in re.findall(r"@([0-9a-f]{40}) # (\S+)", text)}
    assert len({commit for commit, _ in names}) == len(names)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_names_a_release_of_each_action(path: Path) -> None:
    used = [step["uses"] for step in steps(read(path)) if "uses" in step]
    assert [one for one in used if not RELEASED.fullmatch(one)] == []


def test_commits_of_actions_are_kept_up_to_date() -> None:
    (update,) = read(ROOT / ".github" / "dependabot.yml")["updates"]
    assert (update["package-ecosystem"], update["directory"]) == ("github-actions", "/")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_unless_a_job_says_more(path: Path) -> None:
    assert read(path)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_job_has_a_time_limit(path: Path) -> None:
    jobs = read(path)["jobs"]
    assert [name for name, job in jobs.items() if "steps" in job and "timeout-minutes" not in job] == []


def test_results_of_a_nightly_run_are_kept_when_the_suite_fails_or_is_cancelled() -> None:
    job = read(ROOT / ".github/workflows/nightly.yml")["jobs"]["nightly"]
    (suite,) = [number for number, step in enumerate(job["steps"]) if "harness nightly" in step.get("run", "")]
    after = job["steps"][suite + 1 :]
    assert [step for step in after if step.get("if") != "always()"] == []
    assert "LOCK_HARNESS_STORE=store mkdocs build --strict" in [step.get("run") for step in after]
    actions = {step["uses"].partition("@")[0] for step in after if "uses" in step}
    assert actions == {"actions/cache/save", "actions/upload-artifact"}
    assert job["steps"][suite]["timeout-minutes"] < job["timeout-minutes"] <= 360  # GitHub's own limit


def test_a_release_waits_for_the_tests() -> None:
    jobs = read(ROOT / ".github/workflows/release.yml")["jobs"]
    assert "workflow_call" in read(ROOT / ".github/workflows/ci.yml")[True]
    assert jobs["ci"] == {"uses": "./.github/workflows/ci.yml"}
    assert (jobs["build"]["needs"], jobs["publish"]["needs"]) == ("ci", "build")


def test_artifacts_of_a_release_have_different_names() -> None:
    """A called workflow uploads into the run of its caller, where a second artifact of one name is an error."""
    documents = [read(ROOT / ".github/workflows" / name) for name in ("ci.yml", "release.yml")]
    uploads = [step for one in documents for step in steps(one) if "upload-artifact@" in step.get("uses", "")]
    names = [step["with"]["name"] for step in uploads]
    assert sorted(names) == sorted(set(names))
    assert len(names) > 2


def test_slow_tests_of_the_pages_run_in_ci_with_the_browser_that_they_need() -> None:
    runs = [step["run"] for step in read(ROOT / ".github/workflows/ci.yml")["jobs"]["docs"]["steps"] if "run" in step]
    (tests,) = [run for run in runs if "pytest" in run]
    assert '-m "slow' in tests
    assert tests.endswith("tests/docs")
    assert ".ci/setup" in runs[: runs.index(tests)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_a_workflow_exist(path: Path) -> None:
    scripts = [step["run"] for step in steps(read(path)) if "run" in step]
    assert [problem for script in scripts for line in in_shell(script) for problem in problems(line)] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("harness rum redlock", "there is no command 'rum'"),
        ("harness run redlock --nemesys clock-skew", "run has no option --nemesys"),
        ("harness scenario shew rl-restart", "scenario has no command 'shew'"),
        ("harness run redlok --nemesis clock-skew", "lock: unknown name 'redlok'"),
        ("harness run redlock --nemesis=clock-skew,clock-skip", "--nemesis: unknown name 'clock-skip'"),
        ("harness hunt --rounds 2 mylock:MyLock --faults pauze", "--faults: unknown name 'pauze'"),
        ("harness run redlock --workload mutexes", "--workload: unknown name 'mutexes'"),
        ("harness check store/latest --model mutexes", "--model: unknown name 'mutexes'"),
        ("harness compare --locks redis,redis-tokn", "--locks: unknown name 'redis-tokn'"),
        ("harness scenario run rl-restart rl-restarts", "given: unknown name 'rl-restarts'"),
        ("harness cluster up redis-singel", "kind: unknown name 'redis-singel'"),
        ("harness list lock", "what: unknown name 'lock'"),
    ],
)
def test_a_wrong_command_line_is_noticed(line: str, problem: str) -> None:
    assert problems(line) == [f"{line}: {problem}"]


@pytest.mark.parametrize(
    "line",
    [
        "harness run mylock:MyLock --nemesis client-pause,none --runs 2",
        "harness run LOCK --nemesis NAME --servers redis://db1",
        "harness scenario run my-story.toml rl-restart",
        "harness hunt --exhaustive --clients 2 --faults 1",
        "harness compare --locks redis,redlock,all",
        "harness conformance --kind redis-single --servers 127.0.0.1:6379 -- ./my-lock --its-options",
    ],
)
def test_a_name_that_the_page_defines_or_leaves_to_the_reader_is_accepted(line: str) -> None:
    assert problems(line) == []


def test_scripts_that_workflows_start_exist() -> None:
    scripts = [step["run"] for path in WORKFLOWS for step in steps(read(path)) if "run" in step]
    named = {name for script in scripts for name in re.findall(r"(?:^|\s)((?:\.ci|docs)/[\w.]+)", script)}
    assert {".ci/setup", "docs/style.py"} <= named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_tests_run_on_each_declared_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert read(ROOT / ".github/workflows/ci.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"] == declared


def test_an_example_gives_the_action_only_inputs_that_it_has() -> None:
    inputs = read(ACTION)["inputs"]
    given = [step["with"] for path in EXAMPLES for step in steps(read(path)) if "lock-harness" in step.get("uses", "")]
    assert given
    assert [name for one in given for name in one if name not in inputs] == []


# Issue templates


def test_templates_ask_for_the_counterexample_and_the_machine() -> None:
    for name in ("bug", "lock-failure"):
        text = (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8")
        fields = {field["id"]: field for field in yaml.safe_load(text)["body"]}
        assert "harness doctor --json" in fields["doctor"]["attributes"]["description"]
        assert "counterexample.toml" in text
        commands = [line for code in re.findall(r"`(harness [^`]+)`", text) for line in in_shell(code)]
        assert [problem for line in commands for problem in problems(line)] == []


# Dockerfile, development container, pre-commit


def test_the_image_installs_an_extra_that_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"^ARG EXTRAS=(\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert extras
    assert set(extras) <= set(project["optional-dependencies"])


def test_the_page_about_the_image_names_each_fault_that_needs_the_proxy() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| the faults (.*?); .*\| the proxy \|", page, re.MULTILINE)
    needing = [name for name, fault in FAULTS.own.items() if fault.needs & {TRAFFIC, TAPS}]
    assert re.findall(r"`([^`]+)`", row) == sorted(needing)


def test_the_development_container_uses_what_exists() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    start = (ROOT / container["postStartCommand"]).read_text(encoding="utf-8")
    named = set(re.findall(r"\.ci/\w+", f"{container['postCreateCommand']} {start}"))
    assert named == {".ci/setup", ".ci/engine"}
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_development_container_has_the_newest_go_that_a_module_needs() -> None:
    modules = [path.read_text(encoding="utf-8") for path in (ROOT / "docker").glob("*/go.mod")]
    needed = {tuple(map(int, re.findall(r"^go (\d+)\.(\d+)", text, re.MULTILINE)[0])) for text in modules}
    dockerfile = (ROOT / ".devcontainer" / "Dockerfile").read_text(encoding="utf-8")
    (there,) = re.findall(r"^FROM golang:(\d+)\.(\d+)-", dockerfile, re.MULTILINE)
    assert tuple(map(int, there)) >= max(needed)


def test_the_engine_of_the_development_container_stores_images_in_a_volume() -> None:
    (mount,) = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["mounts"]
    assert (mount["target"], mount["type"]) == ("/var/lib/docker", "volume")


def test_hooks_run_what_ci_runs() -> None:
    hooks = [hook["entry"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert hooks == ["ruff check --fix", "ruff format", "python docs/style.py", "mypy"]


def test_every_stage_of_a_hook_is_installed() -> None:
    document = read(ROOT / ".pre-commit-config.yaml")
    hooks = [hook for repo in document["repos"] for hook in repo["hooks"]]
    stages = {stage for hook in hooks for stage in hook.get("stages", document["default_stages"])}
    assert stages == set(document["default_install_hook_types"]) == {"pre-commit", "pre-push"}
    assert "pip install pre-commit\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command", ["ruff check .", "ruff format --check .", "mypy", "mkdocs build --strict", ".ci/scripts"]
)
def test_the_whole_check_and_ci_run_the_same_lint(command: str) -> None:
    ci = [step["run"] for step in steps(read(ROOT / ".github/workflows/ci.yml")) if "run" in step]
    assert command in ci
    ours = command if command.startswith(".ci/") else f".venv/bin/{command}"
    assert f"\n{ours}" in (ROOT / ".ci/run").read_text(encoding="utf-8")


# Texts for contributors


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_files_that_a_text_names_exist(name: str) -> None:
    named = PLACES.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [place for place in named if "NAME" not in place and not (ROOT / place).exists()] == []
    assert named or name != "CONTRIBUTING.md"


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert read(ROOT / "CITATION.cff")["version"] == version
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_notice_names_each_shipped_wheel_with_its_digest() -> None:
    from hashlib import sha256

    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    wheels = list((ROOT / "lock_impls").rglob("*.whl"))
    assert wheels
    for wheel in wheels:
        assert wheel.name in notice
        assert sha256(wheel.read_bytes()).hexdigest() in notice
