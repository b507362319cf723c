"""The URL of a PostgreSQL engine: where its tables are, and how to get there."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from openintent.engines.patience import timeout_s_of

# The server gives up before we do: so we are told that nothing happened, and need not guess.
SERVER_SHARE: Final = 0.8
CONNECT_S_MIN: Final = 2  # psycopg takes less for this

# Said when a connection begins: a SET would stay behind in a pooler, for whoever gets the session next. All that we ask
# for goes by an index; of a table that has just grown the server does not know yet that this is better.
SETTINGS: Final = (
    "-c statement_timeout={timeout_ms} -c client_min_messages=warning -c default_transaction_isolation=read\\ committed"
    " -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off"
)
URL_FORM: Final = "postgresql://user:password@host:5432/database?schema=openintent, special characters written as %XX"
OWN_OPTIONS: Final = ("durability", "schema", "timeout")
SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def place_of(url: str) -> "Place":
    """What the URL says. A `ValueError` does not repeat it: there may be a password in it."""
    base, _, query = url.partition("?")
    asked = parse_qsl(query, keep_blank_values=True)
    own = {name: value for name, value in asked if name in OWN_OPTIONS}
    passed_on = urlencode([(name, value) for name, value in asked if name not in OWN_OPTIONS], quote_via=quote)
    try:
        params = conninfo_to_dict(f"{base}?{passed_on}")
    except psycopg.Error:
        raise ValueError(f"the URL of the engine cannot be read; write {URL_FORM}") from None
    schema, weakness = own.get("schema", "openintent"), own.get("durability", "full")
    if SCHEMA_NAME.fullmatch(schema) is None:
        raise ValueError(f"schema={schema!r} is not a name of small letters, digits and underscores")
    if weakness not in ("full", "weak"):
        raise ValueError(f"durability={weakness!r} is neither 'full' nor 'weak'")
    return Place(params, schema, timeout_s_of(own.get("timeout")), weakness == "weak")


class Place(NamedTuple):
    """Where the tables are, and how to get there."""

    params: Mapping[str, Any]
    schema: str
    timeout_s: float
    weak: bool

    @property
    def name(self) -> str:
        host, database = self.params.get("host", "localhost"), self.params.get("dbname", "")
        return f"postgresql://{host}:{self.params.get('port', 5432)}/{database}"

    def sql(self, text: str) -> bytes:
        return text.replace("@", f'"{self.schema}"').encode()

    def conninfo(self, *, timeout_s: float, with_settings: bool) -> str:
        """What the URL says comes first. A dead connection is noticed, by us and by the kernel."""
        ours = {
            "application_name": "openintent",
            "client_encoding": "UTF8",
            "connect_timeout": max(CONNECT_S_MIN, round(self.timeout_s)),
            "keepalives_idle": max(1, round(self.timeout_s)),
            "keepalives_interval": 1,
            "keepalives_count": 5,
            "tcp_user_timeout": round(1_000 * timeout_s),
        }
        if "," in str(self.params.get("host", "")):
            ours["target_session_attrs"] = "read-write"
        params = {**ours, **self.params}
        if with_settings:
            settings = SETTINGS.format(timeout_ms=round(1_000 * SERVER_SHARE * timeout_s))
            params["options"] = f"{params.get('options', '')} {settings}".strip()
        return make_conninfo("", **params)
