"""What a Dockerfile says, done step by step in folders of this machine, without Docker.

Each stage is a folder that begins as a copy of a base; its commands run in it by chroot, in mount
namespaces of their own.  It takes root, Debian's debootstrap, and a Python to be copied.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

from testing.prefect_server import PROJECT

#: A process and all that it starts: the first one's end is the end of all, as in a container.
OWN = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
MIRROR = "http://deb.debian.org/debian"
LEFT_OUT = shutil.ignore_patterns("__pycache__")  # as Dockerfile.dockerignore says
#: What the network of this machine needs, which a machine with Docker has from Docker.
OF_NETWORK = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs")
LIBRARIES = (
    "libssl3,libsqlite3-0,liblzma5,libffi8,libbz2-1.0,zlib1g,libuuid1,libreadline8,libncursesw6,"
    "libexpat1,ca-certificates,netbase,tzdata"
)

#: The build's own way to packages, of the machine.
KEPT = ("PIP_CERT", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy")


def make_base(folder, python):
    """Make what python:3.12-slim-bookworm is: Debian's smallest system, and a Python in it."""
    if not (folder / "etc/debian_version").exists():
        words = ["debootstrap", "--variant=minbase", f"--include={LIBRARIES}"]
        subprocess.run([*words, "bookworm", str(folder), MIRROR], check=True)
    home = Path(python).resolve().parents[1]
    (folder / "root").chmod(0o755)  # where a Python of this machine's root may lie
    if not (folder / f".{home}").exists():
        shutil.copytree(home, folder / f".{home}", symlinks=True)
        for name in ("python3", "python", "pip"):
            (folder / "usr/local/bin" / name).symlink_to(home / "bin" / name)
    for path in OF_NETWORK:
        subprocess.run(["cp", "-aT", "--remove-destination", path, f"{folder}{path}"], check=False)
    return folder


def instructions(text):
    """The instructions of a Dockerfile: their words, and what follows them."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


class Image:
    """A stage of a Dockerfile, as far as it was made."""

    def __init__(self, root):
        self.root, self.user, self.place = root, None, "/"
        self.environment = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"}
        self.entrypoint, self.cmd = [], []

    def process(self, words, read_only=False, scratch=(), more=None, **options):
        """Start a process in it: by its user, without capabilities where that is not root."""
        mounts = [f"mount --rbind {self.root} {self.root}"] + [
            f"mount -t tmpfs -o {rights} none {self.root}{folder}" for folder, rights in scratch
        ]
        if read_only:
            mounts.insert(1, f"mount -o remount,bind,ro {self.root}")
        mounts += [f"mount -t proc none {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        by = ""
        if self.user:
            owner, _, group = self.user.partition(":")
            by = (f"setpriv --reuid {owner} --regid {group or owner} --clear-groups --no-new-privs "
                  "--bounding-set -all --inh-caps -all ")  # fmt: skip
        inner = f"cd {self.place} && exec {by}{shlex.join(words)}"
        script = (
            f"set -e; {'; '.join(mounts)}; exec chroot {self.root} /bin/sh -c {shlex.quote(inner)}"
        )
        environment = self.environment | {"HOME": self.home()} | (more or {})
        return subprocess.Popen([*OWN, "/bin/sh", "-c", script], env=environment, **options)

    def home(self):
        """The home folder of its user."""
        number = (self.user or "0").partition(":")[0]
        for line in (self.root / "etc/passwd").read_text().splitlines():
            fields = line.split(":")
            if fields[2] == number:
                return fields[5]
        return "/"

    def run(self, command):
        """Do what RUN says."""
        more = {name: value for name, value in os.environ.items() if name in KEPT}
        done = self.process(["/bin/sh", "-c", command], more=more)
        assert done.wait() == 0, command

    def copy(self, names, to, source):
        """Do what COPY says."""
        place = (
            self.root / to.lstrip("/") if to.startswith("/") else self.root / f".{self.place}/{to}"
        )
        many = len(names) > 1 or to.endswith("/")
        for name in names:
            at = source / name.lstrip("/")
            target = place / at.name if many else place
            target.parent.mkdir(parents=True, exist_ok=True)
            if at.is_dir():
                shutil.copytree(at, target, symlinks=True, ignore=LEFT_OUT, dirs_exist_ok=True)
            else:
                shutil.copy2(at, target)


def build(text, folder, base):
    """Follow a Dockerfile's instructions; the last stage.  What was made before is not made again."""
    stages, image, made = {}, None, (folder / "made-whole").exists()
    for word, rest in instructions(text):
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            image = stages[name] = Image(folder / name)
        if not made:
            sys.stdout.write(f"{textwrap.shorten(f'{word} {rest}', 100)}\n")
            sys.stdout.flush()
            _make(word, rest, image, stages, base)
        _note(word, rest, image)
    (folder / "made-whole").touch()
    return image


def _make(word, rest, image, stages, base):
    if word == "FROM":
        subprocess.run(["cp", "-a", str(base), str(image.root)], check=True)
    elif word == "WORKDIR":
        (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "RUN":
        image.run(rest)
    elif word == "COPY":
        *names, to = rest.split()
        source = PROJECT
        if names[0].startswith("--from="):
            source = stages[names.pop(0).partition("=")[2]].root
        image.copy(names, to, source)


def _note(word, rest, image):
    if word == "ENV":
        for each in shlex.split(rest):
            key, _, value = each.partition("=")
            image.environment[key] = value.replace("$PATH", image.environment["PATH"])
    elif word == "WORKDIR":
        image.place = rest
    elif word == "USER":
        image.user = rest
    elif word in ("ENTRYPOINT", "CMD"):
        setattr(image, word.lower(), json.loads(rest))
    else:
        assert word in ("FROM", "RUN", "COPY", "LABEL"), word
