"""Documents changed by someone who knows how they are sealed."""

from collections.abc import Callable
from typing import Any

from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal


def forge(folder: Folder, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest in place, and seal it anew."""
    document = unseal(folder.read("manifest.json"))
    del document["fingerprint"]
    change(document)
    folder.write("manifest.json", seal(document))
