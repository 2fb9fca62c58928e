"""Checkpoints from the Hugging Face Hub, through its own client and cache.

A commit in the cache needs no network; a branch one request, which asks for its commit. Only the
files of one checkpoint are downloaded. This room must not know what they hold.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dac_rocm.errors import DacError, SourceError
from dac_rocm.weights.pick import Picked, pick
from dac_rocm.weights.shards import shards_of

COMMIT = re.compile(r"[0-9a-f]{40}")
"""A whole commit hash."""


class Request(NamedTuple):
    """What is wanted of a repo.

    Args:
        repo: Hub id.
        subfolder: Folder inside it; None: the usual ones.
        file: Name or pattern of the file of tensors; None: the best one.
        revision: Branch, tag or commit.
        token: Of the Hub; None: the stored one.
        cache_dir: Of the Hub; None: its own.
        offline: No network call.
        parts: What of several files is needed.
    """

    repo: str
    subfolder: str | None = None
    file: str | None = None
    revision: str | None = None
    token: str | None = None
    cache_dir: str | os.PathLike[str] | None = None
    offline: bool = False
    parts: str = "all"


class Fetched(NamedTuple):
    """A checkpoint in the cache.

    Args:
        folder: The snapshot.
        picked: Its files.
        notes: What the user should be told.
    """

    folder: Path
    picked: Picked
    notes: tuple[str, ...] = ()


class Found(NamedTuple):
    """What is known of the wanted commit.

    Args:
        commit: Its hash; None where nothing in the cache tells.
        online: The Hub may be asked for files.
        notes: What the user should be told.
    """

    commit: str | None
    online: bool
    notes: tuple[str, ...] = ()


def fetch(wanted: Request) -> Fetched:
    """Give the files of a repo, from the cache or the Hub.

    Raises:
        SourceError: They cannot be had; the message says why.
    """
    revision = wanted.revision or "main"
    found = _find(wanted, revision)
    cached = found.commit and _cached(wanted, found.commit, whole=found.online)
    if cached:
        return cached._replace(notes=found.notes)
    if not found.online:
        raise SourceError(
            f"{wanted.repo}: nothing found in the cache for {revision}; offline, only cached files "
            "can be used. Load it once with network, or pass a path."
        )
    try:
        return _download(wanted, revision, found.commit)
    except DacError:
        raise
    except Exception as error:
        raise explained(error, wanted) from error


def _find(wanted: Request, revision: str) -> Found:
    """Find the commit of a revision: by one request where the network may be used."""
    from huggingface_hub import constants

    online = not (wanted.offline or constants.HF_HUB_OFFLINE)
    if COMMIT.fullmatch(revision):
        return Found(revision, online)
    known = _cached_commit(wanted, revision)
    if not online:
        return Found(known, online)
    try:
        return Found(_commit(wanted, revision), online)
    except Exception as error:
        if known is None:
            raise explained(error, wanted) from error
        note = f"{_reason(error)}; the cached copy of commit {known} is used"
        return Found(known, online=False, notes=(note,))


def explained(error: Exception, wanted: Request) -> SourceError:
    """Say in words why the Hub gave nothing."""
    return SourceError(f"{wanted.repo}: {_reason(error)} found. {_remedy(error, wanted)}")


def _snapshots(wanted: Request) -> Path:
    from huggingface_hub import constants

    cache = Path(wanted.cache_dir or constants.HF_HUB_CACHE).expanduser()
    return cache / f"models--{wanted.repo.replace('/', '--')}"


def _cached_commit(wanted: Request, revision: str) -> str | None:
    reference = _snapshots(wanted) / "refs" / revision
    return reference.read_text().strip() if reference.is_file() else None


def _cached(wanted: Request, commit: str, *, whole: bool) -> Fetched | None:
    folder = _snapshots(wanted) / "snapshots" / commit
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    picked = pick(files, wanted.subfolder, wanted.file)
    if picked is None or (whole and not picked.is_whole):
        return None
    weights = folder / picked.weights
    shards = shards_of(weights, wanted.parts)
    if not all(weights.with_name(shard).is_file() for shard in shards):
        return None
    return Fetched(folder, picked)


def _commit(wanted: Request, revision: str) -> str:
    """Ask the Hub for the commit of a branch: one HEAD, whatever file is asked for."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    name = f"{wanted.subfolder}/config.json" if wanted.subfolder else "config.json"
    url = hf_hub_url(wanted.repo, name, revision=revision)
    try:
        commit = get_hf_file_metadata(url, token=wanted.token).commit_hash
    except errors.EntryNotFoundError as error:
        response = getattr(error, "response", None)
        commit = response.headers.get("X-Repo-Commit") if response is not None else None
    if commit is None:
        raise OSError("an answer without a commit")
    return commit


def _download(wanted: Request, revision: str, commit: str | None) -> Fetched:
    from huggingface_hub import HfApi, hf_hub_download

    api = HfApi(token=wanted.token)
    picked = pick(
        api.list_repo_files(wanted.repo, revision=commit or revision), wanted.subfolder, wanted.file
    )
    if picked is None:
        raise SourceError(
            f"{wanted.repo}: no weights found; a known name, here or in audio_vae or vae, is "
            "expected. Pass `subfolder=`, or `org/repo/path/to/file`."
        )

    def get(file: str) -> Path:
        kept = hf_hub_download(
            wanted.repo,
            file,
            revision=revision,
            token=wanted.token,
            cache_dir=None if wanted.cache_dir is None else Path(wanted.cache_dir),
        )
        return Path(kept)

    weights = get(picked.weights)
    beside = [
        str(PurePosixPath(picked.weights).with_name(shard))
        for shard in shards_of(weights, wanted.parts)
    ]
    for file in (picked.config, *beside):
        if file is not None:
            get(file)
    return Fetched(weights.parents[picked.weights.count("/")], picked)


def _status(error: BaseException) -> int | None:
    seen: BaseException | None = error
    while seen is not None:
        response = getattr(seen, "response", None)
        if response is not None:
            return int(response.status_code)
        seen = seen.__cause__
    return None


def _reason(error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return "a gated repo (its owner grants access)"
    if isinstance(error, errors.RevisionNotFoundError):
        return "no such revision"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "no such repo, or a private one,"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "a full disk"
    status = _status(error)
    if status is not None:
        return f"HTTP status {status} from the Hub"
    if "onsistency check failed" in str(error) or "complete message body" in str(error):
        return "a download that broke off"
    return f"no answer from the Hub ({type(error).__name__})"


def _remedy(error: Exception, wanted: Request) -> str:
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/{wanted.repo}"
    if isinstance(error, errors.GatedRepoError):
        return (
            f"Ask for access at {page}, then run `hf auth login`, or pass `token=`; or pass the "
            "path of a file that you have."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"Choose a branch, tag or whole commit hash of {page}."
    if isinstance(error, errors.RepositoryNotFoundError) or _status(error) in (401, 403):
        return (
            f"Check the name at {page}; for a private repo run `hf auth login`, or pass `token=`."
        )
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "Free some space, or pass another `cache_dir=`."
    return "Try again, check the network, or pass the path of a file that you have."
