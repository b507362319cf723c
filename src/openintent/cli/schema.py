"""`openintent schema`: the description of the HTTP interface."""

from pathlib import Path

import click

from openintent.cli.report import Problem


@click.command(
    epilog="""\b
Examples:
  openintent schema                               to the terminal, or through jq
  openintent schema -o openapi.json
  openintent schema --markdown -o reference.md    for people

\b
Exit codes:
  0   printed, or written
  1   the file cannot be written
  2   the command line is wrong
"""
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write it there.")
@click.option("--markdown", is_flag=True, help="For people to read, instead of OpenAPI.")
def schema(output: Path | None, markdown: bool) -> None:
    """Print the description of the HTTP interface, as OpenAPI 3.1.

    It needs no server, and is what a server with the usual limits has at /openapi.json.
    """
    text = _markdown() if markdown else _json()
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise Problem(f"{output}: {failure.strerror}") from None


def _json() -> str:
    import msgspec  # noqa: PLC0415  # as below

    encoded = msgspec.json.encode(_document())
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _markdown() -> str:
    from openintent.server.reference import markdown  # noqa: PLC0415  # as below

    return markdown(_document())


def _document() -> dict[str, object]:
    # The whole server, which no other command here needs.
    from openintent.model import Limits  # noqa: PLC0415
    from openintent.server.openapi import document  # noqa: PLC0415
    from openintent.server.routes import ROUTES  # noqa: PLC0415

    return document(ROUTES, Limits())
