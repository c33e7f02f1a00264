"""Nothing outside the store is shown, nothing in the store is changed, and foreign pages cannot send requests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from harness.serve import files
from harness.serve.app import application
from harness.serve.guard import Guard, host_name
from tests.serve import stores
from tests.serve.asking import Answer, request

RUN = f"redlock/{stores.name(0)}"
SECRETS = (b"root:", b"the secret", b"SQLite")
ATTACKS = [
    "/store/../secret.json",
    "/store/../../../../../../etc/passwd",
    "/store/%2e%2e/secret.json",
    "/store/%2E%2E/%2E%2E/etc/passwd",
    "/store/..%2fsecret.json",
    "/store/..%2Fsecret.json",
    "/store/%2e%2e%2fsecret.json",
    "/store/..%5csecret.json",
    "/store/..\\secret.json",
    "/store/%252e%252e/secret.json",
    "/store/%c0%ae%c0%ae/secret.json",
    "/store/..%c0%afsecret.json",
    "/store/redlock/../../secret.json",
    "/store/redlock/..%2f..%2fsecret.json",
    f"/store/{RUN}/../../../secret.json",
    f"/store/{RUN}/..;/..;/..;/secret.json",
    "/store/../store-of-others/secret.json",
    "/store//etc/passwd",
    "/store/%2fetc%2fpasswd",
    "/store/%2Fetc/passwd",
    "//etc/passwd",
    "/store/file:%2f%2f%2fetc%2fpasswd",
    f"/store/{RUN}/report.html%00.json",
    "/store/%00/secret.json",
    f"/store/{RUN}/%0a/secret.json",
    f"/store/{RUN}/link.json",
    f"/store/{RUN}/relative.json",
    f"/store/{RUN}/away/passwd",
    f"/store/{RUN}/above/secret.json",
    f"/store/{RUN}/beside/secret.json",
    f"/store/{RUN}/loop",
    f"/store/{RUN}/pipe.json",
    f"/store/{RUN}/null.json",
    f"/store/{RUN}/.hidden.json",
    f"/store/{RUN}/.git/config",
    f"/store/{RUN}/shown.json",
    f"/store/{RUN}/.",
    f"/store/{RUN}/",
    "/store/results.db",
    "/store/.",
    "/store/..",
    "/store/",
    "/store",
    "/store/%",
    "/store/%zz",
    "/store/" + "a/" * 3000,
    "/store/" + "a" * 300,
    "/runs/../secret.json",
    "/runs/..%2f../secret.json",
    "/runs/%2e%2e/store-of-others/",
    "/runs/../store-of-others.zip",
    "/runs/../../etc.zip",
    "/runs/redlock/...zip",
    "/runs/redlock/..%2f..%2fstore-of-others.zip",
    "/runs/redlock/away/",
    "/runs/redlock/away.zip",
    "/runs/comparisons/20261121T200000Z/",
    "/runs/comparisons/20261121T200000Z.zip",
    "/runs/away/etc/",
    "http://localhost/store/../secret.json",
    "store/../secret.json",
    "*",
    "",
    "/static/..%2fsecret.json",
]
"""Targets of requests as on the wire, which no client would send."""


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with links out of it and with hidden files in it."""
    home = tmp_path_factory.mktemp("home")
    (home / "secret.json").write_text('"the secret"')
    (home / "store-of-others").mkdir()
    (home / "store-of-others" / "secret.json").write_text('"the secret"')
    store = home / "store"
    run = stores.add(store, 0)
    stores.study(store, "comparisons", "20261121T200000Z", stores.COMPARISON)
    (store / "results.db").write_bytes(b"SQLite format 3")
    (run / "link.json").symlink_to("/etc/passwd")
    (run / "relative.json").symlink_to("../../../secret.json")
    (run / "away").symlink_to("/etc")
    (run / "above").symlink_to("../../..")
    (run / "beside").symlink_to("../../../store-of-others")
    (run / "loop").symlink_to("loop")
    (run.parent / "away").symlink_to("/etc")
    (store / "away").symlink_to("/")
    others = stores.study(home / "store-of-others", "comparisons", "20261122T200000Z", stores.COMPARISON)
    (store / "comparisons" / "beside").symlink_to(others)
    os.mkfifo(run / "pipe.json")
    (run / "null.json").symlink_to("/dev/null")
    (run / ".hidden.json").write_text('"the secret"')
    (run / ".git").mkdir()
    (run / ".git" / "config").write_text("the secret")
    (run / "shown.json").symlink_to(".hidden.json")
    (run / "inside.json").symlink_to("results.json")
    return store


def leaks(answer: Answer) -> bool:
    """Return whether a response shows a file that belongs to no run."""
    return answer.status == 200 or any(secret in answer.body for secret in SECRETS)


@pytest.mark.parametrize("target", ATTACKS)
def test_no_path_leaves_the_store(traps: Path, target: str) -> None:
    answer = request(application(traps), target)
    assert answer.status in (307, 400, 404), target
    assert not leaks(answer)
    assert str(traps).encode() not in answer.body
    if answer.status == 307:
        assert answer.headers["location"] == f"/runs/{RUN}/"


def test_listing_stops_at_a_maximum_depth(tmp_path: Path) -> None:
    deepest = stores.add(tmp_path, 0)
    deepest.joinpath(*["d"] * 400).mkdir(parents=True)
    (deepest / "d" / "logs.txt").write_text("near")
    listed = [entry.parts for entry in files.listing(deepest)]
    assert ("d", "logs.txt") in listed
    deepest.joinpath(*["d"] * 300, "far.txt").write_text("far")
    assert [entry.parts for entry in files.listing(deepest)] == listed


def test_a_comparison_behind_a_link_is_not_listed(traps: Path) -> None:
    page = request(application(traps), "/comparisons/")
    assert page.text.count("2 locks under 1 fault") == 1
    assert "beside" not in page.text


def test_only_the_raw_path_is_trusted(traps: Path) -> None:
    """The raw path of the request decides, not the decoded one."""
    app = application(traps)
    assert leaks(request(app, f"/store/{RUN}/report.html"))
    assert not leaks(request(app, "/store/%2e%2e/secret.json", path="/store/../secret.json"))
    assert not leaks(request(app, "/nowhere", path=f"/store/{RUN}/report.html"))


def test_links_within_the_store_are_followed(traps: Path) -> None:
    assert request(application(traps), f"/store/{RUN}/inside.json").status == 200


def trusting(store: Path, parts: Sequence[str]) -> Path | None:
    """A naive resolver."""
    path = store.joinpath(*parts)
    return path if path.exists() else None


def by_text(store: Path, parts: Sequence[str]) -> Path | None:
    """A resolver that compares path texts, follows links, and accepts any folder whose name starts alike."""
    path = Path(os.path.normpath(store.joinpath(*parts)))
    return path.resolve() if str(path).startswith(str(store)) and path.exists() else None


def shows_hidden(store: Path, parts: Sequence[str]) -> Path | None:
    """A resolver that does not check the name of a link's target."""
    path = Path(os.path.realpath(store.joinpath(*parts)))
    return path if path.is_relative_to(store.resolve()) and path.exists() else None


@pytest.mark.parametrize("mutant", [trusting, by_text, shows_hidden])
def test_the_attacks_detect_an_unsafe_resolver(traps: Path, monkeypatch: pytest.MonkeyPatch, mutant: Any) -> None:
    monkeypatch.setattr(files, "resolve", mutant)
    monkeypatch.setattr(files, "open_file", lambda store, parts: _open(mutant(store, parts)))
    app = application(traps)
    assert any(leaks(request(app, target)) for target in ATTACKS)


def _open(path: Path | None) -> Any:
    return path.open("rb") if path is not None and path.is_file() else None


def test_the_attacks_detect_unchecked_names(traps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "plain", lambda name: name not in ("", ".", ".."))
    assert any(leaks(request(application(traps), target)) for target in ATTACKS)


def test_a_file_replaced_by_a_link_before_opening_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stores.add(tmp_path / "store", 0)
    (run / "passwd").write_text("")
    monkeypatch.setattr(files, "resolve", lambda store, parts: run / "passwd")  # when the path was checked
    assert _closed(files.open_file(tmp_path / "store", ("x", "y")))
    (run / "passwd").unlink()
    (run / "passwd").symlink_to("/etc/passwd")
    assert files.open_file(tmp_path / "store", ("x", "y")) is None
    run.rename(tmp_path / "moved")
    run.symlink_to("/etc")
    assert files.open_file(tmp_path / "store", ("x", "y")) is None


def _closed(file: BinaryIO | None) -> bool:
    """Close the file, and return whether it was opened."""
    if file is not None:
        file.close()
    return file is not None


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_only_get_and_head_are_accepted(app: Guard, method: str) -> None:
    for target in ("/", f"/store/{RUN}/report.html", "/nowhere", "/store/../x"):
        answer = request(app, target, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8080", 200), ("127.0.0.1", 200), ("127.0.0.1:8080", 200), ("[::1]", 200),
        ("[::1]:8080", 200), ("harness.example:80", 200), ("evil.example", 400), ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400), ("evil.example:8080", 400), ("", 400), ("localhost:x", 400), ("[::1", 400),
        ("[::1]evil", 400), ("localhost,evil.example", 400), ("localhost@evil.example", 400), ("::1", 400),
        ("192.168.1.5", 400), ("0.0.0.0", 400),
    ],
)  # fmt: skip
def test_foreign_host_names_are_refused(store: Path, host: str, status: int) -> None:
    assert request(application(store, ["harness.example"]), "/", headers={"host": host}).status == status


def test_a_missing_or_repeated_host_header_is_refused(app: Guard) -> None:
    for headers in ([], [(b"host", b"localhost"), (b"host", b"localhost")]):
        assert _ask_with(app, headers).status == 400


def _ask_with(app: Guard, headers: list[tuple[bytes, bytes]]) -> Answer:
    async def replaced(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "headers": headers}, receive, send)

    return request(replaced, "/")


def test_a_server_on_all_addresses_accepts_addresses_but_no_foreign_name(store: Path) -> None:
    app = application(store, ["0.0.0.0"])
    for host, status in (("192.168.1.5:8080", 200), ("[fe80::1]:8080", 200), ("localhost", 200), ("evil.example", 400)):
        assert request(app, "/", headers={"host": host}).status == status


def test_every_response_has_the_security_headers(app: Guard, store: Path) -> None:
    for target in ("/", "/nowhere", "/store/../x", "/?page=x", f"/store/{RUN}/report.html", f"/store/{RUN}/plan.toml",
                   f"/runs/{RUN}.zip", f"/runs/{RUN}/", f"/runs/{RUN}", "/trends", "/comparisons/"):  # fmt: skip
        headers = request(app, target).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] in ("no-store", "no-cache")
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
    assert "no-store" in request(app, "/", "POST").headers["cache-control"]


def test_only_report_scripts_run_and_only_sandboxed(tmp_path: Path) -> None:
    run = stores.add(tmp_path, 0)
    (run / "x.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>")
    (run / "x.exe").write_text("?")
    (run / "X.HTML").write_text("?")
    policies = {}
    for name in ("report.html", "X.HTML", "x.svg", "results.json", "x.exe", "history.jsonl"):
        answer = request(application(tmp_path), f"/store/{RUN}/{name}")
        policies[name] = answer.headers["content-security-policy"]
        assert "attachment" in answer.headers.get("content-disposition", "") or name != "x.exe"
        assert (answer.headers["content-type"] == "application/octet-stream") == (name == "x.exe")
    for name in ("report.html", "X.HTML"):
        assert "sandbox allow-scripts " in policies.pop(name)
    for policy in policies.values():
        assert "script-src" not in policy
        assert policy.endswith("sandbox")


def test_an_internal_error_is_a_plain_page(app: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.serve.query.Query.apply", lambda *_: 1 / 0)
    sent = []

    async def caught(scope: Any, receive: Any, send: Any) -> None:
        async def keep(message: Any) -> None:
            sent.append(message)
            await send(message)

        with pytest.raises(ZeroDivisionError):  # re-raised for the server to print
            await app(scope, receive, keep)

    answer = request(caught, "/")
    assert answer.status == 500
    assert b"Traceback" not in answer.body
    assert b".py" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_requests_change_nothing_in_the_store(tmp_path: Path) -> None:
    stores.damaged(tmp_path / "store")
    (tmp_path / "store" / "results.db").write_bytes(b"")
    before = _state(tmp_path)
    app = application(tmp_path / "store")
    for target in (
        "/",
        "/trends",
        "/comparisons/",
        "/sweeps/",
        "/hunts/",
        "/bisections/",
        "/versions/",
        *(f"/runs/redlock/{stores.name(0)}{end}" for end in ("/", ".zip")),
    ):
        request(app, target)
    assert _state(tmp_path) == before
    request(application(tmp_path / "none"), "/")
    assert not (tmp_path / "none").exists()


def _state(folder: Path) -> list[tuple[str, int, int]]:
    paths = [Path(where, name) for where, folders, names in os.walk(folder) for name in (*folders, *names)]
    return sorted((str(path), os.lstat(path).st_mtime_ns, os.lstat(path).st_size) for path in paths)


@pytest.mark.parametrize(
    ("header", "name"), [("a:1", "a"), ("A", "a"), ("[::1]:2", "::1"), ("a:", "a"), ("a:1:2", ""), ("[a", ""), ("", "")]
)
def test_the_host_name_is_parsed_from_the_header(header: str, name: str) -> None:
    assert host_name(header) == name
