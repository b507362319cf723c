"""The page at `/docs`: the description of the interface, for people.

It is one page that loads nothing from elsewhere and lets nothing in: its style and its script are named in its policy
by their hashes. Without a script it is the list of all operations; the script adds the rest from `/openapi.json`.
"""

import base64
import hashlib
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from openintent.model import Limits
from openintent.server.openapi import document
from openintent.server.routing import Router

FOLDER: Final = Path(__file__).with_name("docs")
ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Ccircle cx='4' cy='4' r='3' fill='%231a5fb4'/%3E%3C/svg%3E"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="{icon}">
<title>{title}: the HTTP interface</title>
<style>{style}</style>
<main>
<header>
<h1>{title} <small>{version}</small></h1>
{about}
<p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
</header>
<div class="bar" id="bar" hidden>
<label>Find (press /) <input id="search" type="search" placeholder="lease, POST, /agents" autocomplete="off"></label>
<label>You are <input id="agent" value="ada" autocomplete="off" spellcheck="false"></label>
<label>Key, not stored <input id="key" type="password" autocomplete="off"></label>
</div>
{groups}
<p id="none" hidden>Nothing has all these words.</p>
</main>
<script>{script}</script>
</html>
"""


class Page(msgspec.Struct, frozen=True):
    payload: bytes
    headers: dict[str, str]


@lru_cache(maxsize=4)
def page(router: Router, limits: Limits) -> Page:
    """The page for a server with these routes, and the headers that it goes out with."""
    described = document(router.routes, limits)
    style, script = _text("page.css"), _text("page.js")
    payload = _PAGE.format(
        icon=ICON,
        title=escape(described["info"]["title"]),
        version=escape(described["info"]["version"]),
        about="\n".join(f"<p>{_words(part)}</p>" for part in described["info"]["description"].split("\n\n")),
        groups="\n".join(_group(described, tag) for tag in described["tags"]),
        style=style,
        script=script,
    ).encode()
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "etag": f'"{hashlib.sha256(payload).hexdigest()[:16]}"',
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return Page(payload, headers)


def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _words(text: str) -> str:
    """Text in which backticks mark code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _group(described: dict[str, Any], tag: dict[str, str]) -> str:
    rows = [
        _row(path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if tag["name"] in operation["tags"]
    ]
    return "\n".join(
        [f"<section><h2>{escape(tag['name'])}</h2><p>{_words(tag['description'])}</p>", *rows, "</section>"]
    )


def _row(path: str, method: str, operation: dict[str, Any]) -> str:
    said = _words(operation.get("description", ""))
    return (
        f'<details class="op" id="{operation["operationId"]}" data-method="{method}" data-path="{escape(path)}">'
        f'<summary><b class="verb {method}">{method.upper()}</b><code>{escape(path)}</code>'
        f"<span>{escape(operation['summary'])}</span></summary><div><p>{said}</p></div></details>"
    )
