"""What `encode` and `decode` do with a folder, or with several inputs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from dac_rocm.cli.options import print_json
from dac_rocm.errors import OutputError

if TYPE_CHECKING:
    from dac_rocm.batch import Found, Pair
    from dac_rocm.batch.run import Work
    from dac_rocm.cli.tally import Tally
    from dac_rocm.codec import Codec

GPU_JOBS = 4
"""Files at a time on a GPU: one is computed while others are read."""


def add_batch_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what only concerns folders; return the group for more."""
    group = parser.add_argument_group("folders, or several inputs")
    group.add_argument("--skip-existing", action="store_true", help="go on where a run was stopped")
    group.add_argument("--dry-run", action="store_true", help="list what would be written, and end")
    group.add_argument("--jobs", type=int, metavar="N", help="files at a time; default: by machine")
    group.add_argument("--report", metavar="FILE", help="append a line of JSON for each file")
    return group


def is_batch(inputs: Sequence[str]) -> bool:
    """Tell whether the inputs are a folder or several."""
    return len(inputs) > 1 or Path(inputs[0]).is_dir()


def find_work(
    args: argparse.Namespace, suffixes: Collection[str], suffix: str
) -> tuple[Found, list[Pair]] | int:
    """Find the files and name their targets.

    Args:
        args: The flags.
        suffixes: Of the files that are wanted.
        suffix: Of their targets.

    Returns:
        What was found, and the pairs; or an exit code where there is nothing to do.

    Raises:
        OutputError: Targets exist, or two would be the same.
    """
    from dac_rocm.batch import find, pair
    from dac_rocm.cli.main import say

    is_idle = args.jobs is not None and args.jobs < 1
    if args.output in (None, "-") or "-" in args.input or is_idle:
        say("error: a folder or several inputs found; they need -o FOLDER, no pipe and --jobs >= 1")
        return 2
    found = find(args.input, suffixes)
    if not found.sources and not found.unreadable:
        say(
            f"error: {found.others} files found in {', '.join(args.input)}, none of which ends "
            f"with {', '.join(sorted(suffixes))}; one is expected. Check the path."
        )
        return 2
    pairs = pair(found.sources, Path(args.output), suffix)
    if found.others:
        say(f"{found.others} files of other kinds are passed over")
    if args.dry_run:
        return _dry_run(pairs, args)
    _refuse_existing(pairs, args)
    return found, pairs


def _dry_run(pairs: Sequence[Pair], args: argparse.Namespace) -> int:
    verdict = "skipped" if args.skip_existing else "overwritten" if args.force else "refused"
    for source, target in pairs:
        print(f"{source} -> {target}" + (f" (exists: {verdict})" if target.exists() else ""))
    return 0


def _refuse_existing(pairs: Sequence[Pair], args: argparse.Namespace) -> None:
    if args.force or args.skip_existing:
        return
    if count := sum(target.exists() for _, target in pairs):
        raise OutputError(
            f"{count} of {len(pairs)} targets found in {args.output} already; none is expected. "
            "Go on where a run was stopped with --skip-existing, or write them again with --force."
        )


def run_batch(
    args: argparse.Namespace,
    work: Work,
    model: Codec,
    found: Found,
    pairs: Sequence[Pair],
    *,
    group: int = 1,
) -> int:
    """Work on all files, show how far it is, and list the failures at the end.

    Args:
        args: The flags.
        work: See `batch.run`.
        model: What computes; its device decides how many files are worked on at a time.
        found: What the inputs hold.
        pairs: Each file and its target.
        group: Files for one batch.

    Returns:
        The exit code.
    """
    from dac_rocm.batch import claimed, run
    from dac_rocm.cli.tally import Tally
    from dac_rocm.runtime.threads import intra_op_threads

    jobs, threads = share_out(args.jobs, len(pairs), model.device.type)
    with ExitStack() as stack:
        stack.enter_context(claimed(Path(args.output)))
        tally = stack.enter_context(Tally(len(pairs), args.report))
        stack.callback(_finish, tally, args.json, time.perf_counter())
        stack.enter_context(intra_op_threads(threads))
        tally.take_unreadable(found.unreadable)
        results = stack.enter_context(closing(run(work, pairs, jobs=jobs, group=group)))
        for result in results:
            tally.take(result)
    return 1 if tally.failed else 0


def _finish(tally: Tally, as_json: bool, started: float) -> None:
    """Say what was done; after an interruption too."""
    tally.finish(time.perf_counter() - started)
    if as_json:
        print_json({**tally.counts, "seconds": tally.seconds, "failures": tally.failures})


def share_out(jobs: int | None, files: int, device: str) -> tuple[int, int]:
    """Divide the cores that torch would use among files.

    Args:
        jobs: Files at a time; None chooses: on a CPU one for each core.
        files: How many there are.
        device: `cpu`, or what else computes.

    Returns:
        Files at a time, and torch's threads for each.
    """
    import torch

    cores = torch.get_num_threads()
    wanted = jobs or (cores if device == "cpu" else GPU_JOBS)
    jobs = max(1, min(wanted, files))
    return jobs, max(1, cores // jobs)
