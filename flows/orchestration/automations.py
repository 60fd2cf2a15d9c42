"""Puts an automation on a server, or leaves the one that is there as it is."""

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore


def put_automation(client: SyncPrefectClient, wanted: AutomationCore) -> None:
    """Make an automation, or bring the one of that name up to date; one that is paused stays so.

    What is up to date is left alone: a server counts anew for an automation that is written, and
    runs that had fallen silent before would never be noticed.
    """
    existing = client.find_automation(wanted.name)
    if existing is None:
        client.create_automation(wanted)
        return
    wanted = wanted.model_copy(update={"enabled": existing.enabled})
    if existing.model_dump(include=set(AutomationCore.model_fields)) != wanted.model_dump():
        client.update_automation(existing.id, wanted)
