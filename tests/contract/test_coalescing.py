"""What many changes amount to, and what of that need never have been stored."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from openintent.engines.base import Change, Delete, DeleteRange, New, Put
from openintent.engines.folding import coalesce

keys = st.sampled_from(["a", "b"])
lives = st.lists(
    st.one_of(
        st.builds(Put, keys, st.binary(max_size=2)),
        st.builds(Delete, keys),
        st.just(DeleteRange("a", "b")),
    ),
    max_size=12,
)


@given(st.sets(keys), lives, st.lists(st.integers(0, 12), max_size=3))
def test_what_never_had_to_be_stored_is_not_and_all_else_is_as_if_it_had_been(before, changes, cuts):
    """A key is new when nothing stands under it; slices may end anywhere."""
    stored, wanted = dict.fromkeys(before, b"old"), dict.fromkeys(before, b"old")
    told: list[Change] = []
    for change in changes:
        fresh = isinstance(change, Put) and change.key not in wanted
        told.append(New(change.key, change.value) if fresh else change)
        applied(wanted, [change])
    edges = sorted({0, *(min(cut, len(told)) for cut in cuts), len(told)})
    for first, last in pairwise(edges):
        ranges, values = coalesce(told[first:last])
        applied(stored, ranges)
        applied(stored, [Delete(key) if value is None else Put(key, value) for key, value in values.items()])
    assert stored == wanted


def test_a_lease_that_came_and_went_leaves_nothing_to_do():
    assert coalesce([New("l/1", b"x"), Put("l/1", b"y"), Delete("l/1")]) == ([], {})
    assert coalesce([Delete("l/1"), New("l/1", b"x"), Delete("l/1")]) == ([], {"l/1": None})


def applied(records: dict[str, bytes], changes: Iterable[Change]) -> None:
    for change in changes:
        if isinstance(change, Put):
            records[change.key] = change.value
        elif isinstance(change, Delete):
            records.pop(change.key, None)
        else:
            for key in [key for key in records if change.first <= key < change.last]:
                del records[key]
