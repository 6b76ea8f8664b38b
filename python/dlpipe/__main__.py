"""`python -m dlpipe` runs the program `dlpipe`: the same options, output and exit codes. Two jobs are done here in Python,
because the program can't do them: ingesting Parquet and Arrow files, and converting other libraries' transforms."""

import os
import signal
import sys


def _ingest_arrow(arguments):
    """`ingest SRC... DST` for Parquet or Arrow files. Returns the exit code."""
    import argparse
    import json

    from dlpipe.errors import CancelledError, Error, MisuseError
    from dlpipe.ingest import ingest
    from dlpipe.recipes.command import answer

    parser = argparse.ArgumentParser(
        prog="dlpipe ingest", allow_abbrev=False,
        description="Creates a dataset from Parquet or Arrow files, with pyarrow. Files or folders named train, val and test become splits.")  # fmt: skip
    parser.add_argument("SRC", nargs="+")
    parser.add_argument("DST")
    for name in ("--split", "--on-error", "--store", "--jpeg", "--map-size", "--background"):
        parser.add_argument(name)
    for name in ("--limit", "--seed", "--resize-max", "--quality", "--max-pixels"):
        parser.add_argument(name, type=int)
    parser.add_argument("--threads", "--jobs", "--workers", type=int)
    for name in ("--trust", "--zstd", "--no-splits", "--json"):
        parser.add_argument(name, action="store_true", default=None)
    # Every command accepts these two; here they have no effect.
    parser.add_argument("--quiet", action="store_true", help="print no progress and no notes; has no effect here")
    parser.add_argument("--color", choices=("auto", "always", "never"), help="colours in messages; has no effect here")
    options = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    del options["quiet"]
    options.pop("color", None)
    sources, destination = options.pop("SRC"), options.pop("DST")
    as_json = options.pop("json", False)
    try:
        report = ingest(sources, destination, **options)
        lines = [f"{one['directory']}: {one['samples']} samples" for one in report["datasets"]]
        for line in [json.dumps(report)] if as_json else lines:
            answer(line)
    except Error as error:
        print(f"dlpipe: {error}", file=sys.stderr)
        return 2 if isinstance(error, MisuseError) else 3 if isinstance(error, CancelledError) else 1
    return 0


def main():
    """Replaces this process with the program; does not return."""
    from dlpipe import arrow

    arguments = sys.argv[1:]
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments[:1] == ["ingest"] and any(map(arrow.source, arguments[1:])):
        sys.exit(_ingest_arrow(arguments[1:]))
    if arguments[:1] == ["convert-augment"]:
        from dlpipe.recipes import command

        sys.exit(command.main(arguments[1:]))
    if arguments[:1] == ["capture"]:
        from dlpipe.capture import main as capture

        sys.exit(capture(arguments[1:]))
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "dlpipe")
    os.execv(program, ["dlpipe", *sys.argv[1:]])


if __name__ == "__main__":
    main()
