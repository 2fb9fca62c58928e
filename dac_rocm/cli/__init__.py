"""The command `dac-rocm`: one file per sub-command, flags that several share in `options`.

A sub-command has `add_parser(subparsers)`, which sets `run(args) -> int`. Results go to stdout,
progress and warnings to stderr. Heavy packages are imported inside `run`, so that `--help` and
`info` are instant.
"""
