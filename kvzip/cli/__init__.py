"""The command line: options in, library calls, one line for every error, exit codes 0, 1 and 2."""

from __future__ import annotations

import sys

from kvzip.errors import KvzipError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    from kvzip.cli.app import app
    from kvzip.cli.shorthand import expand
    from kvzip.files.signals import Interrupted, interruptible

    code = 0
    try:
        with interruptible():
            app(expand(sys.argv[1:] if arguments is None else arguments), prog_name="kvzip")
    except BrokenPipeError:
        code = _abandon_output()
    except KvzipError as error:
        code = error.exit_code
        print(f"kvzip: {error}", file=sys.stderr)
    except Interrupted as interrupt:
        code = interrupt.exit_code
        print(f"\nkvzip: {interrupt}; nothing half-written was left behind", file=sys.stderr)
    except MemoryError:
        code = 1
        print("kvzip: out of memory; use fewer threads with -T, or a smaller --block-size", file=sys.stderr)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    sys.exit(_flush(code))


def _abandon_output() -> int:
    """The reader of our output has left: say nothing, and keep Python from complaining at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _flush(code: int) -> int:
    """Write out what is buffered while a failure can still be told."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _abandon_output()
    except OSError as error:
        print(f"kvzip: cannot write to standard output: {error.strerror}; free some space", file=sys.stderr)
        return _abandon_output()
    return code
