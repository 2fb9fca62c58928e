"""Checkpoints to the Hugging Face Hub, through its own client."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from dac_rocm.weights.checkpoint import Checkpoint
from dac_rocm.weights.hub import Request, explained
from dac_rocm.weights.save import save_checkpoint


def push_checkpoint(
    checkpoint: Checkpoint,
    repo: str,
    *,
    token: str | None = None,
    private: bool | None = None,
    revision: str | None = None,
    commit_message: str = "Add codec",
) -> str:
    """Make a repo, if it is not there, and commit config.json, model.safetensors and README.md.

    Args:
        checkpoint: What to upload.
        repo: Hub id.
        token: Of the Hub, with write access; default: the stored one.
        private: Of a new repo.
        revision: Branch; default: `main`.
        commit_message: One line.

    Returns:
        The address of the commit.

    Raises:
        SourceError: The Hub cannot be reached, or refuses.
    """
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    with TemporaryDirectory() as folder:
        save_checkpoint(
            folder,
            checkpoint.config,
            checkpoint.tensors,
            checkpoint.stamp,
            license=checkpoint.license,
        )
        try:
            api.create_repo(repo, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo, folder_path=folder, revision=revision, commit_message=commit_message
            )
        except Exception as error:
            raise explained(error, Request(repo)) from error
    return str(commit.commit_url)
