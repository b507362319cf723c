"""The language of `skip_when`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.workflows.expression import (
    CHARS_MAX,
    COMPARISONS,
    DEPTH_MAX,
    BadExpression,
    Compare,
    Expression,
    Join,
    Literal,
    Name,
    Not,
    holds,
    parse,
)

OUTPUTS = {
    "fetch": {"count": 0, "found": False, "name": "abc", "rows": [1], "inner": {"deep": {"er": 7}}, "share": 0.5},
    "check": {"level": "low", "flag": True, "none": None, "empty": {}},
    "2nd-step": {"a_b": 3},
}


@pytest.mark.parametrize(
    "text",
    [
        "fetch.count == 0",
        "fetch.count==0.0",
        "not fetch.found",
        "not not check.flag",
        "check.level in ['low', \"none\"]",
        "check.level not in []",
        "not check.level in ['high']",
        "fetch.count in [false, 0]",
        "fetch.missing == null and nowhere.at.all == null",
        "fetch.inner.deep.er >= 7",
        "fetch.name < 'abd' and fetch.name > \"abb\"",
        "fetch.share < 1",
        "2nd-step.a_b == 3",
        "fetch.found or check.flag",
        "fetch.found and check.flag or check.flag",
        "check.flag or fetch.found and fetch.found",
        "(fetch.found or check.flag) and fetch.rows",
        "-1 < fetch.count",
        "fetch.name != check.level",
        "true",
        '"a\\"b\\\\" == \'a"b\\\\\'',
        "1e3 == 1000",
        "  true  \n and true ",
    ],
)
def test_it_holds(text):
    assert holds(text, OUTPUTS) is True


@pytest.mark.parametrize(
    "text",
    [
        "fetch.count",
        "fetch.count == false",  # unlike things are not equal
        "check.flag == 1",
        "fetch.count == '0'",
        "check.none",
        "check.empty",
        "fetch.missing",
        "fetch.name.length",
        "fetch.count in [false, '0']",
        "not (fetch.found or check.flag)",
        "(fetch.found or check.flag) and fetch.found",
        "null",
        "''",
    ],
)
def test_it_does_not_hold(text):
    assert holds(text, OUTPUTS) is False


@pytest.mark.parametrize(
    ("sign", "below", "same", "above"),
    [
        ("==", False, True, False),
        ("!=", True, False, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        (">", False, False, True),
        (">=", False, True, True),
    ],
)
def test_each_sign_compares(sign, below, same, above):
    assert [holds(f"{left} {sign} 2", {}) for left in (1, 2, 3)] == [below, same, above]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fetch.missing < 3", "fetch.missing < 3 cannot be said: null and a number have no order"),
        ("fetch.name > 3", "a text and a number"),
        ("check.flag >= 0", "true and a number"),
        ("fetch.rows <= fetch.inner", "a list and a mapping"),
    ],
)
def test_what_has_no_order_is_said(text, words):
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        holds(text, OUTPUTS)


def test_what_is_not_asked_is_not_compared():
    assert holds("check.flag or fetch.missing < 3", OUTPUTS)


@pytest.mark.parametrize(
    ("text", "column", "words", "hint"),
    [
        ("", 1, "found the end", None),
        ("fetch.count = 0", 13, "found '='", "write =="),
        ("a.b && c.d", 5, "found '&'", "write and"),
        ("a.b || c.d", 5, "found '|'", "write or"),
        ("!a.b", 1, "found '!'", "write not"),
        ("a.b == True", 8, "found True", "write true"),
        ("a.b AND c.d", 5, "expected and, or or the end, found AND", "write and"),
        ("a.b == none", 8, "found none", "write null"),
        ("count > 3", 1, "expected step.key", 'a text stands in quotes: "count"'),
        ("a.b == low", 8, "expected step.key", 'a text stands in quotes: "low"'),
        ("a.b == 'low", 8, "a quote that is not closed", None),
        ("a.b == 'l\\ow'", 10, "\\o means nothing here", "write \\\\ for a \\"),
        ("(a.b", 5, "expected ), found the end", None),
        ("a.b)", 4, "expected and, or or the end, found )", None),
        ("a.b in c.d", 8, "expected a list", 'as in: check.level in ["low", "none"]'),
        ("a.b in [c.d]", 9, "expected step.key or a value, found c.d", None),
        ("a.b in [1 2]", 11, "expected , or ], found 2", None),
        ("a.b in [1,", 11, "found the end", None),
        ("[1] == a.b", 1, "a list stands behind in", None),
        ("1 < a.b < 3", 9, "two things are compared at a time", "join two comparisons with and"),
        ("a. == 1", 1, "expected step.key", None),
        ("a..b", 1, "expected step.key", None),
        ("$trigger.x == 1", 1, "expected step.key", None),
        ("a.b and", 8, "found the end", None),
        ("a.b not 3", 5, "expected and, or or the end, found not", None),
        ("f(3)", 1, "expected step.key", None),
        ("a.b == 1234567890123456789", 8, "too large", None),
        ("a.b == 1e999", 8, "too large", None),
        ("(" * 30 + "a.b", DEPTH_MAX + 1, "stand in each other", None),
        ("not " * 30 + "a.b", 4 * DEPTH_MAX + 1, "stand in each other", None),
        ("x" * (CHARS_MAX + 1), CHARS_MAX + 1, "at most 1000 characters", None),
    ],
)
def test_what_cannot_be_read_is_said_with_its_column(text, column, words, hint):
    with pytest.raises(BadExpression) as wrong:
        parse(text)
    assert words in wrong.value.message
    assert wrong.value.column == column
    if hint is not None:
        assert wrong.value.hint == hint
    assert f"(at character {column})" in str(wrong.value)


def test_names_are_in_the_order_of_the_text_with_their_columns():
    names = parse("b.x == 1 and not (a.y.z in [1] or b.x)").names
    assert [(str(name), name.column) for name in names] == [("b.x", 1), ("a.y.z", 19), ("b.x", 35)]


def test_and_binds_tighter_than_or_and_not_tighter_than_both():
    assert str(parse("not a.a and b.b or c.c == 1 and d.d")) == "((not a.a) and b.b) or ((c.c == 1) and d.d)"


# Anything that can be said


CONSTANTS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**16), 10**16)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
NAMES = st.builds(
    Name,
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,6}", fullmatch=True).filter(lambda step: not step.isdigit()),
    st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,6}", fullmatch=True), min_size=1, max_size=3).map(tuple),
)
LISTS = st.lists(CONSTANTS, max_size=3).map(lambda values: Literal(tuple(values)))
PARTS = st.recursive(
    NAMES | st.builds(Literal, CONSTANTS),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(Compare, inner, st.sampled_from(sorted(COMPARISONS)), inner)
        | st.builds(Compare, inner, st.sampled_from(["in", "not in"]), LISTS)
        | st.builds(Join, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(PARTS)
def test_what_is_written_is_read_as_it_was(part):
    written = str(Expression(part, ()))
    if len(written) <= CHARS_MAX:
        assert parse(written).part == part


@given(PARTS, st.dictionaries(st.text(max_size=3), st.dictionaries(st.text(max_size=3), CONSTANTS)))
def test_it_holds_or_not_or_says_why(part, outputs):
    try:
        assert Expression(part, ()).holds(outputs) in (True, False)
    except ValueError as wrong:
        assert "have no order" in str(wrong)  # noqa: PT017  # most of them raise nothing


@given(st.text() | st.text(alphabet="ab. ()[]'\"=<>!,notrui0-9\\"))
def test_no_text_makes_it_raise_anything_else(text):
    try:
        parse(text)
    except BadExpression as wrong:
        assert 1 <= wrong.column <= len(text) + 1  # noqa: PT017  # as above
