"""The Hugging Face hub, checked once before anything is downloaded: a one-line error within seconds.

Without this check, the libraries that download retry each file six times when there is no network.
"""

from pathlib import Path
from typing import Literal

from diver.core.settings import nearest
from diver.core.types import DiverError
from diver.recipe.data import POLICIES

PATIENCE = 10.0  # seconds to wait for a reply of the hub


class HubUnreachable(DiverError):
    """The hub cannot be reached."""


def newest_commit(
    name: str, kind: Literal["model", "dataset"], revision: str | None = None, key: str = ""
) -> str | None:
    """The commit of a repository that `revision` names; without a revision, the newest.

    With HF_HUB_OFFLINE set, it is the commit that was downloaded last, or None without a download.

    Raises:
        DiverError: the hub cannot be reached, lacks the repository or revision, or does not give this user access. The
            message begins with `key`, the setting that names the repository.
    """
    from huggingface_hub import HfApi
    from huggingface_hub import errors as E

    hub, subject, suggestion = HfApi(), f"{key} {name}".strip(), _meant(name, kind)
    try:
        info = hub.repo_info(name, repo_type=kind, revision=revision, timeout=PATIENCE)
        if info.gated:  # a gated data set is listed, but its files are not readable
            hub.auth_check(name, repo_type=kind)
        return info.sha
    except E.OfflineModeIsEnabled:
        return _downloaded_commit(name, kind, revision or "main")
    except E.GatedRepoError:
        page = f"{hub.endpoint}/{'datasets/' if kind == 'dataset' else ''}{name}"
        reason = f"is gated; request access at {page}, then log in (hf auth login, or HF_TOKEN)"
    except E.RepositoryNotFoundError:
        reason = f"the hub has no such {kind}, or it is private; check the name, or log in (hf auth login, or HF_TOKEN)"
    except E.RevisionNotFoundError:
        reason = f"has no revision {revision!r}; give a commit, a tag or a branch, or none for the newest"
    except E.HfHubHTTPError as error:
        reason = f"refused by the hub ({one_line(error)}); try again later"
    except ValueError:
        reason = f"is neither here nor a name that a {kind} on the hub could have (owner/name)"
    except Exception as error:  # the exception class depends on the HTTP library
        local = "a folder" if kind == "model" else "a .jsonl, .json, .csv or .parquet file"
        # A model of almost this name lies on this machine, so the name is probably misspelt: a dry run must not pass.
        raise (DiverError if suggestion else HubUnreachable)(
            f"{subject}: the hub ({hub.endpoint}) cannot be reached ({one_line(error)}); give {local} instead, or set "
            f"HF_HUB_OFFLINE=1 to use what was downloaded before{suggestion}"
        ) from None
    raise DiverError(f"{subject}: {reason}{suggestion}")


def download(name: str, revision: str | None = None) -> Path:
    """The local folder of a model on the hub, downloaded if it is missing. Raises what `newest_commit` raises."""
    from huggingface_hub import snapshot_download

    newest_commit(name, "model", revision)
    files = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
    return Path(snapshot_download(name, revision=revision, allow_patterns=files))


def _downloaded_commit(name: str, kind: str, revision: str) -> str | None:
    """The commit of a branch or tag when it was downloaded, by the layout of the cache; a commit is itself."""
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type=kind))
    reference = folder / "refs" / revision
    if reference.is_file():
        return reference.read_text().strip()
    return revision if (folder / "snapshots" / revision).is_dir() else None


def _meant(name: str, kind: str) -> str:
    """A hint at the local model that `name` most likely means: a bundled one, or a folder in the same place."""
    if kind == "dataset":
        return ""
    parent = Path(name).parent
    folders = [str(path) for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
    closest = nearest(name, [*POLICIES, *folders])
    return f"; did you mean {closest!r}?" if closest else ""


def one_line(error: BaseException) -> str:
    """The first two lines of an error's text as one, at most 300 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300].rstrip(".") or type(error).__name__
