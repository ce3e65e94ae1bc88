"""Outputs that are neither committed nor taken back: what a signal in the middle of a clean-up leaves to be done."""

from __future__ import annotations

from typing import Protocol


class Output(Protocol):
    """A target."""

    def discard(self) -> None:
        """Take back what was not committed; may be called again after it was cut short."""


_outputs: set[Output] = set()


def begin(output: Output) -> None:
    """Note that ``output`` may have something to take back from now on."""
    _outputs.add(output)


def end(output: Output) -> None:
    """Note that there is nothing left to take back."""
    _outputs.discard(output)


def discard_all() -> None:
    """Take back all outputs that did not get to do it themselves."""
    for output in tuple(_outputs):
        output.discard()
