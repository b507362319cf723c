"""`openintent completion`: the Tab key."""

from typing import Final

import click

PROGRAM: Final = "openintent"
VARIABLE: Final = "_OPENINTENT_COMPLETE"  # by which the shell asks us; click reads it


@click.command(
    epilog="""\b
To have it in each new shell:
  bash   echo 'eval "$(openintent completion bash)"' >> ~/.bashrc
  zsh    echo 'eval "$(openintent completion zsh)"' >> ~/.zshrc      (after compinit)
  fish   openintent completion fish > ~/.config/fish/completions/openintent.fish

\b
Example, for this shell only:
  eval "$(openintent completion bash)"

\b
Exit codes:
  0   printed
  2   the command line is wrong
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for completion with the Tab key.

    After that, Tab completes commands and options. It needs bash 4.4 or newer, or any zsh or fish of the last ten
    years. The shell asks `openintent` itself, so the script stays right when openintent is updated.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # few need it

    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three
    click.echo(kind(context.find_root().command, {}, PROGRAM, VARIABLE).source())
