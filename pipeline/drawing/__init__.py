"""Charts as SVG, and escaped text for HTML, Markdown, JSON and terminals."""
