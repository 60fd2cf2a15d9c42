"""What a page says, with nothing in it that runs, loads anything, or stays open."""

from html.parser import HTMLParser

VOID = {"meta", "circle", "path", "polyline", "img", "br", "hr"}
BARRED = {"script", "img", "a", "iframe", "object", "embed", "link", "base", "form", "input"}
PICTURE = "data:image/svg+xml;base64,"


class Page(HTMLParser):
    """Counts pictures that are part of the page, keeps the text, and refuses what it should not have."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images, self.text = 0, ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag, or a picture that needs no other file."""
        named = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img" and str(named.get("src")).startswith(PICTURE):
            self.images += 1
            return
        assert tag not in BARRED, (tag, attrs)
        assert not [name for name in named if name.startswith("on") or name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        """Close the last tag that is open."""
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep what is read."""
        self.text += data
