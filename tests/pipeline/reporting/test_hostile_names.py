"""Names that are tags, links and marks stay names: on every route, page, card and in notebooks."""

import asyncio
import contextlib
import http.client
import json
import re
import threading

import pytest
from markdown_it import MarkdownIt

from fewpass import evaluate, ingest, train
from fewpass.flows.cli import main
from fewpass.pipeline.dashboard.routes import _serve, handlers
from fewpass.pipeline.drawing.safe_text import as_html, as_json, as_markdown
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.run_folder import RunFolder
from testing.html_pages import Page

NAMES = (
    "<img src=x onerror=alert(1)>",
    "\"'><svg onload=alert(1)>",
    "</script><script>alert(1)</script>",
    "[x](javascript:alert(1)) ![x](http://evil.example/x) `<b>`",
    "left\u202eright\u2066\x1b[31m",
    "| a | b |",
)


def text_of(html):
    assert not re.search("[\x1b\u202e\u2066]", html)
    return Page(html).text


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with such a name, of a data set with such a name, columns and labels."""
    folder = tmp_path_factory.mktemp("hostile") / "<img src=x onerror=alert(1)>\u202e" / "<script>"
    folder.mkdir(parents=True)
    quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
    lines = [",".join([*quoted, "y"])]
    lines += [
        ",".join([quoted[0 if k % 3 else 2], *(str(k * j % 7) for j in range(2, 7)), quoted[k % 2]])
        for k in range(60)
    ]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    data = ingest(folder / "rows.csv", folder / "data", label="y").dataset
    result = train(data, folder / "run", solver="sdca", passes=2, tol=1e-9)
    return data, result


def test_a_text_stays_a_text():
    for name in (*NAMES, "<" * 1_000_000):
        assert "<" not in as_html(name)
        assert '"' not in as_html(name)
        assert "<" not in as_markdown(name)
        assert "<" not in as_json({name: name})
        assert json.loads(as_json({name: [name, float("nan")]})) == {name: [name, None]}
        shown = MarkdownIt("commonmark").enable("table").render(f"# {as_markdown(name[:99])}")
        assert text_of(shown)


@pytest.mark.parametrize("name", ["# rooms", "#", "1. class", "12)", "- x", "+", "-", "---", "-1"])
def test_a_name_that_begins_like_a_heading_or_a_list_is_none(name):
    assert Page(MarkdownIt("commonmark").render(as_markdown(name))).text.strip() == name


def test_the_report_page_the_card_and_notebooks(made):
    data, result = made
    page = RunFolder(result.run).folder
    assert main(["report", result.run, "--html", "-q"]) == 0
    text = text_of(page.read("report/report.html").decode())
    assert "<img src=x onerror=alert(1)>" in text
    assert "</script><script>alert(1)</script>" in text
    assert "<script>" in text_of(result._repr_html_())
    card = model_card(RunFolder(result.run), {data: evaluate(result.run, data)})
    shown = text_of(MarkdownIt("commonmark").enable("table").render(card))
    assert all(name in shown for name in NAMES if name.isprintable())


@pytest.fixture(scope="module")
def server(made):
    """The dashboard's own server, for this run and a damaged one; yields its port."""
    ready, found = threading.Event(), {}

    async def serve():
        found["loop"], found["task"] = asyncio.get_running_loop(), asyncio.current_task()
        with contextlib.suppress(asyncio.CancelledError):
            await _serve((made[1].run,), 0, tell)

    def tell(address):
        found["port"] = int(re.search(r":(\d+)/", address)[1])
        ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    yield found["port"]
    found["loop"].call_soon_threadsafe(found["task"].cancel)
    thread.join()


def ask(port, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


ROUTES = [route for route, *_ in handlers()]


@pytest.mark.parametrize("route", ["/", "/nowhere/<script>", *ROUTES])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_every_route_says_what_it_sends(server, route, method):
    status, headers, text = ask(server, route, method)
    assert status < 500
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
    if method != "GET":
        assert status in (404, 405)
    if headers["Content-Type"].startswith("text/html") and route != "/fewpass":
        assert "<img" not in text
        assert "<script" not in text


def test_a_view_is_json_and_names_are_not_tags(server, made):
    status, headers, text = ask(server, "/fewpass/view.json?which=0")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    assert not set("<>&") & set(text)
    told = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert told["run"] == made[1].run
    assert not re.search("<(img|script)", told["html"])
    assert "\u202e" not in told["facts"]  # which is shown as text
    status, headers, text = ask(server, "/fewpass/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("9" * 5000, 400), ("-1", 400), ("1e3", 400), ("", 400), ("%00", 400), ("%ff", 400),
        ("\u0663".encode().hex(" ").replace(" ", "%").join(["%", ""]), 400),
        ("<script>alert(1)</script>".replace("<", "%3C"), 400), ("1", 404), ("999999", 404),
    ],
)  # fmt: skip
def test_what_is_asked_for_wrongly_is_refused(server, asked, status):
    found, _, text = ask(server, f"/fewpass/view.json?which={asked}")
    assert found == status
    assert "<script" not in text
    assert "Traceback" not in text


def test_the_pages_own_script_may_run_and_no_other(server):
    import base64
    import hashlib

    _, headers, text = ask(server, "/fewpass")
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in headers["Content-Security-Policy"]
    assert not re.search(r"<[^>]* on\w+=", text)
