"""A Dask bag of texts, hashed to sparse rows: python examples/text_corpus.py [DOCUMENTS]"""

import sys

import dask.bag as db
import numpy as np

from fewpass import LinearClassifier, ScoreCalibrator

n_documents = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
BLOCKS = 8
SPORT = ["goal", "team", "match", "season", "coach", "league", "player", "win", "cup"]
MONEY = ["market", "bank", "share", "price", "rate", "fund", "trade", "profit", "debt"]
SPACE = ["orbit", "moon", "launch", "rocket", "star", "planet", "probe", "crew", "mission"]
TOPICS = {"sport": SPORT, "money": MONEY, "space": SPACE}
COMMON = ["the", "a", "of", "and", "to", "in", "is", "on", "for", "with", "as", "was", "new"]


def corpus(block):
    """Documents of one block, each with its topic: what reading a file would give."""
    rng = np.random.default_rng(block)
    for topic in rng.choice(list(TOPICS), n_documents // BLOCKS):
        words = [*rng.choice(TOPICS[topic], 3), *rng.choice(COMMON, 20)]
        yield " ".join(words), str(topic)


def documents(blocks):
    """A bag of texts and a bag of their topics."""
    both = db.from_sequence(blocks, partition_size=1).map(corpus).flatten()
    return both.pluck(0), both.pluck(1)


held_out, topics = documents([0])
model = LinearClassifier(tol=1e-3).fit(*documents(range(1, BLOCKS)))
print(f"{model.classes_}: {model.score(held_out, topics):.4f} of the documents not seen are right")

honest = ScoreCalibrator(model).fit(held_out, topics)
news = db.from_sequence(["the coach said the team will win the cup", "launch of a rocket"])
(p, _) = honest.predict_proba(news).compute()
print({str(topic): round(float(q), 3) for topic, q in zip(model.classes_, p, strict=True)})
assert list(honest.predict(news).compute()) == ["sport", "space"]
