"""Histories in every format of Jepsen and Knossos, and our histories written in theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history import History, HistoryError, Op, edn_history
from harness.history.calls import NEVER, NO_FENCE, Calls, Keyed, Wants
from harness.history.clients import distinct_names
from harness.history.edn import fields
from harness.history.edn_history import listed
from harness.history.edn_write import edn_lines, write_edn
from harness.history.files import calls_of, read_calls
from tests.history.drawn import assert_same, draw_history, plain

BLOCKS = (1, 37, 1 << 20)


def read(folder: Path, text: str, wants: Wants = "values", keyed: Keyed = "auto") -> Calls:
    """Return the calls, the same for every block size."""
    path = folder / "h.edn"
    path.write_text(text)
    found = [read_calls(path, wants, keyed=keyed, block=block) for block in BLOCKS]
    for other in found[1:]:
        assert repr(plain(other)) == repr(plain(found[0]))
        assert other.complete == found[0].complete
    return found[0]


def call_facts(calls: Calls) -> list[tuple[Any, ...]]:
    """Return function, argument, result and known of each call."""
    return [(call["f"], call["argument"], call["result"], call["known"]) for call in plain(calls)]


REGISTER = """
{:process 0, :type :invoke, :f :write, :value 3}
{:process :nemesis, :type :info, :f :start, :value nil}
{:process 0, :type :ok, :f :write, :value 3}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 2, :type :invoke, :f :cas, :value [3 4]}
{:process "nemesis", :type :info, :f :kill, :value {"n1" :killed}}
{:process 1, :type :ok, :f :read, :value 3}
{:process 2, :type :fail, :f :cas, :value [3 4]}
{:process 2, :type :invoke, :f :cas, :value [3 5]}
{:process 2, :type :info, :f :cas, :value [3 5], :error :timeout}
{:process 5, :type :invoke, :f :read, :value nil}
"""
CALLS = [("write", 3, 3, True), ("read", None, 3, True), ("cas", (3, 5), None, False), ("read", None, None, False)]


def same_text(text: str) -> str:
    return text


SHAPES: dict[str, Callable[[str], str]] = {
    "lines": same_text,
    "a vector": lambda text: "[" + text.strip() + "]",
    "a list": lambda text: "(" + text.strip() + "\n)\n",
    "a vector on one line": lambda text: "[" + text.replace("\n", " ") + "]",
    "pretty-printed": lambda text: "[" + text.replace(", :", ",\n  :").replace("}\n{", "}\n\n {") + "]",
    "records": lambda text: text.replace("{:process", "#jepsen.history.Op{:process"),
    "records of old": lambda text: text.replace("{:process", "#knossos.op.Op {:process").replace("\n#", "\n ,#"),
    "indices and times": lambda text: "".join(
        line.replace("{", f"{{:index {i}, :time {i * 7}, ", 1) + "\n" for i, line in enumerate(text.strip().split("\n"))
    ),
    "comments": lambda text: "; a history\n" + text.replace("}\n", "} ; {:process 9}\n #_{:process 9}\n"),
    "words instead of keywords": lambda text: text.replace(":invoke", '"invoke"').replace(":f :read", ":f read"),
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "no line end": str.strip,
    "other fields": lambda text: text.replace(
        ", :f", ', :link #inst "2020", :exception [:a "{" \\}, #object[X 0x1f "x"] #\'user/x 1x], :f'
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_format_gives_the_same_calls(tmp_path: Path, name: str) -> None:
    calls = read(tmp_path, SHAPES[name](REGISTER))
    assert call_facts(calls) == CALLS
    assert [call["process"] for call in plain(calls)] == [0, 1, 2, 5]
    assert (calls.failed, calls.entries, calls.complete, calls.settings) == (1, 11, True, {})
    assert calls.invoked.tolist() == [0, 3, 8, 10]
    assert calls.returned.tolist() == [2, 6, NEVER, NEVER]
    times = [21, 42] if name == "indices and times" else [3, 6]
    assert [int(calls.began[1]), int(calls.ended[1])] == times
    assert (calls.keys, calls.clients) == ([""], ["process 0", "process 1", "process 2", "process 5"])


def test_entries_are_ordered_by_index(tmp_path: Path) -> None:
    lines = SHAPES["indices and times"](REGISTER).strip().split("\n")
    assert call_facts(read(tmp_path, "\n".join(lines[::-1]))) == CALLS
    without = [line.replace(":index 4,", "") for line in lines]
    with pytest.raises(HistoryError, match="line 5: process 1 completed 'read' but never invoked it"):
        read(tmp_path, "\n".join(without[::-1]))


def test_most_lines_take_the_fast_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this test only the running time would show the loss of the fast path."""
    slow: list[int] = []

    def watched(text: str, at: int) -> Any:
        slow.append(at)
        return fields(text, at)

    monkeypatch.setattr(edn_history, "fields", watched)
    write_edn(draw_history(1, entries=2000), tmp_path / "h.edn")
    assert len(read_calls(tmp_path / "h.edn", "nothing")) > 500
    assert len(slow) < 200


def entry(rest: str, kind: str = "invoke", process: int = 0) -> str:
    return f"{{:process {process}, :type :{kind}, {rest}}}\n"


def both(f: str, asked: str, got: str, process: int = 0) -> str:
    asks, gets = f":f :{f}, :value {asked}", f":f :{f}, :value {got}"
    return entry(asks, process=process) + entry(gets, "ok", process)


KEYED = both("read", "[1 nil]", "[1 5]") + both("write", '["k" 2]', '["k" 2]') + both("cas", "[1 [2 3]]", "[1 [2 3]]")


DIED = entry(":f :read, :value nil", "info")


@pytest.mark.parametrize(
    ("text", "keyed", "keys"),
    [
        (KEYED, "auto", ["1", "k", "1"]),
        (KEYED, "no", ["", "", ""]),
        (both("cas", "[1 2]", "[1 2]") + both("read", "nil", "2"), "auto", ["", ""]),
        (both("cas", "[1 2]", "[1 2]"), "auto", [""]),
        (both("read", "nil", "[1 2]"), "yes", ["1"]),
        (both("cas", "[1 2]", "[1 2]"), "yes", ["1"]),
        (both("cas", "#jepsen.independent/tuple [1 2]", "[1 2]"), "auto", ["1"]),
        (both("acquire", "[:a nil]", "[:a nil]") + both("release", "[:a nil]", "nil"), "auto", ["", ""]),
        (both("acquire", "[:a nil]", "[:a nil]") + both("release", "[:a nil]", "nil"), "yes", [":a", ":a"]),
        (entry(":f :read, :key :x, :value nil") + entry(":f :read, :key :x, :value [1 2]", "ok"), "auto", [":x"]),
        (both("write", "[1 5]", "[1 5]") + entry(":f :read, :value [2 nil]") + DIED, "auto", ["1", "2"]),
        (both("write", "[1 5]", "[1 5]") + entry(":f :read, :value nil"), "auto", ["", ""]),
        (both("write", "[1 5]", "[1 5]") + both("setup", "7", "nil"), "auto", ["1", ""]),
        (both("write", "[1 5]", "[1 5]") + both("read", "[1 5]", "[1 5]"), "auto", ["1", "1"]),
        (both("add", "[1 5]", "[1 5]") + both("sum", "[1 nil]", "[1 5]"), "auto", ["1", "1"]),
        (both("add", "[1 5]", "[1 5]") + both("sum", "nil", "5"), "auto", ["", ""]),
        (both("setup", "[1 2]", "[1 2]") + both("read", "nil", "5"), "auto", ["", ""]),
        (both("acquire", "nil", "nil"), "auto", [""]),
        (both("cas", "[1 nil]", "[1 nil]"), "auto", ["1"]),
        (both("cas", "[1 [2 3]]", "[1 [2 3]]"), "auto", ["1"]),
        (both("cas", "[1 [2 3 4]]", "[1 [2 3 4]]"), "auto", [""]),
        (both("write", "[nil 5]", "[nil 5]") + both("write", '["nil" 5]', '["nil" 5]'), "auto", ["nil", '"nil"']),
        (both("write", '["1" 5]', '["1" 5]') + both("write", "[1 5]", "[1 5]"), "auto", ['"1"', "1"]),
        (both("write", '["x" 5]', '["x" 5]') + both("write", "[:x 5]", "[:x 5]"), "auto", ["x", ":x"]),
        (both("write", '[":x" 5]', '[":x" 5]') + both("write", '["" 5]', '["" 5]'), "auto", ['":x"', '""']),
        (both("write", "[[1 2] 5]", "[[1 2] 5]") + both("write", '["1x" 5]', '["1x" 5]'), "auto", ["[1 2]", "1x"]),
        (entry(':f :read, :key "1"') + entry(":f :read, :key 1", process=1), "auto", ['"1"', "1"]),
    ],
)
def test_keys_are_taken_from_values_or_fields(tmp_path: Path, text: str, keyed: Keyed, keys: list[str]) -> None:
    calls = read(tmp_path, text, keyed=keyed)
    assert [call["key"] for call in plain(calls)] == keys


def test_values_are_separated_from_their_keys(tmp_path: Path) -> None:
    calls = read(tmp_path, KEYED)
    assert call_facts(calls) == [("read", None, 5, True), ("write", 2, 2, True), ("cas", (2, 3), (2, 3), True)]
    assert calls.values == [5, 2, (2, 3)]
    with pytest.raises(HistoryError, match=r"line 2: expected \[key value\], got 7"):
        read(tmp_path, both("read", "[1 nil]", "7"), keyed="yes")


def test_tokens_and_leases_of_grants_are_read(tmp_path: Path) -> None:
    answers = [
        ("acquire", "12", (12, NEVER, -1)),
        ("acquire", "{:fence 13, :valid_for 1.5}", (13, 1_500_000_000, -1)),
        ("acquire", "{:fence 14, :valid-for 2, :client :a}", (14, 2_000_000_000, -1)),
        ("lock", "nil", (NO_FENCE, NEVER, -1)),
        ("extend", "{:extended false}", (NO_FENCE, NEVER, 0)),
        ("check", "{:valid true}", (NO_FENCE, NEVER, 1)),
        ("release", '"anything"', (NO_FENCE, NEVER, -1)),
    ]
    calls = read(tmp_path, "".join(both(f, "nil", got) for f, got, _ in answers), "grants")
    found = zip(calls.fence.tolist(), calls.lease.tolist(), calls.good.tolist(), strict=True)
    assert list(found) == [grant for _, _, grant in answers]
    assert (calls.values, calls.result.max()) == ([], -1)
    for token in ('"ff01"', f"{2**63}", "1.5", "true", "{:fence :a}", f"{{:fence {2**63}}}", "{:fence 01.}"):
        text = both("acquire", "nil", "1") + both("acquire", "nil", token)
        with pytest.raises(HistoryError, match=r"line 4: tokens of this model must be whole numbers"):
            read(tmp_path, text, "grants")


def clients(folder: Path, text: str, wants: Wants = "grants") -> list[str]:
    """Return the clients of the calls."""
    return [call["client"][1] for call in plain(read(folder, text, wants))]


OURS = '{:process :nemesis, :type :info, :f :start, :value {:clients ["n1"], :workload "locks"}}\n'


def test_clients_named_in_values_are_used(tmp_path: Path) -> None:
    named = both("acquire", "nil", '{:client "a"}', 0) + both("release", "nil", '{:client "b"}', 1)
    text = named + both("release", '{:client "a"}', "nil", 2) + both("release", "nil", "nil", 3)
    assert clients(tmp_path, text) == ["a", "b", "a", "process 3"]
    assert read(tmp_path, text, "nothing").client.tolist() == [1, 2, 1, 0]
    assert clients(tmp_path, text, "values") == ["a", "b", "a", "process 3"]
    with pytest.raises(HistoryError, match="line 4: process 0 is client 'b' here, but 'a' in an earlier entry"):
        read(tmp_path, both("x", "nil", "{:client a}") + both("x", "nil", "{:client b}"), "nothing")
    with pytest.raises(HistoryError, match="line 4: process 0 is client 'b' here, but 'a' in an earlier entry"):
        read(tmp_path, both("x", "nil", "{:client a}") + both("x", "nil", "{:client b}"), "values")
    register = (
        both("write", "{:client a}", "nil") + both("cas", "[{:client b} 1]", "nil") + both("read", "nil", "{:client c}")
    )
    assert set(clients(tmp_path, register, "values")) == {"process 0"}
    alike = both("x", "nil", '{:client "n1"}', 4) + entry(':f :x, :node "n1"')
    assert clients(tmp_path, OURS + alike) == ["n1 (process 4)", "n1"]


def test_clients_are_derived_from_hosts(tmp_path: Path) -> None:
    """In our histories a client continues under a new process, and two clients of one host are distinguished. In
    foreign histories a process may change its host."""
    hosts = "".join(
        entry(f':f :acquire, :node "n{node}"', kind, process)
        for node, process in ((1, 0), (2, 1), (1, 2))
        for kind in ("invoke", "info")
    )
    assert clients(tmp_path, OURS + hosts) == ["n1", "n2", "n1"]
    assert clients(tmp_path, hosts) == ["process 0", "process 1", "process 2"]
    assert clients(tmp_path, OURS.replace(":workload", ":work") + hosts) == ["process 0", "process 1", "process 2"]
    two = "".join(entry(':f :acquire, :node "n1"', process=process) for process in (0, 5, 7))
    calls = read(tmp_path, OURS + two)
    assert calls.clients == ["n1", "n1 (process 5)", "n1 (process 7)"]
    assert calls.client.tolist() == [0, 1, 2]
    assert distinct_names([("a", "1"), ("a (process 2)", "3"), ("a", "2")]) == [
        "a",
        "a (process 2)",
        "a (process 2) (process 2)",
    ]


def test_processes_may_be_named_other_than_by_numbers(tmp_path: Path) -> None:
    """They are clients like others, except the nemesis."""
    names = ('"a"', ":a", "a", '"n1"', "7", "-1", "1.5", "[2]", "010", "1099511627776")
    text = "".join(both("write", "1", "1").replace(":process 0", f":process {name}") for name in names)
    calls = read(tmp_path, text + text)
    shown = [f"process {name}" for name in names]
    shown[8] = "process 8"
    assert calls.clients == shown
    assert calls.client.tolist() == [*range(len(names))] * 2
    first = 2**40
    numbers = [first, first + 1, first + 2, first + 3, 7, first + 4, first + 5, first + 6, 8, first + 7]
    assert calls.process.tolist() == numbers * 2
    nobody = "".join(f"{{:process {name}, :type :info, :f [1], :value ^x 1x}}\n" for name in (":nemesis", "nil"))
    assert (len(read(tmp_path, nobody)), read(tmp_path, nobody).entries) == (0, 2)
    with pytest.raises(HistoryError, match=r"line 1: process :a completed 'x' but never invoked it"):
        read(tmp_path, "{:process :a, :type :ok, :f :x}")


def test_a_non_nil_answer_replaces_the_written_value(tmp_path: Path) -> None:
    """As in Knossos. Answers of reads and of other calls do not."""
    text = both("write", "nil", "5") + both("write", "4", "nil") + both("cas", "nil", "[1 2]") + both("add", "1", "2")
    calls = read(tmp_path, text)
    assert [calls.argument_of(row) for row in range(4)] == [5, 4, (1, 2), 1]
    assert [calls.result_of(row) for row in range(4)] == [5, None, (1, 2), 2]
    keyed = both("write", "[1 nil]", "[1 5]") + both("cas", "[1 [0 0]]", "[1 [5 6]]") + both("read", "[1 0]", "[1 6]")
    assert call_facts(read(tmp_path, keyed)) == [
        ("write", 5, 5, True),
        ("cas", (5, 6), (5, 6), True),
        ("read", 0, 6, True),
    ]
    assert len(read(tmp_path, text, "grants")) == 4


def test_numbers_are_read_as_in_clojure(tmp_path: Path) -> None:
    text = "".join(entry(f":f :x, :time {time}, :value {value}", process=time) for time, value in ((7, "010"), (9, 8)))
    calls = read(tmp_path, text.replace(":time 9", ":time 011").replace(":time 7", ":time 0x7"))
    assert (calls.began.tolist(), calls.values) == ([7, 9], [8, 8])
    with pytest.raises(HistoryError, match=r"line 2: expected whole numbers .* as :time and :index"):
        read(tmp_path, text.replace(":time 9", ":time 09"))
    assert [call["process"] for call in plain(read(tmp_path, text.replace("process 9", "process 011")))] == [7, 9]


def test_a_byte_order_mark_and_info_without_a_call_are_skipped(tmp_path: Path) -> None:
    """A mark of the byte order, and what clients without a call have to say."""
    other = entry(":f :log, :value :x", "info") + GOOD.replace("process 0", "process 1")
    calls = read(tmp_path, "\ufeff" + GOOD + other)
    assert (len(calls), calls.entries) == (2, 5)
    with pytest.raises(HistoryError, match="line 3"):
        read(tmp_path, GOOD + "\ufeff" + GOOD)


def test_a_process_may_continue_after_an_unknown_outcome(tmp_path: Path) -> None:
    text = entry(":f :write, :value 1") + entry(":f :write, :value 1", "info") + both("read", "nil", "1")
    assert call_facts(read(tmp_path, text)) == [("write", 1, None, False), ("read", None, 1, True)]


GOOD = both("read", "nil", "1")
WRONG = {
    "[1 2]": "line 3, column 2: expected a map with :process, :type and :f, got '1 2",
    "hello": "line 3, column 1: expected a map with :process, :type and :f, got 'hello",
    "{:process 0, :type :ok}": "line 3, column 1: expected a map with .* got one with :process, :type",
    "{}": "line 3, column 1: expected a map with .* got one with nothing",
    "{:process 0, :type :okay, :f :x}": "line 3, column 20: expected a :type of :invoke, :ok, :fail or :info, got",
    "{:process 0, :type [1], :f :x}": "line 3, column 20: expected a :type",
    "{:process 0, :type :ok, :f nil}": "line 3, column 28: expected the name of a function",
    "{:process 0, :type :ok, :f :x, :time 1.5}": "line 3, column 38: expected a whole number .* as :time",
    f"{{:process {2**63}, :type :ok, :f :x}}": "line 3, column 11: a process of more than 63 bits",
    f"{{:process 0, :type :ok, :f :x, :time {2**63}}}": "line 3, column 38: expected a whole number",
    "{:process 0,\n  :type :ok\n :f 1x}": "line 5, column 5: expected a number, got '1x'",
    "{:process 0, :type :ok, :f :x, :value 1/0}": "line 3, column 39: expected a number, got '1/0'",
    "{:process 0, :type :ok, :f :x": "line 3: what begins here does not end|line 3, column 1: expected a value",
    "{:process 0, :type :ok, :f :x]": "line 3, column 30: expected a form, got ']'",
    '{:process 0, :type :ok, :f "x}': "line 3: what begins here does not end",
    entry(":f :read") + entry(":f :cas"): "line 4: process 0 invoked 'cas' while its 'read' was open",
    entry(":f :cas", "ok"): "line 3: process 0 completed 'cas' but never invoked it",
    entry(":f :x, :value " + "[" * 5000 + "]" * 5000): "line 3, column 1: values are nested too deeply",
    "]": "line 3, column 1: expected a map",
    "{:process 0, :type :ok, :f :x, :type :ok}": "line 3, column 32: the key :type is there twice",
    "{:process 0, :type :ok, :f :x, :value {:a 1\n :a 2}}": "line 3, column 39: the key :a is there twice",
    "{:process 0, :type :ok, :f :x, :value ^:a x}": "line 3, column 42: expected one form",
    "[{:process 0, :type :info, :f :x}] 1": "line 3, column 36: expected nothing after the bracket around all",
    "[]": "line 4, column 1: expected nothing after the bracket around all entries, got '{:process 0",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[:50])
@pytest.mark.parametrize("block", BLOCKS)
def test_an_error_names_its_line(tmp_path: Path, wrong: str, block: int) -> None:
    path = tmp_path / "h.edn"
    path.write_text(GOOD + wrong + "\n" + GOOD)
    with pytest.raises(HistoryError, match=rf"h\.edn, {WRONG[wrong]}"):
        read_calls(path, "nothing", block=block)


def test_numbers_too_large_are_refused_on_the_fast_path_too(tmp_path: Path) -> None:
    """The first line of a form is parsed in full. Values of the next lines must be checked, too."""
    line = "{:index 1, :time 1, :process 1, :type :invoke, :f :x, :value 1/2}"
    for old, new in ((":time 1", f":time {2**63}"), (":process 1", f":process {2**63}"), ("1/2", "1/0")):
        with pytest.raises(HistoryError, match=r"h\.edn, line 2"):
            read(tmp_path, line + "\n" + line.replace(old, new))


def test_digits_in_characters_and_tags_are_not_taken_for_numbers(tmp_path: Path) -> None:
    """Characters are the only tokens that end between digits, and a tag may contain digits."""
    two = "".join(entry(f":f :x, :value \\u00{digits}1 2", process=digits) for digits in (41, 42))
    assert [call["argument"] for call in plain(read(tmp_path, two))] == ["A", "B"]
    tagged = "".join(f"{{:process #t5 {process}, :type :invoke, :f :x}}\n" for process in (3, 4))
    assert [call["process"] for call in plain(read(tmp_path, tagged))] == [3, 4]
    with pytest.raises(HistoryError, match=r"h\.edn, line 2"):
        read(tmp_path, entry(":f :x, :value \\u0041") + entry(":f :x, :value \\u00411", process=1))


def test_invalid_utf_8_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_bytes(GOOD.encode() + b'{:process 0, :f "\xff"}\n')
    for block in BLOCKS:
        with pytest.raises(HistoryError, match="line 3: expected text in UTF-8"):
            read_calls(path, "nothing", block=block)


@pytest.mark.parametrize("start", ["", "["])
def test_a_truncated_last_entry_is_left_out(tmp_path: Path, start: str) -> None:
    whole = start + GOOD.strip()
    cut = whole.rindex("{")
    for end in range(cut + 1, len(whole)):
        calls = read(tmp_path, whole[:end])
        assert (call_facts(calls), calls.complete) == ([("read", None, None, False)], False)
    assert read(tmp_path, whole).complete == (not start)
    with pytest.raises(HistoryError, match="line 1: what begins here does not end"):
        read(tmp_path, "{:process 0")


def test_empty_histories_have_no_calls(tmp_path: Path) -> None:
    for text in ("", "\n", "[]", "()", "; nothing", "[\n]\n"):
        for wants in ("nothing", "grants", "values"):
            assert len(read(tmp_path, text, wants)) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


def as_others_have_it(history: History) -> History:
    """Return the history with only the values of reads and writes, as they are written."""
    values: list[Any] = []
    asked: dict[int, Any] = {}
    for op in history:
        alone = op.f in ("read", "write") and isinstance(op.value, dict)
        value = op.value.get("value") if alone else op.value
        if op.f == "write":
            value = asked[op.process] if op.type == "ok" else value
            asked[op.process] = value
        values.append(value)
    history.value = values
    return history


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 600))
@settings(max_examples=20)
def test_written_histories_are_read_back(folder: Path, seed: int, keys: int, block: int) -> None:
    round_trip(folder, seed, keys, block)


@pytest.mark.slow
@given(st.integers(0, 10**9), st.integers(1, 3), st.integers(1, 6000))
@settings(max_examples=150)
def test_many_written_histories_are_read_back(folder: Path, seed: int, keys: int, block: int) -> None:
    round_trip(folder, seed, keys, block)


def round_trip(folder: Path, seed: int, keys: int, block: int) -> None:
    history = draw_history(seed, keys=keys)
    path = folder / ("h.edn.gz" if seed % 2 else "h.edn")
    write_edn(history, path)
    slow = folder / "slow.edn"
    slow.write_text("\n".join(line.replace("{", "{\n", 1) for line in edn_lines(history, keyed=keys > 1)))
    assert plain(read_calls(slow, "values", block=block)) == plain(read_calls(path, "values"))
    history = as_others_have_it(history)
    for wants in ("nothing", "grants", "values"):
        calls, same = read_calls(path, wants, block=block), calls_of(history, wants)
        calls.settings = listed(calls.settings)
        assert plain(calls) == plain(same)
        calls.values = same.values = []
        calls.argument, calls.result = same.argument, same.result
        calls.keys, calls.key = same.keys, same.key
        assert_same(calls, same)


def test_written_lines_have_the_expected_form() -> None:
    lines = list(edn_lines(draw_history(3, entries=3), keyed=False))
    assert lines[0] == (
        '{:index 0, :time 0, :process :nemesis, :type :info, :f :start, :value {:clients ["c0" "c1" "c2"], '
        ':workload "locks", :ttl 2.0}}'
    )
    ops = [
        Op(7, 12, 5, 3, "ok", "acquire", "k0", {"fence": 4, "valid": None}, None, "c0"),
        Op(8, 13, 5, 3, "invoke", "write", "k0", {"fence": 4, "value": [1, "a"]}),
        Op(9, 14, 5, 3, "info", "write", "k0", None, 'it said "no"'),
    ]
    assert list(edn_lines(ops, keyed=True)) == [
        '{:index 7, :time 12, :process 3, :type :ok, :f :acquire, :value ["k0" {:fence 4, :valid nil}], :node "c0"}',
        '{:index 8, :time 13, :process 3, :type :invoke, :f :write, :value ["k0" [1 "a"]]}',
        '{:index 9, :time 14, :process 3, :type :info, :f :write, :value ["k0" nil], :error "it said \\"no\\""}',
    ]
    written = [*ops[1:2], Op(9, 14, 5, 3, "ok", "write", "k0", {"arrival": 4})]
    assert list(edn_lines(written, keyed=True))[1].endswith(':f :write, :value ["k0" [1 "a"]]}')
    swapped = [Op(8, 13, 5, 3, "invoke", "cas", None, [1, 2]), Op(9, 14, 5, 3, "ok", "cas", None, True)]
    assert list(edn_lines(swapped, keyed=False))[1].endswith(":f :cas, :value [1 2]}")
    assert next(edn_lines(ops[2:], keyed=False)) == (
        '{:index 9, :time 14, :process 3, :type :info, :f :write, :value nil, :key "k0", :error "it said \\"no\\""}'
    )
