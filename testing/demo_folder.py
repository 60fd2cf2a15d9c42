"""What `make demo` leaves behind, at a small size: all that pages of the documentation work on."""

import os
import shutil

from fewpass.flows import cli

OPTIONS = ("--size", "2MB", "--memory", "128MB", "-q")


def after_the_demo(place):
    """Go through the demo in a folder, and return it."""
    assert cli.main(["demo", str(place / "demo-output"), *OPTIONS]) == 0
    return place


def copied(demo, place):
    """Return another folder in which the demo was, and nothing else has happened since."""
    shutil.copytree(demo / "demo-output", place / "demo-output", copy_function=os.link)
    return place
