"""Text in blocks, hashed to sparse rows: python examples/text_corpus.py [DOCUMENTS]"""

import sys

import numpy as np
from dask import delayed
from sklearn.feature_extraction.text import HashingVectorizer

from pipeline import LinearClassifier, ScoreCalibrator

n_documents = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
BLOCKS = 8
SPORT = ["goal", "team", "match", "season", "coach", "league", "player", "win", "cup"]
MONEY = ["market", "bank", "share", "price", "rate", "fund", "trade", "profit", "debt"]
SPACE = ["orbit", "moon", "launch", "rocket", "star", "planet", "probe", "crew", "mission"]
TOPICS = {"sport": SPORT, "money": MONEY, "space": SPACE}
COMMON = ["the", "a", "of", "and", "to", "in", "is", "on", "for", "with", "as", "was", "new"]
hashed = HashingVectorizer(n_features=1 << 16)


def corpus(block):
    """Documents of one block and their topics."""
    rng = np.random.default_rng(block)
    topics = rng.choice(list(TOPICS), n_documents // BLOCKS)
    own = [rng.choice(TOPICS[topic], 3) for topic in topics]
    return [" ".join([*words, *rng.choice(COMMON, 20)]) for words in own], topics


blocks = [delayed(corpus, nout=2)(k) for k in range(BLOCKS)]
X = [delayed(hashed.transform)(documents) for documents, _ in blocks]
y = [topics for _, topics in blocks]

model = LinearClassifier(tol=1e-3, memory="256MB").fit(X[1:], y[1:])
print(f"{model.classes_}: {model.score(X[:1], y[:1]):.4f} of the documents not seen are right")

honest = ScoreCalibrator(model).fit(X[:1], y[:1])
(p,) = honest.predict_proba(hashed.transform(["the coach said the team will win the cup"]))
print({str(topic): round(float(q), 3) for topic, q in zip(model.classes_, p, strict=True)})
assert honest.predict(hashed.transform(["launch of a rocket to the moon"])) == ["space"]
