"""Docker images: inputs, rebuilds, and error messages."""

from __future__ import annotations

import io
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException

from harness.clusters.docker.images import base_image, images, wheelhouse
from harness.clusters.docker.images import contexts as folders
from harness.clusters.docker.images.images import Images, fingerprint
from harness.errors import EnvironmentLacking
from tests.containers.fakes import FakeEngine, FakeImage, images_of

ROOT = Path(__file__).parent.parent.parent


# Tags


def test_a_fingerprint_is_of_names_and_contents_and_not_of_their_order() -> None:
    inputs = {"a": b"1", "b": b"2"}
    assert fingerprint(inputs) == fingerprint({"b": b"2", "a": b"1"})
    others = ({"a": b"1", "b": b"3"}, {"a": b"1", "c": b"2"}, {"a": b"1"}, {"a": b"1b", "": b"2"})
    assert len({fingerprint(inputs), *map(fingerprint, others)}) == 5


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the Dockerfiles that a test may change."""
    copy = tmp_path / "docker"
    shutil.copytree(ROOT / "docker", copy)
    monkeypatch.setattr(folders, "CONTEXTS", copy)
    return copy


def test_a_tag_changes_with_its_dockerfile_and_with_no_other(contexts: Path) -> None:
    before = [recipe().tag for recipe in recipes()]
    assert [recipe().tag for recipe in recipes()] == before
    with (contexts / "redis" / "Dockerfile").open("a") as file:
        file.write("# another line\n")
    after = [recipe().tag for recipe in recipes()]
    assert [a != b for a, b in zip(before, after, strict=True)] == [True, False, False]
    assert all(tag.startswith("lock-harness/") for tag in after)


def recipes() -> tuple[Callable[[], images.Recipe], ...]:
    made = images_of(base_image.PUBLISHED)
    return partial(made.server_recipe, "redis"), made.client_recipe, made.toxiproxy_recipe


def test_a_tag_changes_with_the_base() -> None:
    published, own = images_of(base_image.PUBLISHED), images_of(base_image.OWN)
    own_id = FakeImage()
    own_id.id = "sha256:other"
    own._engine.images.get = lambda reference: own_id  # type: ignore[method-assign,assignment,return-value]
    assert published.server_recipe("redis").tag != own.server_recipe("redis").tag


def test_the_client_s_tag_changes_with_the_sources_the_requirements_and_the_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = images_of(base_image.PUBLISHED)
    tags = [made.client_recipe().tag, made.client_recipe(("pottery",)).tag]
    sources = wheelhouse.sources()
    monkeypatch.setattr(wheelhouse, "sources", lambda: {**sources, "lock_impls/base.py": b""})
    tags.append(made.client_recipe().tag)
    monkeypatch.setattr(wheelhouse, "sources", lambda: sources)
    assert made.client_recipe().tag == tags[0]
    monkeypatch.setattr(wheelhouse, "EXTRA", ("async-timeout==4.0.3",))
    tags.append(made.client_recipe().tag)
    assert len(set(tags)) == 4


def test_tests_of_the_proxy_are_no_input(contexts: Path) -> None:
    made = images_of()
    before = made.toxiproxy_recipe().tag
    (contexts / "toxiproxy" / "more_test.go").write_text("package main\n")
    assert made.toxiproxy_recipe().tag == before
    (contexts / "toxiproxy" / "more.go").write_text("package main\n")
    assert made.toxiproxy_recipe().tag != before


def test_an_image_that_is_here_is_not_built() -> None:
    engine = FakeEngine(base_image.PUBLISHED)
    made = Images(engine)  # type: ignore[arg-type]
    engine.here.add(made.client_recipe().tag)
    assert made.client() == made.client_recipe().tag


def test_ensure_pulls_and_says_what_to_do_if_it_cannot() -> None:
    engine = FakeEngine("redis:7.4")
    made = Images(engine)  # type: ignore[arg-type]
    assert made.ensure("redis:7.4") == "redis:7.4"
    assert not engine.pulled
    with pytest.raises(
        EnvironmentLacking, match=r"redis:8\.0 is not present and cannot be pulled .*no such host.*load"
    ):
        made.ensure("redis:8.0")
    assert engine.pulled == ["redis:8.0"]
    with pytest.raises(EnvironmentLacking, match="it is the runtime that the lock's adapter names") as lacking:
        made.client(runtime="absent:1")
    assert "Debian's packages" not in str(lacking.value)


def test_missing_dockerfiles_are_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(folders, "CONTEXTS", tmp_path)
    with pytest.raises(EnvironmentLacking, match=r"has no Dockerfile.*install it again"):
        images_of(base_image.PUBLISHED).server("redis")


def test_without_go_the_error_names_the_install_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match=r"needed to compile toxiproxy-server.*golang-go"):
        images_of().toxiproxy()


def test_without_debootstrap_the_error_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(base_image, "PROGRAMS", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match=r"no such host.*apt-get install debootstrap"):
        images_of().server("redis")


# The project's wheel and the libraries


def test_the_wheel_has_the_packages_that_the_distribution_has() -> None:
    target = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert target["packages"] == [wheelhouse.PACKAGE]
    linked = {path.name for path in (ROOT / "harness").iterdir() if path.is_symlink()}
    assert linked <= {path.split("/")[1] for path in wheelhouse.sources()}


def test_the_wheel_has_the_locks_of_scenarios_and_not_their_plans() -> None:
    scenarios = {Path(path) for path in wheelhouse.sources() if path.startswith("harness/scenarios/")}
    assert Path("harness/scenarios/locks/redlock.py") in scenarios
    assert {path.suffix for path in scenarios} == {".py"}


def test_the_same_sources_make_the_same_wheel(tmp_path: Path) -> None:
    sources = wheelhouse.sources()
    assert {"harness/errors.py", "harness/reports/templates/report.html"} <= set(sources)
    assert not any("__pycache__" in path for path in sources)
    packed = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        packed.append(wheelhouse.pack(sources, tmp_path / name).read_bytes())
    assert packed[0] == packed[1]
    archive = zipfile.ZipFile(io.BytesIO(packed[0]))
    assert archive.read("harness/errors.py") == sources["harness/errors.py"]
    record = next(name for name in archive.namelist() if name.endswith("RECORD"))
    assert len(archive.read(record).splitlines()) == len(archive.namelist())


def test_pins_are_what_is_installed_here_with_all_that_it_needs() -> None:
    names = {pin.partition("==")[0] for pin in wheelhouse.pins(("pottery",))}
    assert {"redis", "msgspec", "async-timeout", "pottery", "mmh3"} <= names
    assert "hiredis" not in names, "an extra that nobody asked for"
    with pytest.raises(EnvironmentLacking, match="pip install no-such-thing"):
        wheelhouse.pins(("no-such-thing",))


@pytest.mark.parametrize(
    ("origin", "pin"),
    [
        ("", "mine==1.2"),
        ('{"url": "file:///src/mine", "dir_info": {}}', "mine @ file:///src/mine"),
        (
            '{"url": "https://x.example/m", "vcs_info": {"vcs": "git", "commit_id": "ab"}}',
            "mine @ git+https://x.example/m@ab",
        ),
    ],
)
def test_a_pin_says_where_it_was_installed_from(tmp_path: Path, origin: str, pin: str) -> None:
    assert wheelhouse._pin(distribution(tmp_path, origin)) == pin


def test_a_package_installed_in_editable_mode_cannot_be_a_requirement(tmp_path: Path) -> None:
    editable = distribution(tmp_path, '{"url": "file:///src/mine", "dir_info": {"editable": true}}')
    with pytest.raises(EnvironmentLacking, match="pip install file:///src/mine"):
        wheelhouse._pin(editable)


def distribution(folder: Path, origin: str) -> metadata.Distribution:
    info = folder / "mine-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.2\n")
    if origin:
        (info / "direct_url.json").write_text(origin)
    return metadata.Distribution.at(info)


def test_wheels_are_collected_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[tuple[str, ...]] = []

    def pip(*arguments: str, runs_from: Path | None = None) -> None:
        assert (runs_from is None) == (arguments[-1] == wheelhouse.PIP)
        asked.append(arguments)
        Path(arguments[arguments.index("--wheel-dir") + 1]).mkdir(parents=True)

    monkeypatch.setattr(wheelhouse, "_pip", pip)
    first = wheelhouse.libraries((), images.quiet)
    assert wheelhouse.libraries((), images.quiet) == first
    assert len(asked) == 2
    assert wheelhouse.libraries(("pottery",), images.quiet) != first
    assert sorted(path.name for path in first.iterdir()) == ["libraries", "pip"]
    assert not list(first.parent.glob(".*")), "half-made folders are left"


@pytest.mark.slow
def test_a_release_with_old_metadata_is_collected_and_can_be_installed(tmp_path: Path) -> None:
    old = tmp_path / "old-1.0-py3-none-any.whl"
    with zipfile.ZipFile(old, "w") as made:
        made.writestr("old.py", "")
        made.writestr(
            "old-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: old\nVersion: 1.0\nRequires-Dist: pytz (>dev)\n"
        )
        made.writestr("old-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr("old-1.0.dist-info/RECORD", "")
    folder = tmp_path / "collected"
    wheelhouse._collect([str(old)], folder)
    target = ("--no-index", "--no-deps", "--target", str(tmp_path / "target"))
    wheelhouse._pip("install", *target, str(folder / "libraries" / old.name), runs_from=folder / "pip")
    assert (tmp_path / "target" / "old.py").exists()


def test_a_wheel_for_another_python_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, Path | None]] = []

    def pip(*arguments: str, runs_from: Path | None = None) -> None:
        asked.append((arguments[-1], runs_from))

    monkeypatch.setattr(wheelhouse, "_pip", pip)
    names = ("pure-1.0-py3-none-any", "stable-1.0-cp38-abi3-linux_x86_64", "own-1.0-cp313-cp313-linux_x86_64")
    for name in names:
        (tmp_path / f"{name}.whl").touch()
        wheelhouse._for_image(tmp_path / f"{name}.whl", tmp_path, tmp_path / "pip")
    assert asked == [("own==1.0", tmp_path / "pip")]
    assert not (tmp_path / f"{names[2]}.whl").exists()


def test_pip_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacking, match=r"pip wheel says:\n.*no-such-folder"):
        wheelhouse._pip("wheel", "--no-index", "--find-links", str(tmp_path / "no-such-folder"), "nothing-of-the-sort")


# With an engine


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


def output(engine: docker.DockerClient, image: str, *command: str) -> str:
    return str(engine.containers.run(image, list(command), remove=True, network_mode="none"), "utf-8")


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_redis_is_built_once(engine: docker.DockerClient) -> None:
    reference = Images(engine).server("redis")
    assert "v=7.0." in output(engine, reference, "redis-server", "--version")
    assert engine.images.get(reference).labels[base_image.LABEL] == "image"
    said: list[str] = []
    assert Images(engine, said.append).server("redis") == reference
    assert said == []


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_the_client_has_the_project_and_what_a_lock_needs(engine: docker.DockerClient) -> None:
    reference = Images(engine).client(("python-redis-lock", "pottery"))
    code = "import harness.history, msgspec, redis, redis_lock, pottery; from harness.lock_impls import catalogue as c"
    code += "; print(c.names())"
    assert "redlock" in output(engine, reference, "python3", "-c", code)
    assert output(engine, reference, "sh", "-c", "which nft iptables nsenter").count("\n") == 3
    code = "import harness, os; print(harness.__file__, os.path.exists(harness.__cached__))"
    assert output(engine, reference, "python3", "-c", code).split() == ["/opt/lock-harness/harness/__init__.py", "True"]


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_toxiproxy_runs_as_nobody(engine: docker.DockerClient) -> None:
    reference = Images(engine).toxiproxy()
    assert output(engine, reference, "-version").strip()
    assert engine.images.get(reference).attrs["Config"]["User"] == "65533:65533"


@pytest.mark.docker
def test_a_build_that_fails_shows_its_last_lines(engine: docker.DockerClient, tmp_path: Path) -> None:
    base = base_image.base(engine, images.quiet)
    (tmp_path / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nRUN echo the reason is this && exit 7\n")
    with pytest.raises(EnvironmentLacking, match=r"the broken image could not be built(.|\n)*the reason is this"):
        images.build(engine, tmp_path, "lock-harness/broken:x", base, images.quiet)
    (tmp_path / "Dockerfile").write_text("THIS IS NO DOCKERFILE\n")
    with pytest.raises(EnvironmentLacking, match="unknown instruction: THIS"):
        images.build(engine, tmp_path, "lock-harness/broken:x", base, images.quiet)
    with pytest.raises(DockerException):
        engine.images.get("lock-harness/broken:x")
