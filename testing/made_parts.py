"""Parts of pages that a program makes, between marks."""


def with_part(page: str, name: str, part: str) -> str:
    """Return the page with that part anew: what is between `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{part}{end}{rest.partition(end)[2]}"
