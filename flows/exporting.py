"""`fewpass export`."""

from __future__ import annotations

from fewpass.flows.display.console import Terminal, facts_table
from fewpass.flows.options import Output
from fewpass.pipeline.models.export.export_formats import export
from fewpass.pipeline.models.export.plain_model import of_run
from fewpass.pipeline.sizes import format_bytes


def run_export(run: str, out: str, overwrite: bool, output: Output) -> int:
    """Write a run's model, and report."""
    terminal = Terminal(output)
    model = of_run(run)
    size = export(model, out, overwrite=overwrite)
    classes = None if model.classes is None else len(model.classes)
    facts = {
        "output": out,
        "loss": model.loss,
        "features": model.coef.shape[1],
        "classes": classes,
        "bytes": size,
    }
    shown = {
        "in": out,
        "model": f"loss {model.loss}, lam {model.lam:.6g}",
        "takes": f"{model.coef.shape[1]} features",
        "gives": "numbers" if classes is None else f"one of {classes} labels",
        "size": format_bytes(size),
    }
    terminal.result(facts, facts_table("Exported", shown))
    return 0
