"""Where two caches differ; fits 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvzip.cli.render import Columns, Page
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.pipeline.difference import Difference, TensorDifference

MOST = 20  # tensors that are listed unless all are asked for


def show_difference(found: Difference, every_tensor: bool) -> None:
    """What differs: headers, tensors that cannot be compared, and for the others where their values differ and how
    far."""
    page = Page()
    total = len(found.tensors) + found.same_tensors
    plural = "" if total == 1 else "s"
    page.line(f"A {shown(found.a)}")
    page.line(f"B {shown(found.b)}")
    page.line(f"{len(found.tensors)} of {total} {found.unit}{plural} differ")
    for text in found.header:
        page.line(f"header: {shown(text)}")
    listed = found.tensors if every_tensor else found.tensors[:MOST]
    for one in listed:
        if one.what != "values":
            page.line(f"{shown(one.name)}: {one.what}{': ' * bool(one.detail)}{one.detail}")
    _show_values([one for one in listed if one.what == "values"], page)
    if len(listed) < len(found.tensors):
        page.line(f"and {len(found.tensors) - len(listed)} more; -v lists them all")


def _show_values(tensors: list[TensorDifference], page: Page) -> None:
    if not tensors:
        return
    table = Columns("<tensor", "<heads", "values", "share", "max diff", "max ulp", "<tokens")
    for one in tensors:
        table.row(
            shown(one.name),
            "" if one.heads is None else _heads(one.heads),
            one.differing,
            f"{100 * one.differing / max(1, one.values):.3g} %",
            "" if one.greatest is None else f"{one.greatest:.3g}",
            "" if one.greatest_ulp is None else one.greatest_ulp,
            "" if one.tokens is None else f"{one.tokens[0]} in {one.tokens[1]}-{one.tokens[2]}",
        )
    page.table(table)
    first = tensors[0]
    a, b = first.first_values
    at = ", ".join(map(str, first.first))
    page.line(f"first: {shown(first.name)}[{at}] is {a} in A, {b} in B")
    odd = [(sum(t.nans for t in tensors), "NaN"), (sum(t.signed_zeros for t in tensors), "0 against -0")]
    told = [f"{count} {what}" for count, what in odd if count]
    if told:
        page.line(f"among the values that differ: {', '.join(told)}")


def _heads(heads: tuple[int, ...]) -> str:
    if len(heads) == 1:
        return str(heads[0])
    whole = heads == tuple(range(heads[0], heads[-1] + 1))
    return f"{heads[0]}-{heads[-1]}" if whole else ",".join(map(str, heads)) if len(heads) < 5 else f"{len(heads)}"
