"""Puts our work pool, deployments and automations on a server: `make deploy`, in one process.

The deployments are those of prefect.yaml, in which places, times and plans can be changed;
`prefect deploy --all` reads the same file.  This here starts one process in place of four, and
gives the server stricter forms (parameter_forms.py).  A schedule that was switched off on a
deployment's page stays so, unless prefect.yaml says whether it is active.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml  # type: ignore[import-untyped]
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.objects import ConcurrencyOptions, DeploymentSchedule
from prefect.events.schemas.automations import AutomationCore

from fewpass.flows.orchestration.automations import put_automation
from fewpass.flows.orchestration.parameter_forms import form_of
from fewpass.flows.orchestration.requests import REQUESTS, request_named
from fewpass.flows.orchestration.server import run_for_make
from fewpass.flows.orchestration.work_pool import make_work_pool
from fewpass.pipeline.errors import BadInput

KNOWN = {
    "name", "description", "entrypoint", "work_pool", "concurrency_limit", "parameters", "tags",
    "enforce_parameter_schema", "schedules", "paused",
}  # fmt: skip
OF_PARTS = {"work_pool": {"name"}, "concurrency_limit": {"limit", "collision_strategy"}}
OF_SCHEDULE = {"active", "slug", "max_scheduled_runs", "parameters"}
#: Schedules that somebody switched off, by the flow and the name of their deployments.
SwitchedOff = Mapping[tuple[UUID, str], list[DeploymentSchedule]]
VARIABLE = re.compile(r"\{\{\s*\$(\w+)\s*\}\}")


def deploy(home: Path) -> list[str]:
    """Make everything, or bring what is there up to date; return the deployments' names."""
    wanted = _filled_in(yaml.safe_load((home / "prefect.yaml").read_text()))
    deployments = [*map(_checked, wanted["deployments"])]
    with get_client(sync_client=True) as client:
        make_work_pool(client)
        off = _switched_off(client, [one["name"] for one in deployments])
        names = [_put(client, one, wanted["pull"], off) for one in deployments]
        for one in yaml.safe_load((home / "automation.yaml").read_text())["automations"]:
            put_automation(client, AutomationCore.model_validate(one))
    return names


def _filled_in(part: Any) -> Any:
    """Return a part of prefect.yaml with the environment's values; BadInput without one."""
    if isinstance(part, dict):
        return {name: _filled_in(one) for name, one in part.items()}
    if isinstance(part, list):
        return [_filled_in(one) for one in part]
    return VARIABLE.sub(_from_environment, part) if isinstance(part, str) else part


def _from_environment(match: re.Match[str]) -> str:
    value = os.environ.get(match[1])
    if not value:
        raise BadInput(f"prefect.yaml names {match[1]}, which the environment lacks. Set it.")
    return value


def _checked(one: dict[str, Any]) -> dict[str, Any]:
    """Return a deployment; BadInput where it has what only Prefect's own command understands."""
    parts = {name: one[name] for name in OF_PARTS if isinstance(one.get(name), dict)}
    unknown = [*(one.keys() - KNOWN)]
    unknown += [f"{n}.{key}" for n, part in parts.items() for key in part.keys() - OF_PARTS[n]]
    if unknown or _flow_of(one) not in REQUESTS:
        what = f'has "{min(unknown)}"' if unknown else "is of no flow of fewpass"
        raise BadInput(
            f"Deployment {one.get('name')} of prefect.yaml {what}. Put it there with prefect "
            "deploy, and keep it in a file of its own."
        )
    return one


def _flow_of(one: dict[str, Any]) -> str:
    """Return the name of a deployment's flow: that of its function, with hyphens."""
    return str(one.get("entrypoint", "")).rpartition(":")[2].replace("_", "-")


def _switched_off(client: SyncPrefectClient, names: list[str]) -> SwitchedOff:
    wanted = DeploymentFilter(name=DeploymentFilterName(any_=names))
    return {
        (there.flow_id, there.name): [one for one in there.schedules if not one.active]
        for there in client.read_deployments(deployment_filter=wanted)
    }


def _put(
    client: SyncPrefectClient, one: dict[str, Any], pull: list[dict[str, Any]], off: SwitchedOff
) -> str:
    """Make a deployment, or bring the one of its name up to date."""
    flow, limit = _flow_of(one), one.get("concurrency_limit")
    flow_id = client.create_flow_from_name(flow)
    strategy = limit.get("collision_strategy") if isinstance(limit, dict) else None
    client.create_deployment(
        flow_id=flow_id,
        name=one["name"],
        description=one.get("description"),
        entrypoint=one["entrypoint"],
        path=".",
        tags=one.get("tags"),
        work_pool_name=one["work_pool"]["name"],
        parameters=one.get("parameters"),
        parameter_openapi_schema=form_of(request_named(flow)),
        enforce_parameter_schema=one.get("enforce_parameter_schema", True),
        schedules=[*_schedules(one.get("schedules") or [], off.get((flow_id, one["name"]), ()))],
        concurrency_limit=limit["limit"] if isinstance(limit, dict) else limit,
        concurrency_options=ConcurrencyOptions(collision_strategy=strategy) if strategy else None,
        pull_steps=pull,
        paused=one.get("paused"),
    )
    return f"{flow}/{one['name']}"


def _schedules(
    given: list[dict[str, Any]], off: Sequence[DeploymentSchedule]
) -> Iterator[DeploymentScheduleCreate]:
    for one in given:
        own = {name: value for name, value in one.items() if name in OF_SCHEDULE}
        when = {name: value for name, value in one.items() if name not in OF_SCHEDULE}
        made = DeploymentScheduleCreate.model_validate({"schedule": when, **own})
        if "active" not in own and any(before.schedule == made.schedule for before in off):
            made = made.model_copy(update={"active": False})
        yield made


def main() -> int:
    """Deploy what the checkout has; the places come from the environment."""
    names = deploy(Path(os.environ.get("FEWPASS_HOME", ".")))
    sys.stdout.write("\n".join(names) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_for_make(main))
