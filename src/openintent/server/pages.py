"""What a browser sees at the root: where things are."""

from html import escape
from typing import Final

from starlette.responses import HTMLResponse

from openintent.version import __version__

HOST: Final = "localhost:8000"  # where the page stands for any other

_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>openintent-leases</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem; color: #1c1e21 }}
  code, pre {{ font: 14px/1.5 ui-monospace, monospace; background: #f3f4f6; border-radius: 4px }}
  code {{ padding: .1em .3em }}
  pre {{ padding: .8rem 1rem; overflow-x: auto }}
  @media (prefers-color-scheme: dark) {{
    body {{ background: #15171a; color: #e4e6ea }} code, pre {{ background: #22262b }} a {{ color: #8ab4f8 }}
  }}
</style>
<h1>openintent-leases {__version__}</h1>
<p>This server is running. Agents take leases here, work while they are alive, and are stopped in time when they are
not.</p>
<ul>
  <li><a href="/api/v1/leases">Live leases</a>: <code>GET /api/v1/leases</code></li>
  <li><a href="/api/v1/intents">Intents</a>: <code>GET /api/v1/intents</code></li>
  <li>What happens, as it happens: <code>GET /api/v1/subscribe/spaces/default</code></li>
  <li><a href="/readyz">Readiness</a>: <code>GET /readyz</code>, <a href="/version">version</a>; for
  Prometheus, <a href="/metrics">metrics</a></li>
  <li><a href="/docs">All operations</a>, to read and to try; for programs, <a href="/openapi.json">OpenAPI</a></li>
</ul>
<p>A first lease, in the plain space <code>default</code>:</p>
<pre>curl -X POST {HOST}/api/v1/spaces/default/leases \\
     -H 'X-Agent-ID: me' -H 'Content-Type: application/json' \\
     -d '{{"scope": "build", "ttl_seconds": 60}}'</pre>
<p>From the shell: <code>openintent hold build -- make</code>, <code>openintent leases ls</code>. From Python:
<code>from openintent import OpenIntentClient</code>.</p>
</html>
"""


def index(host: str) -> HTMLResponse:
    """The page, with the address by which its reader came here."""
    page = _PAGE.replace(HOST, escape(host))
    return HTMLResponse(page, headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"})
