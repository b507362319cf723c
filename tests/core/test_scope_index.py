"""The clever index against a list that is searched from end to end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.core.scopes import ScopeIndex, ancestors, covers, overlap, problem, split
from openintent.model import Limits

segments = st.sampled_from(["a", "b", "ab", "*", "**", ""])
names = st.lists(segments, min_size=1, max_size=5).map("/".join).filter(bool)
owners = st.sampled_from(["ann", "bob", "cid"])
items = st.dictionaries(names, owners, max_size=12)

WEIRD = [
    "*",
    "**",
    "/",
    "//",
    "a",
    "ab",
    "/**",
    "//**",
    "*/**",
    "x/**/**",
    "x/**",
    "x",
    "a//b",
    "a//**",
    "a/",
    "a/**",
    "**/**",
]


def covers_plainly(outer: str, inner: str) -> bool:
    """What the words say: `*` is everything, `p/**` is `p` and whatever starts with `p/`."""
    if outer in ("*", inner):
        return True
    path = outer[: -len("/**")]
    return outer.endswith("/**") and path != "" and (inner == path or inner.startswith(path + "/"))


def overlap_plainly(one: str, other: str) -> bool:
    return covers_plainly(one, other) or covers_plainly(other, one)


def filled(content: dict[str, str]) -> ScopeIndex[str]:
    index: ScopeIndex[str] = ScopeIndex()
    for scope, owner in content.items():
        index.add(scope, owner, scope)
    return index


@given(names, names)
def test_overlapping_is_what_the_words_say(one, other):
    assert overlap(one, other) == overlap_plainly(one, other)
    assert overlap(one, other) == overlap(other, one)


@pytest.mark.parametrize("one", WEIRD)
@pytest.mark.parametrize("other", WEIRD)
def test_weird_names_overlap_as_the_words_say(one, other):
    assert overlap(one, other) == overlap_plainly(one, other)
    index = filled({one: "ann"})
    assert list(index.overlapping(other)) == ([one] if overlap_plainly(one, other) else [])
    assert index.other(other, "bob") == (one if overlap_plainly(one, other) else None)
    assert index.other(other, "ann") is None


@given(items, names)
def test_the_index_finds_every_overlap_once(content, scope):
    found = list(filled(content).overlapping(scope))
    assert sorted(found) == sorted(held for held in content if overlap_plainly(held, scope))


@given(items, names, owners)
def test_the_index_finds_what_is_in_the_way_of_an_owner(content, scope, owner):
    found = filled(content).other(scope, owner)
    in_the_way = [held for held, who in content.items() if who != owner and overlap_plainly(held, scope)]
    assert found in in_the_way if in_the_way else found is None


@given(items, owners)
def test_the_index_knows_what_belongs_to_whom(content, owner):
    index = filled(content)
    assert sorted(index.owned(owner)) == sorted(scope for scope, who in content.items() if who == owner)
    assert sorted(index) == sorted(content)
    assert len(index) == len(content)


@given(items, st.data())
def test_what_was_removed_leaves_nothing_behind(content, data):
    index = filled(content)
    removed = data.draw(st.lists(st.sampled_from(sorted(content)), unique=True)) if content else []
    for scope in removed:
        index.remove(scope)
    left = filled({scope: owner for scope, owner in content.items() if scope not in removed})
    assert (index.items, index._wide, index._below) == (left.items, left._wide, left._below)
    assert all(index.get(scope) is None for scope in removed)


@pytest.mark.parametrize(
    ("scope", "path", "wide"),
    [("*", "", True), ("a/**", "a", True), ("a", "a", False), ("/**", "/**", False), ("a/*", "a/*", False)],
)
def test_only_two_forms_cover_more_than_themselves(scope, path, wide):
    assert split(scope) == (path, wide)


def test_nothing_is_above_a_name_but_its_prefixes_and_everything():
    assert list(ancestors("a/b/c")) == ["a/b", "a", ""]
    assert list(ancestors("/a")) == [""]


def test_a_narrow_scope_covers_only_itself():
    assert covers("a", "a")
    assert not covers("a", "a/b")


@pytest.mark.parametrize(
    "scope",
    ["", "a" * 513, "a\nb", "a\tb", "\x7f", "/".join("a" * 33)],
)
def test_what_cannot_be_a_scope_is_told_why(scope):
    assert problem(scope, Limits()) is not None


@pytest.mark.parametrize("scope", ["*", "a", "a" * 512, "ä b/ç", "/".join("a" * 32), *WEIRD])
def test_any_printable_text_is_a_scope(scope):
    assert problem(scope, Limits()) is None


def test_what_two_own_side_by_side_is_found_after_one_of_them_left():
    index = filled({"a/b": "ann", "a/c": "bob", "*": "ann"})
    assert sorted(index.owned("ann")) == ["*", "a/b"]
    assert len(index) == 3
    index.remove("a/b")
    assert index.other("a/**", "ann") == "a/c"
    assert index.other("a/**", "bob") == "*"
