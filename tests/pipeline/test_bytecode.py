"""Bytecode on disk where the interpreter writes none."""

import importlib
import importlib.util
import runpy
import sys

from fewpass.pipeline.compiling_ahead import keep_bytecode


def test_an_imported_module_is_kept_as_bytecode(tmp_path, monkeypatch):
    source = tmp_path / "of_this_test.py"
    source.write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module("of_this_test")
    kept = importlib.util.cache_from_source(str(source))
    assert not list(tmp_path.rglob("*.pyc"))
    assert keep_bytecode() >= 1
    assert [str(path) for path in tmp_path.rglob("*.pyc")] == [kept]
    assert keep_bytecode() == 0
    source.unlink()  # the bytecode alone says what the module is
    assert runpy.run_path(kept)["value"] == module.value
    del sys.modules["of_this_test"]
