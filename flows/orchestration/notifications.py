"""Puts automations on a server that write to somebody: `make notify`.

    FEWPASS_WEBHOOK=https://... make notify    to an address that takes {"text": ...}, as chats do
    make notify BLOCK=slack-webhook/night-shift   through a notification block that is there

The address of a webhook is a secret: it comes from the environment, and Prefect keeps it encrypted.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from prefect import get_client
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from prefect.types import SecretDict

from fewpass.flows.orchestration.automations import put_automation
from fewpass.flows.orchestration.requests import REQUESTS
from fewpass.flows.orchestration.scheduled import KEPT_BACK, MISSED, REFUSED, WAITS
from fewpass.flows.orchestration.server import run_for_make
from fewpass.flows.orchestration.watching import STALLED
from fewpass.flows.orchestration.work_pool import NAME as POOL
from fewpass.pipeline.errors import BadInput

ADDRESS = "FEWPASS_WEBHOOK"
BLOCK = "fewpass"  # the name of the block that is made of it
#: The event's, as a run that is tried again has another state by then.
STATE_MESSAGE = "{{ event.payload.validated_state.message or '' }}"
#: A run's second crash, or failure, is no news: it is tried again, and its page has them all.
ONCE_A_DAY, AGAIN = timedelta(days=1), timedelta(minutes=1)
#: Starts of a run after which automation.yaml has it tried again, and after which no more.
TRIED, GIVEN_UP = ["[0-3]"], ["[4-9]", "[1-9][0-9]*"]
CRASHED = "prefect.flow-run.Crashed"
TRIED_AGAIN = "{% if flow_run.deployment_id %}\nIt goes on from its snapshot by itself.{% endif %}"
NO_WORKER = f"What is due waits until one is started: prefect worker start --pool {POOL}"


class About(NamedTuple):
    """Whose events are listened for."""

    kind: str  # as templates call it
    resource: dict[str, str | list[str]]
    related: dict[str, str | list[str]]

    def of_starts(self, count: list[str]) -> About:
        """Narrow it down to runs with such a number of starts."""
        return self._replace(resource=self.resource | {"prefect.run-count": count})


OUR_RUNS = About(
    "flow_run",
    {"prefect.resource.id": "prefect.flow-run.*"},
    {"prefect.resource.role": "flow", "prefect.resource.name": list(REQUESTS)},
)
OUR_POOL = About(
    "work_pool",
    {"prefect.resource.id": "prefect.work-pool.*", "prefect.resource.name": POOL},
    {},
)


class Note(NamedTuple):
    """A notification."""

    name: str
    event: str
    subject: str
    message: str = STATE_MESSAGE
    about: About = OUR_RUNS
    rest: timedelta = ONCE_A_DAY  # from one text about the same thing to the next one, at least


NOTES = (
    Note("failed", "prefect.flow-run.Failed", "failed"),
    Note("crashed", CRASHED, "crashed", f"{STATE_MESSAGE}{TRIED_AGAIN}", OUR_RUNS.of_starts(TRIED)),
    Note("given-up", CRASHED, "crashed, and is given up", about=OUR_RUNS.of_starts(GIVEN_UP)),
    Note("refused", f"prefect.flow-run.{REFUSED}", "was refused"),
    Note("tolerance-missed", f"prefect.flow-run.{MISSED}", "missed its tolerance"),
    Note("kept-back", f"prefect.flow-run.{KEPT_BACK}", "published no model"),
    Note("waits", f"prefect.flow-run.{WAITS}", "found an odd night, which waits"),
    Note("stalled", STALLED, "is stalled", "{{ event.payload.message }}", rest=AGAIN),
    Note("no-worker", "prefect.work-pool.not-ready", "has no worker", NO_WORKER, OUR_POOL, AGAIN),
)


def put_on_server(block: UUID) -> list[str]:
    """Make an automation of each note, or bring the one that is there up to date; their names."""
    with get_client(sync_client=True) as client:
        for note in NOTES:
            put_automation(client, _automation(note, block))
    return [_name(note) for note in NOTES]


def _name(note: Note) -> str:
    return f"fewpass-tell-{note.name}"


def _automation(note: Note, block: UUID) -> AutomationCore:
    trigger = EventTrigger(
        posture=Posture.Reactive,
        match=ResourceSpecification(note.about.resource),
        match_related=ResourceSpecification(note.about.related),
        for_each={"prefect.resource.id"},
        expect={note.event},
        threshold=1,
        within=note.rest,
    )
    kind = note.about.kind
    whose = kind.replace("_", " ")
    action = SendNotification(
        block_document_id=block,
        subject=f"{{{{ {kind}.name }}}} {note.subject}",
        body=f"{note.message}\n{{{{ {kind}|ui_url }}}}",
    )
    return AutomationCore(
        name=_name(note),
        description=f"Writes to somebody when a {whose} of fewpass {note.subject}.",
        trigger=trigger,
        actions=[action],
    )


def block_of_address(url: str) -> UUID:
    """Keep the address of a webhook on the server; return the block that it is in."""
    block = CustomWebhookNotificationBlock(
        name=BLOCK,
        url="{{url}}",
        json_data={"text": "{{subject}}\n{{body}}"},
        secrets=SecretDict({"url": url}),
        headers=None,
        cookies=None,
    )
    return UUID(str(block.save(BLOCK, overwrite=True)))


def block_of_name(client: SyncPrefectClient, slug: str) -> UUID:
    """Find a block by TYPE/NAME; BadInput where there is none."""
    kind, _, name = slug.partition("/")
    try:
        identity: UUID = client.read_block_document_by_name(name, kind).id
    except ObjectNotFound:
        raise BadInput(
            f'There is no block "{slug}". prefect block ls lists them, as TYPE/NAME.'
        ) from None
    return identity


def main() -> int:
    """Make the block and the automations of what the environment and the command line say."""
    url, slugs = os.environ.get(ADDRESS), sys.argv[1:]
    if bool(url) == bool(slugs):
        sys.stderr.write(
            f"Say where to write to: {ADDRESS}=https://... make notify, or make notify "
            "BLOCK=TYPE/NAME (prefect block ls).\n"
        )
        return 2
    if url:
        block = block_of_address(url)
    else:
        with get_client(sync_client=True) as client:
            block = block_of_name(client, slugs[0])
    sys.stdout.write("\n".join(put_on_server(block)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_for_make(main))
