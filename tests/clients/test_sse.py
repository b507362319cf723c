"""Bytes in, messages out: however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.client import sse
from openintent.client.sse import Message, Parser, TooLong


def parsed(text: bytes) -> list[Message]:
    return Parser().feed(text)


def test_a_message_has_a_name_an_id_and_data():
    assert parsed(b'id: 7\nevent: lease_acquired\ndata: {"a": 1}\n\n') == [
        Message(event="lease_acquired", data='{"a": 1}', id="7")
    ]


def test_lines_of_data_are_joined():
    assert parsed(b"data: a\ndata:b\ndata\n\n") == [Message(data="a\nb\n")]


def test_only_the_first_blank_after_the_colon_is_no_part_of_the_value():
    assert parsed(b"data:  two\n\n")[0].data == " two"


def test_what_has_no_data_still_tells_its_place():
    assert parsed(b": ping\nid: 12\n\n") == [Message(id="12")]


def test_comments_and_empty_lines_are_no_messages():
    assert parsed(b": ping\n\n\n\n: ping\n\n") == []


def test_what_is_not_known_is_ignored():
    assert parsed(b"colour: red\ndata: a\nid: nu\0ll\n\n") == [Message(data="a")]


@pytest.mark.parametrize(("told", "meant"), [(b"1500", 1500), (b"soon", None), (b"-1", None), (b"9" * 30, None)])
def test_how_long_to_wait_is_a_number_of_milliseconds(told, meant):
    (message,) = parsed(b"retry: %b\ndata: a\n\n" % told)
    assert message.retry_ms == meant


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line():
    assert parsed(b"\xef\xbb\xbfdata: a\n\n") == [Message(data="a")]


def test_bytes_that_are_no_text_harm_nothing_else():
    assert parsed(b"data: a\xff\n\ndata: b\n\n") == [Message(data="a�"), Message(data="b")]


def test_a_line_that_ended_with_cr_ended_then():
    parser = Parser()
    assert parser.feed(b"data: a\r\r") == [Message(data="a")]
    assert parser.feed(b"\ndata: b\r\n\r") == [Message(data="b")]
    assert parser.feed(b"\n") == []


def test_what_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(sse, "MESSAGE_BYTES_MAX", 100)
    for endless in (b"data: " + b"a" * 100, b"data: a\n" * 20, b"a" * 101 + b"\n"):
        parser = Parser()
        with pytest.raises(TooLong):
            for start in range(0, len(endless), 7):
                parser.feed(endless[start : start + 7])


def test_many_messages_and_pings_are_not_one_that_never_ends(monkeypatch):
    monkeypatch.setattr(sse, "MESSAGE_BYTES_MAX", 100)
    parser = Parser()
    assert len(parser.feed(b"data: aaaa\n\n" * 50)) == 50
    for _ in range(50):
        assert parser.feed(b": ping\n") == []


words = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)
messages = st.builds(
    Message,
    event=words,
    data=st.lists(words, min_size=1, max_size=3).map("\n".join),
    id=st.none() | st.integers(0, 10**12).map(str),
    retry_ms=st.none() | st.integers(0, 10**6),
)


def written(message: Message, end: str) -> str:
    fields = {"event": message.event or None, "id": message.id, "retry": message.retry_ms}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    lines += [f"data: {line}" for line in (message.data or "").split("\n")]
    return "".join(line + end for line in [*lines, ""])


@given(st.lists(messages, max_size=5), st.sampled_from(["\n", "\r", "\r\n"]), st.data())
def test_where_the_pieces_are_cut_makes_no_difference(told, end, data):
    raw = "".join([f": hello{end}", *(written(message, end) for message in told)]).encode()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=12).map(sorted))
    parser = Parser()
    found = [
        message
        for first, last in zip([0, *cuts], [*cuts, len(raw)], strict=True)
        for message in parser.feed(raw[first:last])
    ]
    assert found == told
