"""The Python interface to parts of caches: tensors taken out, and two caches compared."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kvzip.api import opened_draft
from kvzip.files import file_target
from kvzip.pipeline.difference import Difference, compare, compare_streams
from kvzip.pipeline.draft import DraftGiven, open_draft
from kvzip.pipeline.options import Progress
from kvzip.pipeline.parts import Wanted, write_parts
from kvzip.pipeline.prior_file import PriorSource, read_prior
from kvzip.pipeline.tensors import open_tensors

PathLike = str | os.PathLike[str]


def extract(
    source: PathLike,
    target: PathLike,
    *,
    tensors: Sequence[str] = (),
    layers: Sequence[int | str] = (),
    kinds: Sequence[str] = (),
    threads: int = 0,
    force: bool = False,
    layout: str | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> int:
    """Write some tensors of a container, a dump or a directory of dumps as a dump of their own; return its bytes.

    tensors: names, or patterns such as ``layers.*.key``; layers: numbers, or ranges such as "0-7"; kinds: "key",
        "value", "latent", ... What is not said limits nothing.

    Raises KvzipError for what the source lacks, TargetError where writing fails.
    """
    wanted = Wanted.of(tensors, [str(layer) for layer in layers], kinds)
    known = None if prior is None else read_prior(prior)
    with (
        opened_draft(draft, threads, known) as drafts,
        open_tensors(source, threads, prior=known, draft=drafts, layout=layout) as held,
        file_target(target, force=force, inputs=[source]) as out,
    ):
        count = write_parts(wanted.pick(held), held, out.file)
        out.commit()
    return count


def diff(
    a: PathLike,
    b: PathLike,
    *,
    by_layer: bool = False,
    threads: int = 0,
    layout: str | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
    progress: Progress | None = None,
) -> Difference:
    """What differs between two dumps, directories of dumps or containers; it is false if nothing does.

    by_layer: pair streams by layer, kind and head, whatever tensors are called; compare the tokens that both have.
    """
    known = None if prior is None else read_prior(prior)
    if by_layer:
        with open_draft(a, threads, layout, known) as one, open_draft(b, threads, layout, known) as other:
            return compare_streams(one, other, progress)
    with (
        opened_draft(draft, threads, known) as drafts,
        open_tensors(a, threads, prior=known, draft=drafts, layout=layout) as mine,
        open_tensors(b, threads, prior=known, draft=drafts, layout=layout) as theirs,
    ):
        return compare(mine, theirs, progress)
