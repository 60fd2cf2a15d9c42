"""The most important function of some tables' additive models, drawn into docs/figures.

    python -m benchmarks.additive_pictures FOLDER

FOLDER has the runs that `python -m benchmarks.tables --additive --folder FOLDER` trained.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fewpass.pipeline.drawing.charts import picture
from fewpass.pipeline.explaining.plain_shapes import importances
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.reporting.model_shapes import model_shapes
from fewpass.pipeline.reporting.shape_cards import curve
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.tables.encoding.additive_shapes import title_of

FIGURES = Path(__file__).parent.parent / "docs/figures"
#: Of each table the k-th most important function.
DRAWN = {"deliveries": 0, "taxi": 0, "ames": 0, "covid_result": 0}
CLASSES = {"covid_result": "positive"}  # whose scores are drawn


def main(folder: Path) -> None:
    """Draw one picture of each table that was trained."""
    for name, k in DRAWN.items():
        run = folder / "tables" / name / "run"
        if not run.exists():
            print(f"{name}: not trained")
            continue
        shapes = model_shapes(load_model(run_at(str(run))), CLASSES.get(name))
        title = importances(shapes)[k].name
        drawn = next(one for one in shapes.functions if title_of(one) == title)
        (FIGURES / f"additive-{name}.svg").write_text(picture(curve(drawn)))
        print(f"{name}: {title}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
