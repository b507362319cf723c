"""What is sent."""

import pytest

from openintent.client import calls, spelling
from openintent.client.calls import Wish


def test_names_are_quoted_once():
    assert calls.get_intent("a/b c?").path == "/intents/a%2Fb%20c%3F"
    assert calls.acquire(Wish(space="space:a:b/c"), attempt="t", wait_s=0.0).path == "/spaces/a%3Ab%2Fc/leases"
    assert calls.get_queue("intent:i", scope="ä/**").path == "/intents/i/queue?scope=%C3%A4%2F%2A%2A"


def test_a_mapping_sets_each_of_its_keys():
    assert calls.patches_of({"a": 1, "b/c": None}) == [
        {"op": "set", "path": "a", "value": 1},
        {"op": "set", "path": "b/c", "value": None},
    ]


def test_a_tilde_stands_for_itself_unless_it_escapes():
    paths = [patch["path"] for patch in calls.patches_of({"~tmp": 1, "a~1b": 2, "c~0": 3})]
    assert paths == ["~0tmp", "a~1b", "c~0"]


def test_a_list_of_patches_goes_as_it_is():
    patches = [{"op": "append", "path": "log", "value": 1}, {"op": "remove", "path": "a"}]
    assert calls.patches_of(patches) == patches


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"deep": [{"er": float("-inf")}]}])
def test_what_is_no_json_is_refused_before_it_changes(value):
    with pytest.raises(ValueError, match="JSON"):
        calls.patches_of({"a": value})


def test_a_write_names_version_token_and_attempt():
    call = calls.patch_state("i", [], version=None, token=7, attempt="t")
    assert call.headers == {"Idempotency-Key": "t", "If-Match": "*"}
    assert call.body == {"patches": [], "token": 7}
    assert calls.patch_state("i", [], version=3, token=None, attempt="t").headers["If-Match"] == "3"


def test_a_change_of_status_names_them_too():
    call = calls.set_status("i", "active", version=3, reason=None, token=7, attempt="t")
    assert call.headers == {"Idempotency-Key": "t", "If-Match": "3"}
    assert call.body == {"status": "active", "token": 7}
    assert "token" not in calls.set_status("i", "active", version=3, reason="so", token=None, attempt="t").body


def test_what_was_not_said_is_not_sent():
    call = calls.acquire(Wish(space="intent:i"), attempt="t", wait_s=0.0)
    assert call.body == {"scope": "*", "ttl_seconds": 60.0, "wait_seconds": 0.0}


# Spellings


def test_a_lease_is_named_alone_or_below_its_intent():
    assert spelling.lease_of("L1", None) == ("L1", None)
    assert spelling.lease_of("i1", "L1") == ("L1", "i1")
    assert spelling.lease_of(None, "L1") == ("L1", None)
    with pytest.raises(TypeError):
        spelling.lease_of(None, None)
    with pytest.raises(TypeError):
        spelling.lease_of("L1", 120)  # a ttl that lost its name


def test_a_space_is_an_intents_or_a_plain_one():
    assert spelling.space_of("i1", None) == "intent:i1"
    assert spelling.space_of(None, "build") == "space:build"
    assert spelling.space_of(None, "intent:i1") == "intent:i1"
    for both in ((None, None), ("i1", "build")):
        with pytest.raises(TypeError):
            spelling.space_of(*both)


def test_the_ttl_has_one_value_under_any_name():
    assert spelling.ttl_of(ttl_seconds=None, duration_seconds=5) == 5.0
    assert spelling.ttl_of(ttl_seconds=None) is None
    with pytest.raises(TypeError):
        spelling.ttl_of(ttl_seconds=5, duration_seconds=5)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf")])
def test_a_ttl_that_is_no_length_is_refused(wrong):
    with pytest.raises(ValueError):
        spelling.ttl_of(ttl_seconds=wrong)


@pytest.mark.parametrize("wrong", ["60", True, [1]])
def test_a_ttl_that_is_no_number_is_refused(wrong):
    with pytest.raises(TypeError):
        spelling.ttl_of(ttl_seconds=wrong)


@pytest.mark.parametrize("wrong", ["", " a", "a\nb", "ä"])
def test_an_agent_id_that_fits_in_no_header_is_refused(wrong):
    with pytest.raises(ValueError):
        spelling.agent_id_of(wrong)


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError):
        spelling.make_wish(space="intent:i", scope="*", ttl_s=None, wait_seconds=0, ttl_second=5)
    with pytest.raises(TypeError):
        spelling.intent_of("t", "", {"inital_state": {}})


def test_the_server_is_where_the_environment_says(monkeypatch):
    monkeypatch.delenv("OPENINTENT_URL", raising=False)
    assert spelling.urls_of(None) == ("http://localhost:8000",)
    monkeypatch.setenv("OPENINTENT_URL", "http://lease.example:80")
    assert spelling.urls_of(None) == ("http://lease.example:80",)
    assert spelling.urls_of(["http://a", "http://b"]) == ("http://a", "http://b")
    assert spelling.urls_of("http://a, http://b") == ("http://a", "http://b")
    assert spelling.urls_of("sqlite:///a,b.db") == ("sqlite:///a,b.db",)
