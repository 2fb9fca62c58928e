"""A Hub on loopback: the HTTP routes that huggingface_hub's client calls, and their faults."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]


@dataclass
class Repo:
    """A repo: branches to commits, commits to files; `token` opens it if it is gated or private."""

    refs: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)
    gated: bool = False
    private: bool = False
    token: str = "hf_secret"

    def commit(self, files: Files, branch: str = "main") -> str:
        """Add a commit and move the branch to it."""
        digest = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[digest] = files
        self.refs[branch] = digest
        return digest


@dataclass
class Hub:
    """The server's state.

    Args:
        url: Where it listens.
        repos: By id.
        log: Each request, as `METHOD /path`.
        down: Answer every request with 503.
        truncate: Paths inside repos whose body breaks off half way.
    """

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    down: bool = False
    truncate: set[str] = field(default_factory=set)

    def repo(self, name: str, files: Files, **options: object) -> str:
        """Make a repo of one commit, and return it."""
        self.repos[name] = Repo(**options)
        return self.repos[name].commit(files)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *arguments: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.route()

    def do_GET(self) -> None:
        self.route()

    def do_POST(self) -> None:
        self.route()

    def route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.log.append(f"{self.command} {path}")
        if self.hub.down:
            return self.answer(503, b"")
        for pattern, method in ROUTES:
            match = re.fullmatch(pattern, path)
            if match:
                return method(self, **match.groupdict())
        return self.answer(404, b"no such route")

    def answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def say(self, data: object) -> None:
        self.answer(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def refuse(self, status: int, code: str, commit: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code}
        self.answer(status, b"", {**headers, "X-Repo-Commit": commit} if commit else headers)

    def opened(self, name: str, rev: str) -> tuple[str, Files] | None:
        """Return commit and files, or answer with an error and return None."""
        repo = self.hub.repos.get(name)
        allowed = repo and self.headers.get("Authorization") == f"Bearer {repo.token}"
        if repo is None or (repo.private and not allowed):
            return self.refuse(401, "RepoNotFound")
        if repo.gated and not allowed and "/resolve/" in self.path:
            return self.refuse(403, "GatedRepo")
        commit = repo.refs.get(rev, rev)
        if commit not in repo.commits:
            return self.refuse(404, "RevisionNotFound")
        return commit, repo.commits[commit]

    def resolve(self, repo: str, rev: str, file: str) -> None:
        found = self.opened(repo, rev)
        if found is not None and file in found[1]:
            self.send_file(file, *found)
        elif found is not None:
            self.refuse(404, "EntryNotFound", found[0])

    def send_file(self, file: str, commit: str, files: Files) -> None:
        content = files[file]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        if self.command == "GET" and file in self.hub.truncate:
            self.answer(200, b"", {**headers, "Content-Length": str(len(content))})
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            self.answer(200, content, headers)

    def tree(self, repo: str, rev: str) -> None:
        found = self.opened(repo, rev)
        if found is not None:
            self.say(
                [
                    {"type": "file", "path": p, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
                    for p, c in found[1].items()
                ]
            )

    def create(self) -> None:
        wanted = json.loads(self.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        private = wanted.get("private") or wanted.get("visibility") == "private"
        self.hub.repos[name] = Repo(private=bool(private))
        self.hub.repos[name].commit({})
        self.say({"url": f"{self.hub.url}/{name}", "id": name})

    def preupload(self, repo: str, rev: str) -> None:
        wanted = json.loads(self.body)["files"]
        self.say(
            {
                "files": [
                    {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for file in wanted
                ]
            }
        )

    def commit(self, repo: str, rev: str) -> None:
        lines = [json.loads(line) for line in self.body.splitlines()]
        files = {
            line["value"]["path"]: base64.b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        digest = self.hub.repos[repo].commit(files, rev)
        url = f"{self.hub.url}/{repo}/commit/{digest}"
        self.say({"commitUrl": url, "commitOid": digest, "success": True})

    def validate(self) -> None:
        self.say({"errors": [], "warnings": []})


REPO = r"(?P<repo>[\w.-]+/[\w.-]+)"
ROUTES = (
    (rf"/{REPO}/resolve/(?P<rev>[^/]+)/(?P<file>.+)", Handler.resolve),
    (rf"/api/models/{REPO}/tree/(?P<rev>[^/]+)", Handler.tree),
    (rf"/api/models/{REPO}/preupload/(?P<rev>[^/]+)", Handler.preupload),
    (rf"/api/models/{REPO}/commit/(?P<rev>[^/]+)", Handler.commit),
    (r"/api/repos/create", Handler.create),
    (r"/api/validate-yaml", Handler.validate),
)


@contextmanager
def running() -> Iterator[Hub]:
    """Run a Hub on a free port of loopback."""
    hub = Hub()
    handler = type("BoundHandler", (Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
