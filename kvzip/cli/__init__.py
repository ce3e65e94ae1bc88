"""The command line: options in, library calls, one line for every error, exit codes 0, 1 and 2."""

from __future__ import annotations

import gc
import io
import os
import sys
from contextlib import suppress

READER_LEFT = 141
"""128 + SIGPIPE, as shells report the end of programs that the signal ends."""
COLLECTED = 200_000  # objects between two searches for unreachable ones: more than imports make


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    if arguments is None:  # the process is ours
        gc.set_threshold(COLLECTED)  # else a third of a short run is spent looking at what was imported
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no matrix is multiplied: room for threads is not needed
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the locale cannot write
    try:
        code = _guarded(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # before signals are turned into exceptions of our own, or after
        code = 130
    code = _flush(code)
    _drop_log()
    if arguments is None:
        gc.freeze()  # what is left goes with the process: no need to look for what is unreachable
    sys.exit(code)


def _guarded(arguments: list[str]) -> int:
    """Run a command; turn whatever ends it into an exit code and at most one line."""
    from kvzip.errors import KvzipError
    from kvzip.files import unfinished
    from kvzip.files.signals import Interrupted, interruptible

    try:
        with interruptible():
            try:
                return _run(arguments)
            finally:
                unfinished.discard_all()  # where a signal came in the middle of a clean-up
    except BrokenPipeError:
        return _abandon_output()
    except KvzipError as error:
        return _fail(str(error), error.exit_code)
    except Interrupted as interrupt:
        return _fail(f"{interrupt}; nothing half-written was left behind", interrupt.exit_code)
    except OSError as error:
        if error.filename is None:
            _abandon_output()
        what = error.filename or "standard output"
        return _fail(f"{error.strerror or error}: {what}; check the disk and the permissions", 1)
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        return _fail(f"{error}; use fewer with -T, or raise the limit (ulimit -u)", 1)
    except MemoryError:
        from kvzip.cli.voice import OUT_OF_MEMORY

        return _fail(OUT_OF_MEMORY, 1)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # typer makes an exit of it
            return _abandon_output()
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)


def _run(arguments: list[str]) -> int:
    """Hand the arguments to the option parser; its complaints become one line too."""
    from kvzip.cli.app import app
    from kvzip.cli.shorthand import expand

    try:
        return int(app(expand(arguments or ["--help"]), prog_name="kvzip", standalone_mode=False) or 0)
    except Exception as error:
        if not hasattr(error, "format_message"):  # of the parser's own, wherever this version of typer has them
            raise
        from kvzip.cli.suggest import complaint

        return _fail(complaint(error, arguments), 2)


def _fail(text: str, code: int) -> int:
    if sys.stderr is not None:
        with suppress(OSError):  # a log that is full changes nothing but what is said
            print(f"kvzip: {text}", file=sys.stderr)
    return code


def _abandon_output() -> int:
    """The reader of our output has left: say nothing, and keep Python from complaining at exit."""
    sys.stdout = getattr(sys.stdout, "wrapped", sys.stdout)  # typer hides what cannot be written to
    if sys.stdout is not None:  # else it was another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_LEFT


def _drop_log() -> None:
    """Forget what could not be said, or Python would try again at exit and leave with a code of its own."""
    if sys.stderr is not None:
        try:
            sys.stderr.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _flush(code: int) -> int:
    """Write out what is buffered while a failure can still be told."""
    if sys.stdout is None:
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _abandon_output()
    except OSError as error:
        _abandon_output()
        return _fail(f"cannot write to standard output: {error.strerror}; free some space", 1)
    return code
