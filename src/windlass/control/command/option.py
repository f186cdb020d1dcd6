"""The options that several commands of control runs share."""

from __future__ import annotations

from typing import Annotated

import typer

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the run.")]
PartitionOption = Annotated[
    str, typer.Option("--partition", metavar="P", help="Its partition; default: none.")
]
