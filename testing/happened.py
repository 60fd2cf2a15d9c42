"""Events of a training, made by hand."""

from fewpass.pipeline.runs.events import KINDS, Event


def happened(kind, cursor, **facts):
    """The event of a kind; TypeError where the facts are another's."""
    return Event(KINDS[kind](**facts), cursor)
