"""What a Prefect server checks of a flow's parameters, before a run is made and anything is kept.

Prefect makes a form of a flow's signature.  Two things are added that our command line refuses,
too: names that the flow does not have, and addresses with a password, a token or a query, which the
server would store with the run.
"""

from __future__ import annotations

from typing import Any

from prefect.utilities.callables import parameter_schema

from fewpass.flows.orchestration.requests import Request, docstring_of, signature_of

_REST = r'[^\s"<>]*'
_AUTHORITY = r'[^\s"<>/]*'
_ANY = r"(?<![A-Za-z0-9+.-])(?!(?:file|local|memory)://)[A-Za-z][A-Za-z0-9+.-]*://"
#: As `fewpass.storage.redaction` finds them.
SECRETS = (
    rf"{_ANY}{_AUTHORITY}:{_AUTHORITY}@",  # a user and a password
    rf'{_ANY}[^\s"<>/@:\[\]]*:(?!\d*(?:[/\s"<>]|$))',  # a password with a slash in it
    rf"(?:https?|s3a?|gs|gcs)://{_AUTHORITY}@",  # a key alone
    rf"https?://{_REST}[?#]",  # a query or a fragment
    rf"{_ANY}{_REST}\?[\w.-]+=",
)
WITHOUT_SECRETS = rf"^(?![\s\S]*(?:{'|'.join(SECRETS)}))"


def form_of(request: Request) -> dict[str, Any]:
    """Return the JSON schema of a flow's parameters, for a server to refuse what we would."""

    def flow() -> None:
        """Stand in for the flow, which need not be imported."""

    flow.__signature__ = signature_of(request)  # type: ignore[attr-defined]
    flow.__doc__ = docstring_of(request)
    form: dict[str, Any] = _without_secrets(parameter_schema(flow).model_dump_for_openapi())
    return form | {"additionalProperties": False}


def _without_secrets(part: Any) -> Any:
    """Return a part of a schema in which no text may have a secret."""
    if isinstance(part, list):
        return [_without_secrets(one) for one in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _without_secrets(one) for name, one in part.items()}
    is_free = inner.get("type") == "string" and not inner.keys() & {"const", "enum", "pattern"}
    return inner | {"pattern": WITHOUT_SECRETS} if is_free else inner
