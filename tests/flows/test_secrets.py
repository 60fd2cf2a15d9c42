"""Secrets in the address of a source open it, and are nowhere else: in no file, in no output."""

import base64
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest import phases
from fewpass.pipeline.tables.ingest.mapping import RowMapper
from fewpass.pipeline.tables.ingest.writing import GroupWriter
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.lines import first_lines
from fewpass.storage.addresses import BadAddress
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.redaction import without_secrets

SECRET, RENEWED = "canary-51d8", "canary-92ee"
TEXT = "".join(f"{k % 2} 1:{k % 7} 2:{k % 5 - 2}\n" for k in range(2000)).encode()
FILES = {"/x.svm": TEXT, "/bad.svm": b"1 1:2\nno row at all\n", "/broken.svm": TEXT}
KINDS = ("token", "password")
pytestmark = pytest.mark.timeout(120)


class Handler(BaseHTTPRequestHandler):
    """Files for those who bring the token or the password, in ranges."""

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, *, body):
        asked = urlsplit(self.path)
        content = FILES.get(asked.path)
        if not self.is_known(asked.query) or content is None:
            self.send_error(404 if self.is_known(asked.query) else 403)
            return
        if asked.path == "/broken.svm" and body:
            self.send_error(500, f"broken: {self.path}")
            return
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(span[1]), int(span[2]) + 1) if span else (0, len(content))
        part = content[start:stop]
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Accept-Ranges", "bytes")
        if span:
            end = start + len(part) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.end_headers()
        if body:
            self.wfile.write(part)

    def is_known(self, query):
        tokens = parse_qs(query).get("token", [""])
        kind, _, told = self.headers.get("Authorization", "").partition(" ")
        password = base64.b64decode(told).decode().partition(":")[2] if kind == "Basic" else ""
        return bool({SECRET, RENEWED} & {*tokens, password})

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def host():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def address(host, kind, name="x.svm", secret=SECRET):
    if kind == "token":
        return f"http://{host}/{name}?token={secret}&X-Amz-Signature={secret}#{secret}"
    return f"http://user:{secret}@{host}/{name}"


def assert_nowhere(folder, *said):
    """No file and no line has a secret, as it is or as a header would carry it."""
    secrets = [s.encode() for s in (SECRET, RENEWED)]
    secrets += [base64.b64encode(b"user:" + s).rstrip(b"=")[:-2] for s in secrets]
    for path in folder.rglob("*"):
        if path.is_file():
            assert not any(s in path.read_bytes() for s in secrets), path
    for text in said:
        assert not any(s in text.encode() for s in secrets), text


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_in_no_file_and_in_no_line(kind, host, tmp_path, capfd):
    url = address(host, kind)
    data, run, out = (str(tmp_path / name) for name in ("data", "run", "scores.csv"))
    loud = ["--verbose", "--debug"]
    for words in (
        ["ingest", url, data, *loud],
        ["ingest", url, data, *loud],  # done already
        ["ingest", url, data, "--dry-run"],
        ["ingest", url, data, "--dry-run", "--json"],
        ["inspect", data, "--json"],
        ["train", data, run, "--scheduler", "none", "--memory", "97MB", *loud],
        ["predict", run, url, out, *loud],
        ["report", run, *loud],
        ["check", data],
    ):
        assert main(words) == 0, capfd.readouterr().err
    assert Dataset.open(data).manifest.sources[0].name == f"http://{host}/x.svm"
    said = capfd.readouterr()
    assert f"http://{host}/x.svm" in said.out
    assert_nowhere(tmp_path, said.out, said.err)


@pytest.mark.parametrize("kind", KINDS)
def test_what_fails_tells_no_secret(kind, host, tmp_path, capfd):
    made = str(tmp_path / "data")
    url = address(host, kind)
    config = tmp_path / "plan.toml"
    for words, status in (
        (["ingest", address(host, kind, "absent.svm"), made], 2),
        (["ingest", address(host, kind, "*.svm"), made], 1 if kind == "token" else 2),
        (["ingest", address(host, kind, "bad.svm"), made], 2),
        (["ingest", address(host, kind, "bad.svm"), made, "--on-bad-row", "skip"], 2),
        (["ingest", address(host, kind, "broken.svm"), made], 1),
        (["ingest", url.replace(host, "127.0.0.1:9"), made], 2),
        (["ingest", f"simplecache::{url}", made], 2),
        (["ingest", url.replace("http", "ftp"), made], 2),
        (["ingest", url, url.replace("http", "s3")], 2),
        (["ingest", url, made, "--like", url], 2),
        (["ingest", url, made, "--no-such-option", url], 2),
        (["ingest", url, made, "--format", url], 2),
        (["ingest", url, made, "--seed", url], 2),
        (["train", address(host, kind, "bad.svm"), made], 2),
        (["train", url, made, "--dry-run", "--start-from", url], 2),
        (["train", made, url, "--held-out", url, "--verbose"], 2),
        (["train", made, made, "--scheduler", url], 2),
        (["resume", url], 2),
        (["inspect", url], 2),
        (["check", url], 0 if kind == "token" else 1),
        (["predict", url, url, url], 2),
        (["dashboard", url], 2),
    ):
        found = main([*words, "--debug"])
        said = capfd.readouterr()
        assert_nowhere(tmp_path, said.out, said.err)
        assert found == status, (words, said.err)
        assert said.err or said.out or status == 0
    config.write_text(f'start_from = "{url}"\n')
    assert main(["train", made, made, "--config", str(config)]) == 2
    assert_nowhere(tmp_path / "data", *capfd.readouterr())


@pytest.mark.parametrize("flow", ["ingest", "predict", "refresh"])
def test_flows_refuse_secrets_before_prefect_keeps_them(flow, host, tmp_path, capfd):
    from fewpass.flows.orchestration.command import run_flow

    url = address(host, "token")
    words = {
        "ingest": (f"sources={url}", f"dataset={tmp_path}/data"),
        "predict": (f"run={tmp_path}/run", f"inputs={url}", f"out={tmp_path}/out.csv"),
        "refresh": (f"sources={url}", f"store={tmp_path}/store"),
    }
    assert run_flow(flow, words[flow]) == 2
    said = capfd.readouterr()
    assert "carries a password, a token or a query" in said.err
    assert_nowhere(tmp_path, said.out, said.err)


@pytest.mark.parametrize("kind", KINDS)
def test_an_ingest_goes_on_with_a_renewed_secret(kind, host, tmp_path, monkeypatch):
    def plan(secret):
        source = address(host, kind, secret=secret)
        return IngestPlan(sources=(source,), dataset=str(tmp_path / "data"))

    def cut_short(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Budget, "retained", 0)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
        patched.setattr(GroupWriter, "write", cut_short)
        phases.ingest(plan(SECRET))
    assert_nowhere(tmp_path)
    mapped = list(tmp_path.rglob("mapped.json"))
    assert len(mapped) == 1
    with monkeypatch.context() as patched:
        patched.setattr(RowMapper, "map", cut_short)  # what was read is taken up
        assert phases.ingest(plan(RENEWED)).rows == 2000
    assert phases.ingest(plan(SECRET)).rows == 2000  # done already
    assert_nowhere(tmp_path)


def test_errors_of_a_store_keep_no_cause_that_tells(host):
    for name in ("absent.svm", "broken.svm"):
        with pytest.raises(OSError) as caught:
            for found in find([address(host, "token", name)]):
                first_lines(found, longest=1 << 20)
        assert SECRET not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://user:S@host/x.svm", "http://host/x.svm"),
        ("https://S@host:8080/x.svm", "https://host:8080/x.svm"),
        ("https://host/x.svm?token=S", "https://host/x.svm"),
        ("https://host/x.svm#S", "https://host/x.svm"),
        ("HTTPS://host/x.svm?S", "HTTPS://host/x.svm"),
        ("http://[::1]:80/x?S", "http://[::1]:80/x"),
        ("s3://KEY:S@bucket/x", "s3://bucket/x"),
        ("s3://KEY:S/S+@bucket/x", "s3://..."),
        ("http://user:S#S@host/", "http://..."),
        ("http://user:S?S@host/", "http://..."),
        ("simplecache::http://user:S@host/x", "simplecache::http://host/x"),
        ("zip://a::http://user:S@host/x", "zip://..."),
        ("abfs://box@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x"),
        ("abfs://box:S@account/x?sig=S", "abfs://account/x"),
        ("s3://bucket/part-?.csv", "s3://bucket/part-?.csv"),
        ("tcp://10.0.0.5:8786", "tcp://10.0.0.5:8786"),
        ("memory://a/b?c", "memory://a/b?c"),
        ("/a/b?c=d@e#f", "/a/b?c=d@e#f"),
    ],
)
def test_addresses_are_told_without_secrets(address, told):
    assert without_secrets(address) == told
    assert without_secrets(told) == told
    assert without_secrets(f"Not at '{address}', nor {address}.") == f"Not at '{told}', nor {told}."


def test_places_to_keep_things_carry_no_secret():
    for url in ("https://S@host/x", "https://host/x?token=S", "s3://KEY:S@bucket/x"):
        with pytest.raises(BadAddress, match="carries a password") as refused:
            Folder(url)
        assert "S@" not in str(refused.value)
        assert "=S" not in str(refused.value)
