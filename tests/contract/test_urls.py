"""The URL of an engine, as it is read and as it is shown."""

import re
import sys

import pytest

from openintent.engines import open_engine, without_secret
from openintent.errors import EngineUnavailable


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
        ("etcd://ann:se/cr@et@h:2379/prefix", "etcd://ann:***@h:2379/prefix"),
        ("redis://ann:a://b@h/0", "redis://ann:***@h/0"),
        ("postgresql://h/db?PGPASSWORD=secret&pass%77ord=secret", "postgresql://h/db?PGPASSWORD=***&pass%77ord=***"),
        ("redis:ann:secret@h", "redis:***@h"),
        ("rediss//ann:secret@h", "rediss//ann:***@h"),
        ("redis:///ann:secret@h", "redis:///ann:***@h"),
        ("ann:secret@h", "ann:***@h"),
        ("redis://h:6379/0?prefix=a", "redis://h:6379/0?prefix=a"),
        ("sqlite:///a@b:c.db", "sqlite:///a@b:c.db"),
        ("memory:", "memory:"),
    ],
)
def test_a_password_is_not_shown(url, shown):
    assert without_secret(url) == shown


@pytest.mark.parametrize("scheme", ["etcd", "postgresql", "redis", "zookeeper"])
@pytest.mark.parametrize("password", ["se?cret", "12?cret", "se/cret", "12/cret", "se#cret", "s?x=1&cret"])
def test_a_password_that_should_have_been_written_otherwise_is_not_told(scheme, password):
    said = ""
    try:
        open_engine(f"{scheme}://ann:{password}@h/2")
    except ValueError as wrong:
        said = str(wrong)
    assert "cret" not in said


def test_an_engine_that_is_not_offered_is_named_with_those_that_are():
    with pytest.raises(ValueError, match=r"no engine for 'mongodb://x'; offered are sqlite:///relative\.db"):
        open_engine("mongodb://x")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgres://u:secret@h/d?schema=No", "schema='No'"),
        ("postgres://u:secret@h/d?schema=a;drop", "schema="),
        ("postgres://u:secret@h/d?schema=", "schema=''"),
        ("postgres://u:secret@h/d?timeout=0", "timeout='0'"),
        ("postgres://u:secret@h/d?timeout=nan", "timeout='nan'"),
        ("postgres://u:secret@h/d?timeout=soon", "timeout='soon'"),
        ("postgres://u:secret@h/d?durability=strong", "durability='strong'"),
        ("postgres://u:secret@h/d?nonsense=1", "cannot be read; write postgresql://"),
        ("postgres://u:secret@h/d%zz", "cannot be read"),
        ("redis://u:secret@h/0?prefix={a}", "prefix="),
        ("redis://u:secret@h/0?prefix=", "prefix=''"),
        ("redis://u:secret@h/0?timeout=0", "timeout='0'"),
        ("redis://u:secret@h/0?timeout=nan", "timeout='nan'"),
        ("redis://u:secret@h/0?durability=strong", "durability='strong' is none of 'full', 'trust' and 'weak'"),
        ("redis://u:secret@h/0?retry_on_timeout=1", "has no option 'retry_on_timeout'"),
        ("redis://u:secret@h/0?ssl_ca_certs=x", "has no option 'ssl_ca_certs'"),
        ("redis://u:secret@h/zero", "cannot be read; write redis://"),
        ("redis://u:secret@h:port/0", "cannot be read"),
        ("redis://u:secret@h1:1,h2:2/0", "cannot be read"),
        ("redis://u:secret@/0", "cannot be read"),
        ("etcd://u:secret@/place", "names no host, or one that cannot be; write etcd://"),
        ("etcd://u:secret@h:port/place", "names no host"),
        ("etcd://u:secret@h,,:1/place", "names no host"),
        ("etcd://u:secret@h/p?timeout=soon", "one letter"),
        ("etcd://u:secret@h/place?timeout=0", "timeout='0'"),
        ("etcd://u:secret@h/place?timeout=nan", "timeout='nan'"),
        ("etcd://u:secret@h/place?durability=strong", "durability='strong'"),
        ("etcd://u:secret@h/place?compact=daily", "compact='daily'"),
        ("etcd://u:secret@h/place?nonsense=1", "nonsense is no option of the etcd engine"),
        ("etcd://u:secret@h/place?ca=x", "ca is for TLS: write etcds://"),
        ("etcds://u:secret@h/place?key=x", "key is that of a certificate"),
        ("zookeeper://", "names no host, or one that cannot be; write zookeeper://"),
        ("zookeeper:///place", "names no host"),
        ("zookeeper://h:port/place", "names no host"),
        ("zookeeper://h:70000/place", "names no host"),
        ("zookeeper://h,,g/place", "names no host"),
        ("zookeeper://u:secret@h/place", "are given by .auth="),
        ("zookeeper://h/zookeeper/config", "cannot be one of ours"),
        ("zookeeper://h/a/../b", "cannot be one of ours"),
        ("zookeeper://h/place?timeout=0", "timeout='0'"),
        ("zookeeper://h/place?timeout=nan", "timeout='nan'"),
        ("zookeeper://h/place?nonsense=1", "nonsense is no option of the ZooKeeper engine"),
        ("zookeeper://h/place?auth=u:secret", "auth= is not of the form digest:user:password"),
        ("zookeeper://h/place?auth=sasl:u:secret", "auth= is not of the form"),
        ("zookeeper://h/place?auth=digest:secret", "auth= is not of the form"),
        ("zookeeper://h/place?tls=perhaps", "tls='perhaps'"),
        ("zookeeper://h/place?ca=x", "ca is for TLS: add tls=yes"),
        ("zookeeper://h/place?tls=yes&cert=x", "cert and key go together"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_without_its_password(url, why):
    with pytest.raises(ValueError, match=why) as refused:
        open_engine(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("engine", "library"), [("postgres", "psycopg"), ("redis", "redis")])
def test_without_the_library_the_error_says_how_to_get_it(engine, library, monkeypatch):
    for name in [
        name for name in sys.modules if re.fullmatch(rf"openintent\.engines\.{engine}|{library}(\..*)?", name)
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    wanted = rf"needs the library {library}[.a-z]*: pip install 'openintent-leases\[{engine}\]'"
    with pytest.raises(EngineUnavailable, match=wanted):
        open_engine(f"{engine}://127.0.0.1/0")
