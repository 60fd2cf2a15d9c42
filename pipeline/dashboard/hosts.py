"""Names by which a request may ask for this machine."""

from __future__ import annotations

import ipaddress

from tornado import web

#: What a page may load, run or be shown in, where it says nothing else.
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class OfThisMachine(web.RequestHandler):
    """Answers what comes over this machine's own interface only under this machine's own names.

    A page from elsewhere can have its name point to 127.0.0.1 and so have a browser read from here
    (DNS rebinding); what the browser asks for then is still that name.  Requests that come over the
    network are answered under any name: whoever opened the port to it meant them.
    """

    def set_default_headers(self) -> None:
        """Say that what is sent is what it is said to be, and that nothing in it may be run.

        Names of runs and errors are other people's words.  Errors are sent with these headers, too.
        """
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", NOTHING)
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    def prepare(self) -> None:
        """Refuse names that anybody could have pointed here."""
        if self._came_by_loopback() and not names_this_machine(self.request.host_name):
            raise web.HTTPError(403, reason="Ask for 127.0.0.1 or localhost")

    def _came_by_loopback(self) -> bool:
        stream = getattr(self.request.connection, "stream", None)
        if stream is None or stream.socket is None:
            return True
        return names_this_machine(stream.socket.getsockname()[0])


class Nothing(OfThisMachine):
    """Answers where there is no page."""

    def prepare(self) -> None:
        """Say so, whatever was asked."""
        super().prepare()
        raise web.HTTPError(404)


def names_this_machine(host: str) -> bool:
    """Return whether a request's host, its port taken off, is localhost or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
