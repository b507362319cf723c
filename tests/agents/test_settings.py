import pytest
from hypothesis import given
from hypothesis import strategies as st

from openintent.agents.settings import Settings
from openintent.spaces import agent_name_of

WRONG = [
    ("name", ""),
    ("name", "a~b"),
    ("name", "größe"),
    ("name", " a"),
    ("instance", "a\nb"),
    ("capacity", 0),
    ("capacity", -1),
    ("capacity", 1.5),
    ("capacity", True),
    ("lease_ttl", 0),
    ("lease_ttl", -1.0),
    ("lease_ttl", float("nan")),
    ("lease_ttl", float("inf")),
    ("lease_ttl", "60"),
    ("lease_ttl", True),
    ("drain_seconds", None),
    ("heartbeat_seconds", 0),
    ("poll_seconds", 0),
    ("capabilities", "search"),
    ("intents", "i1"),
    ("portfolios", "p1"),
    ("retry", {"max_attempts": 3}),
    ("retry", None),
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=repr)
def test_a_wrong_setting_is_refused_by_its_name(field, value):
    with pytest.raises(ValueError, match=f"{field}|not an agent id"):
        Settings(**{"name": "a", field: value})


def test_an_agent_listens_to_its_name_and_to_its_role():
    assert Settings(name="a").names == ("a",)
    assert Settings(name="a", role="r").names == ("a", "r")
    assert Settings(name="a", role="a").names == ("a",)


def test_without_heartbeats_a_lease_has_its_ttl_and_no_more():
    assert Settings(name="a", lease_ttl=7).max_hold_seconds is None
    assert Settings(name="a", lease_ttl=7, auto_heartbeat=False).max_hold_seconds == 7


words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(words.filter(lambda name: "~" not in name), st.none() | words)
def test_an_instance_is_one_of_its_agent(name, instance):
    assert agent_name_of(Settings(name=name, instance=instance).new_instance_id()) == name
