"""The URL of an engine, as it is read and as it is shown."""

import pytest

from openintent.engines import open_engine, without_secret


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:secret@h/db", "postgresql://ann:***@h/db"),
        ("postgresql://ann@h/db", "postgresql://ann@h/db"),
        ("redis://:secret@h:6379/0", "redis://:***@h:6379/0"),
        ("etcd://ann:se:cret@h1:2379,h2:2379/prefix", "etcd://ann:***@h1:2379,h2:2379/prefix"),
        (
            "postgresql:///db?user=ann&password=se@cret&sslmode=require",
            "postgresql:///db?user=ann&password=***&sslmode=require",
        ),
        ("postgresql://h?password=se@cret", "postgresql://h?password=***"),
        ("postgresql://ann:se?cret@h/db", "postgresql://ann:***@h/db"),
        ("zookeeper://h1,h2/path?auth=digest:ann:secret&timeout=2", "zookeeper://h1,h2/path?auth=***&timeout=2"),
        ("zookeeper://h?auth=digest:ann:secret", "zookeeper://h?auth=***"),
        ("sqlite:///a@b:c.db", "sqlite:///a@b:c.db"),
        ("memory:", "memory:"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert without_secret(url) == shown


def test_an_engine_that_is_not_offered_is_named_with_those_that_are():
    with pytest.raises(ValueError, match=r"no engine for 'mongodb://x'; offered are sqlite:///relative\.db"):
        open_engine("mongodb://x")
