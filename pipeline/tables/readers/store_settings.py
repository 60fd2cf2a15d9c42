"""Settings of an object store, in the words of libraries that reach it without fsspec."""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.errors import BadInput

#: Settings of s3fs, and what the environment calls them, as all libraries of that store do.
_NAMES = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
}


def as_environment(store: Any) -> dict[str, str]:
    """Return the settings that a file system of fsspec was made with, as the environment has them.

    Raises
    ------
    BadInput
        A setting that has no other name.
    """
    given = dict(getattr(store, "storage_options", None) or {})
    given |= given.pop("client_kwargs", None) or {}
    given = {name: value for name, value in given.items() if value not in (None, False)}
    unknown = [name for name in given if name not in _NAMES and name != "auto_mkdir"]
    if unknown:
        raise BadInput(
            f"The library of such tables has no storage option like {unknown[0]!r}. Known are "
            f"{', '.join(_NAMES)}; set others in the environment."
        )
    settings = {_NAMES[name]: str(value) for name, value in given.items() if name in _NAMES}
    if settings.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        settings["AWS_ALLOW_HTTP"] = "true"
    return settings
