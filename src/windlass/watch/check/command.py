"""`windlass migrate` and `windlass check`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from windlass.cli.load import AppOption, JsonOption, load_app
from windlass.cli.output import console, counted, done, print_json, say


def register(cli: typer.Typer) -> None:
    """Add the commands."""
    cli.command()(migrate)
    cli.command()(check)


def migrate(
    app: AppOption = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create or upgrade the tables."""
    loaded = load_app(app, needs_kinds=False)
    from windlass.watch.check import operate

    if sql:
        text = operate.migration_script(loaded.fleet)
        print_json({"sql": text}) if as_json else typer.echo(text, nl=False)
        return
    before = operate.versions(loaded.fleet)
    version = loaded.migrate()
    facts = [{"database": name, "from": found, "to": version} for name, found in before]
    if as_json:
        print_json(facts[0] if len(facts) == 1 else {**facts[0], "shards": facts})
        return
    for name, found in before:
        if found == version:
            done(f"{name} is up to date (version {version})")
        else:
            done(f"{name} is now at version {version} (was {found or 'empty'})")


def check(app: AppOption = None, as_json: JsonOption = False) -> None:
    """Find what is wrong with the app before it runs; exit code 1 if anything is."""
    loaded = load_app(app)
    from windlass.watch.check import operate

    findings = operate.check(loaded.fleet, loaded.registry)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            style = "bold red" if finding.level == "error" else "yellow"
            line = Text(f"{finding.level:8}", style=style) + Text(
                f"{finding.about}  ", style="bold"
            )
            console.print(line + Text(finding.text))
        summary = ", ".join(
            (
                counted(len(loaded.registry.kinds), "kind"),
                counted(errors, "error"),
                counted(len(findings) - errors, "warning"),
            )
        )
        say(summary) if findings else done(summary)
    if errors:
        raise typer.Exit(1)
