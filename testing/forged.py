"""Documents changed by someone who knows how they are sealed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewpass.storage.folder import Folder
from fewpass.storage.seal import seal, unseal


def forge(folder: Folder, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest in place, and seal it anew."""
    document = unseal(folder.read("manifest.json"))
    del document["fingerprint"]
    change(document)
    folder.write("manifest.json", seal(document))


def forge_header(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a snapshot's file in place, and seal it anew."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = unseal(content[8:end].rstrip(b" "), 2)
    del header["__metadata__"]["fingerprint"]
    change(header)
    text = seal(header, depth=2)
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])
