"""`trueup rules`: the knowledge, readable."""

from __future__ import annotations

from pathlib import Path

import click

from trueup.cli.output import format_option, json_option, printed_on, save, width_of, write


@click.command(short_help="List the known failure classes, or explain one.")
@click.argument("rule_id", metavar="[ID]", required=False)
@click.option("--search", metavar="TEXT", help="Only rules whose text contains TEXT.")
@json_option()
@format_option()
def rules(rule_id: str | None, search: str | None, json_file: Path | None, shape: str) -> None:
    """List the failure classes that trueup knows, or print all about the one with ID."""
    from trueup.reports import rulebook
    from trueup.rules import UnknownRuleError, all_rules, rule

    try:
        chosen = all_rules() if rule_id is None else (rule(rule_id),)
    except UnknownRuleError as error:
        raise click.UsageError(f"{error}; `trueup rules` lists them all") from error
    if search is not None:
        chosen = tuple(each for each in chosen if search.lower() in rulebook.as_json([each]).lower())
    if search is not None and not chosen:
        click.echo(f"no rule contains {search!r}; `trueup rules` lists them all", err=True)
    if shape != "text":
        write(
            printed_on(),
            {"json": rulebook.as_json, "sarif": rulebook.as_sarif, "html": rulebook.as_html}[shape](chosen),
        )
    elif rule_id is not None and chosen:
        write(printed_on(), rulebook.page(chosen[0], width=width_of(printed_on())))
    else:
        write(printed_on(), rulebook.listing(chosen))
    if json_file is not None:
        save(rulebook.as_json(chosen), json_file)
