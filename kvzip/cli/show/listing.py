"""The tensors of a dump or of one member of a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import human
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.cli.listing import Listing


def show_listing(listing: Listing) -> None:
    """The tensors of a dump or of one member of a container."""
    page = Page()
    where = listing.file + (f" : {shown(listing.member)}" if listing.member else "")
    sizes = human(listing.source_bytes)
    if listing.container_bytes is not None:
        ratio = listing.source_bytes / max(1, listing.container_bytes)
        sizes += f" in {human(listing.container_bytes)} ({ratio:.4f}x), level {listing.level}"
    if listing.prior:
        sizes += f", prior {listing.prior}"
    if listing.draft:
        sizes += f", draft xxh3:{listing.draft}"
    plural = "" if len(listing.tensors) == 1 else "s"
    page.line(f"{where}: {sizes}, {len(listing.tensors)} tensor{plural}")
    packed = any(tensor.packed is not None for tensor in listing.tensors)
    linked = any(tensor.needs for tensor in listing.tensors)
    more = [*(["packed", "ratio"] if packed else []), *(["needs"] if linked else [])]
    table = Columns("<tensor", "<type", "<shape", "<layout", "bytes", *more)
    for tensor in listing.tensors:
        cells = [
            shown(tensor.name),
            tensor.dtype,
            "x".join(map(str, tensor.shape)) or "scalar",
            tensor.layout,
            str(tensor.nbytes),
        ]
        if packed:
            cells += (
                ["", ""]
                if tensor.packed is None
                else [str(tensor.packed), f"{tensor.nbytes / max(1, tensor.packed):.3f}"]
            )
        if linked:
            cells.append(_needed(tensor.needs))
        table.row(*cells)
    page.table(table)
    if linked:
        page.line("needs: other tensors that are decoded on the way; --json names them")


def _needed(names: tuple[str, ...]) -> str:
    """One other tensor by the end of its name, several by their number."""
    return "" if not names else shown(names[0].rpartition(".")[2]) if len(names) == 1 else str(len(names))
