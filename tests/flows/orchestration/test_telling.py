"""News for a server that may be slow or dead: nobody waits for it, and the newest wins."""

import threading
import time

from flows.orchestration.artifacts import artifact_key
from flows.orchestration.telling import NewestNews


def test_whoever_gives_never_waits_and_the_newest_wins():
    told, free = [], threading.Event()

    def tell(news):
        told.append(news)
        free.wait(30)  # a server that hangs

    news = NewestNews(tell, every_s=0.0)
    news.give(0)
    while not told:
        time.sleep(0.001)
    for number in range(1, 1000):
        news.give(number)
    assert told == [0]
    assert not news.flush(0.05)
    free.set()
    assert news.flush(30)
    assert told == [0, 999]


def test_the_end_is_told_without_waiting_for_the_next_turn():
    told = []
    news = NewestNews(told.append, every_s=3600.0)
    news.give("begun")
    assert news.flush(30)
    news.give("done")
    assert news.flush(30)
    assert told == ["begun", "done"]


def test_two_places_never_share_an_artifact():
    keys = {artifact_key(f"{place}/runs/nightly", "card") for place in ("/a", "/b", "s3://c")}
    assert len(keys) == 3
    assert all(key == key.lower() and key.replace("-", "").isalnum() for key in keys)
