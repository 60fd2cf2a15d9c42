"""Forms by which a Prefect server checks a flow's parameters before it makes a run.

Prefect makes a form of a flow's signature.  Two things are added that our command line refuses,
too: names that the flow does not have, and addresses with a password, a token or a query, which the
server would store with the run.  Fields keep the order of our plans.
"""

from __future__ import annotations

from typing import Any

from prefect.utilities.callables import parameter_schema

from fewpass.flows.orchestration.requests import Request, docstring_of, signature_of

_REST = r'[^\s"<>]*'
_AUTHORITY = r'[^\s"<>/]*'
_ANY = r"(?<![A-Za-z0-9+.-])(?!(?:file|local|memory)://)[A-Za-z][A-Za-z0-9+.-]*://"
_SERVER = r"postgres(?:ql)?://"
#: As `fewpass.storage.redaction` finds them.
SECRETS = (
    rf"{_ANY}{_AUTHORITY}:{_AUTHORITY}@",  # a user and a password
    rf'{_ANY}[^\s"<>/@:\[\]]*:(?!\d*(?:[/\s"<>]|$))',  # a password with a slash in it
    rf"(?:https?|s3a?|gs|gcs)://{_AUTHORITY}@",  # a key alone
    rf"https?://{_REST}[?#]",  # a query or a fragment
    rf"{_ANY}{_REST}\?[\w.-]+=",
    rf"{_SERVER}{_REST}(?:\?|/{_REST}@)",  # a query, or a password with a slash in it
    rf"{_SERVER}[^/]*[\s\"<>][^/]*@",  # a password with blanks or quotes in it
)
#: Settings whose default depends on the others.  Prefect's page gives all defaults of a form: one
#: pass would be asked for, with no tolerance.
DEPENDENT = ("tol", "passes", "memory", "streams")
WITHOUT_SECRETS = rf"^(?![\s\S]*(?:{'|'.join(SECRETS)}))"


def form_of(request: Request) -> dict[str, Any]:
    """Return the JSON schema of a flow's parameters, for a server to refuse what we would."""

    def flow() -> None:
        """Stand in for the flow, which need not be imported."""

    flow.__signature__ = signature_of(request)  # type: ignore[attr-defined]
    flow.__doc__ = docstring_of(request)
    form = _without_secrets(parameter_schema(flow).model_dump_for_openapi())
    ordered: dict[str, Any] = _in_order(form)
    return ordered | {"additionalProperties": False}


def _in_order(part: Any) -> Any:
    """Return a part of a schema whose fields say which comes first; dependent ones have no default.

    Prefect's page asks for that; Postgres keeps no order, and would begin with the shortest name.
    """
    if isinstance(part, list):
        return [_in_order(one) for one in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _in_order(one) for name, one in part.items()}
    fields = inner.get("properties")
    if isinstance(fields, dict) and "type" in inner:
        for place, field in enumerate(fields.values()):
            field["position"] = place
        for name in fields.keys() & set(DEPENDENT):
            fields[name].pop("default", None)
    return inner


def _without_secrets(part: Any) -> Any:
    """Return a part of a schema in which no text may have a secret."""
    if isinstance(part, list):
        return [_without_secrets(one) for one in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _without_secrets(one) for name, one in part.items()}
    if inner.get("type") != "string" or inner.keys() & {"const", "enum"}:
        return inner
    if "pattern" in inner:
        return inner | {"allOf": [{"pattern": WITHOUT_SECRETS}]}
    return inner | {"pattern": WITHOUT_SECRETS}
