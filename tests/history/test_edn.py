"""EDN forms: what the writer writes can be read back, and foreign EDN is read by the rules of the format."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from fractions import Fraction
from math import inf, isnan
from pickle import dumps, loads
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.history.edn import EdnError, Pair, Unfinished, fields, form, keyword, passed, skip, written
from harness.history.values import Items, Keyword

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS | st.frozensets(st.integers() | st.text()),
    lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=50)
def test_written_values_are_read_back(value: Any) -> None:
    text = written(value)
    assert "\n" not in text
    found, end = form(text, 0)
    assert (found, end) == (value, len(text))
    assert repr(found) == repr(value) or isinstance(value, tuple | dict | frozenset)


@given(VALUES, st.data())
@settings(max_examples=50)
def test_a_truncated_form_is_unfinished(value: Any, data: st.DataObject) -> None:
    """This holds for every place of truncation, also in the middle of a number or a name."""
    text = written([value])
    with pytest.raises(Unfinished):
        form(text[: data.draw(st.integers(0, len(text) - 1))], 0)


FORMS = {
    "nil": None,
    "true": True,
    "-12": -12,
    "+7": 7,
    "1N": 1,
    "123456789012345678901234567890N": 123456789012345678901234567890,
    "0xff": 255,
    "-0XfFN": -255,
    "010": 8,
    "-017": -15,
    "0": 0,
    "00": 0,
    "2r101": 5,
    "36RZz": 1295,
    "010.5": 10.5,
    "1.5": 1.5,
    "-1.5e3": -1500.0,
    "1E-2": 0.01,
    "1.50M": Decimal("1.50"),
    "1/3": Fraction(1, 3),
    "##Inf": inf,
    "##-Inf": -inf,
    ":key": Keyword("key"),
    ":jepsen.name/space": Keyword("jepsen.name/space"),
    "symbol": "symbol",
    "-": "-",
    "+a": "+a",
    ".5a": ".5a",
    r'"a\n\t\\\"\u00e9\101"': 'a\n\t\\"éA',
    '"two\nlines ; no comment"': "two\nlines ; no comment",
    r"\a": "a",
    r"\newline": "\n",
    r"\space": " ",
    r"\u0041": "A",
    r"\o101": "A",
    r"\\": "\\",
    r"\(": "(",
    r"[\; \, 1]": (";", ",", 1),
    r"[\a\b]": ("a", "b"),
    "[]": (),
    "(1 2,3)": (1, 2, 3),
    "[1[2]{:a 3}]": (1, (2,), {"a": 3}),
    "{:a 1, b 2 3 4 nil 5}": {"a": 1, "b": 2, "3": 4, "None": 5},
    "#{1 [2] {:a 3}}": frozenset({1, (2,), Items({("a", 3)})}),
    '#object[java.lang.Exception 0x1f2e "x"]': ("java.lang.Exception", 0x1F2E, "x"),
    "#'user/foo": "#'user/foo",
    '#inst "2020-01-01"': "2020-01-01",
    "#jepsen.history.Op{:index 0}": {"index": 0},
    "#knossos.op.Op {:index 0}": {"index": 0},
    "#a #b 1": 1,
    "#_1 2": 2,
    "#_ #_ 1 2 3": 3,
    "[1 #_2 3 #_[4 5]]": (1, 3),
    "{:a #_1 2 #_:b}": {"a": 2},
    "; one\n ;two\n 3": 3,
    "[1 ; ]\n 2]": (1, 2),
}


@pytest.mark.parametrize("text", FORMS)
def test_each_form_has_the_expected_value_and_type(text: str) -> None:
    value, end = form(f" ,{text} :next", 0)
    assert (value, type(value)) == (FORMS[text], type(FORMS[text]))
    assert form(f" ,{text} :next", end)[0] == Keyword("next")


def test_nan_and_tagged_pairs_are_read() -> None:
    assert isnan(form("##NaN", 0)[0])
    assert written(form("##NaN", 0)[0]) == "##NaN"
    assert isinstance(form("#jepsen.independent/tuple [1 2]", 0)[0], Pair)
    assert form("#jepsen.independent.Tuple{:key 1, :value 2}", 0)[0] == Pair((1, 2))
    assert isinstance(form("#clojure.lang.MapEntry[1 2]", 0)[0], Pair)
    assert not isinstance(form("#other [1 2]", 0)[0], Pair)


WRONG = {
    "]": (0, "expected a form, got ']'"),
    "[1 }": (3, "expected a form, got '}'"),
    "{:a}": (0, "expected a value for each key"),
    "1x": (0, "expected a number, got '1x'"),
    "08": (0, "expected a number, got '08'"),
    "2r3": (0, "expected a number, got '2r3'"),
    "99r1": (0, "expected a number, got '99r1'"),
    "{:a 1 :a 2}": (0, "the key :a is there twice"),
    "1/0": (0, "expected a number, got '1/0'"),
    "##Nan": (0, "there is no number ##Nan"),
    r"\nonsense": (0, "there is no character"),
    r'["\q"]': (1, r"no string has the escape \\q"),
    "# 1": (0, "expected a tag after #"),
}


@pytest.mark.parametrize("text", WRONG)
def test_invalid_edn_raises_an_error_with_its_position(text: str) -> None:
    at, message = WRONG[text]
    with pytest.raises(EdnError, match=message) as raised:
        form(text + " ", 0)
    assert raised.value.at == at
    assert not isinstance(raised.value, Unfinished)


def test_fields_give_values_and_places_and_refuse_bad_maps() -> None:
    text = '#a.B{:x 1, ;c\n "y" [2 3] #_:no}'
    found, end = fields(text, 0)
    assert {name: (found.value(name), found.written(name)) for name in found.places} == {
        "x": (1, "1"),
        "y": ((2, 3), "[2 3]"),
    }
    assert (found.value("z"), found.written("z")) == (None, "nil")
    assert end == len(text)
    for wrong in ("[1]", "#{1}", "3"):
        with pytest.raises(EdnError, match="expected a map"):
            fields(wrong, 0)
    with pytest.raises(EdnError, match="the key 'x' is there twice") as raised:
        fields('{:x 1 "x" 2}', 0)
    assert raised.value.at == 6


ODD = """
#'user/foo | 1x | 08 | 1/0 | @foo | @[1] | '(a b) | ^{:a 1} [1] | ^:a ^:b c | #:foo{:a 1, :b 2} | #"a.*\\"b" | ##Nan
#<Foo bar: } "> | #<Foo #<Bar baz>> | \\nonsense | \\} | \\" | #a #b [1 #_2] | #{1 1} | {:a} | "\\q ]" | #_1 #_ #_ 2 3 x
"""


def test_unused_values_are_skipped_without_being_read() -> None:
    for odd in ODD.replace("\n", "|").strip("|").split("|"):
        text = f"{{:a {odd.strip()} :b 2}}"
        found, end = fields(text, 0)
        assert (found.value("b"), [*found.places], end) == (2, ["a", "b"], len(text)), odd
        assert passed(f"[{odd}] 1", 0) == len(odd) + 2
        for cut in range(len(text)):
            with pytest.raises(Unfinished):
                fields(text[:cut], 0)
    for wrong in ("[1 }", "[(1]", "]", "{:a [}"):
        with pytest.raises(EdnError, match="expected a form, got"):
            passed(wrong + " ", 0)


def test_reading_a_form_does_not_copy_the_text_after_it() -> None:
    """A single copy of the rest is 30 MB, and each token would make one."""
    text = "[" + "x " * 2000 + "]" + " " * 30_000_000
    tracemalloc.start()
    try:
        assert passed(text, 0) == 4002
        assert form(text, 0)[1] == 4002
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


def test_values_of_different_types_are_unequal() -> None:
    texts = (":a", '"a"', ":b", "#{}", "{}", "[]", "{:a 1}", '#{["a" 1]}', "#{{}}", "#{#{}}")
    values = [form(text, 0)[0] for text in texts]
    for number, value in enumerate(values):
        assert [value == other for other in values] == [number == i for i in range(len(texts))]
        assert [value != other for other in values] == [number != i for i in range(len(texts))]
    assert (len({Keyword("a"), "a", Keyword("a")}), str(Keyword("a")), repr(Keyword("a"))) == (2, ":a", ":a")
    assert loads(dumps(Keyword("a"))) == Keyword("a")
    assert Items({("a", 1)}) == Items({("a", 1)})
    assert len({Items(), frozenset(), Items()}) == 2
    assert [written(form(text, 0)[0]) for text in (":a", "1/3", "1.5M")] == [":a", "1/3", "1.5M"]


def test_skip_passes_blanks_comments_and_discarded_forms() -> None:
    text = " ,; a\n #_ [1 2] ,\t x"
    assert text[skip(text, 0) :] == "x"


def test_keyword_quotes_names_that_edn_does_not_allow() -> None:
    assert [keyword(name) for name in ("valid_for", "a.b", "?", "a b", "", "1", "a/b")] == [
        ":valid_for",
        ":a.b",
        ":?",
        '"a b"',
        '""',
        '"1"',
        '"a/b"',
    ]
