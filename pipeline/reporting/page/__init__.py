"""A run on one page of HTML that needs nothing beside itself: no script, no font, no address."""
