"""An object store that speaks enough of S3 for a table: one bucket, in memory, that lets everybody in.

What Delta relies on is here: a put that fails where the object exists already (`If-None-Match: *`), whole objects or
none, listing that shows what was put. Signatures are not looked at.
"""

import hashlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape, unescape

BUCKET = "lake"


class Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.upload_ids = count(1)
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: ClassVar = Bucket()

    def do_GET(self) -> None:
        key, query = self._asked()
        if not key:
            self._list(query)
            return
        whole = self.bucket.objects.get(key)
        if whole is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        headers = {"ETag": _etag(whole), "Last-Modified": formatdate(usegmt=True), "Content-Type": "binary"}
        range_ = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if range_ is None:
            self._answer(200, whole, headers)
            return
        first, last = range_.groups()
        begin = int(first) if first else len(whole) - int(last)
        end = min(int(last) + 1, len(whole)) if first and last else len(whole)
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(whole)}"
        self._answer(206, whole[begin:end], headers)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        key, query = self._asked()
        body = self._body()
        with self.bucket.lock:
            if "uploadId" in query:
                self.bucket.uploads[query["uploadId"]][int(query["partNumber"])] = body
            elif self.headers.get("If-None-Match") == "*" and key in self.bucket.objects:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            else:
                self.bucket.objects[key] = body
        self._answer(200, b"", {"ETag": _etag(body)})

    def do_POST(self) -> None:
        key, query = self._asked()
        body = self._body()
        with self.bucket.lock:
            if "delete" in query:
                keys = [unescape(found) for found in re.findall("<Key>(.*?)</Key>", body.decode())]
                for each in keys:
                    self.bucket.objects.pop(each, None)
                told = "".join(f"<Deleted><Key>{escape(each)}</Key></Deleted>" for each in keys)
                answer = f"<DeleteResult>{told}</DeleteResult>"
            elif "uploads" in query:
                upload_id = str(next(self.bucket.upload_ids))
                self.bucket.uploads[upload_id] = {}
                answer = (
                    f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key>"
                    f"<UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
                )
            else:
                parts = self.bucket.uploads.pop(query["uploadId"])
                whole = self.bucket.objects[key] = b"".join(parts[number] for number in sorted(parts))
                answer = f"<CompleteMultipartUploadResult><ETag>{_etag(whole)}</ETag></CompleteMultipartUploadResult>"
        self._answer(200, answer.encode())

    def do_DELETE(self) -> None:
        key, query = self._asked()
        with self.bucket.lock:
            if "uploadId" in query:
                self.bucket.uploads.pop(query["uploadId"], None)
            else:
                self.bucket.objects.pop(key, None)
        self._answer(204, b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _asked(self) -> tuple[str, dict[str, str]]:
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        assert bucket == BUCKET, self.path
        query = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        return key, query

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("start-after", "")
        told, common = [], set()
        for key, body in sorted(self.bucket.objects.items()):
            if not key.startswith(prefix) or key <= after:
                continue
            inner, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if found:
                common.add(prefix + inner + delimiter)
                continue
            told.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-15T12:00:00.000Z</LastModified>"
                f"<ETag>{escape(_etag(body))}</ETag><Size>{len(body)}</Size></Contents>"
            )
        told += [f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in sorted(common)]
        answer = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(told)}</ListBucketResult>"
        self._answer(200, answer.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class ObjectStore(NamedTuple):
    """One that runs in a process of its own: Delta's file system lets no other thread run while it waits for us."""

    address: str

    @property
    def options(self) -> dict[str, str]:
        """What opens it."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "here",
            "AWS_ACCESS_KEY_ID": "anybody",
            "AWS_SECRET_ACCESS_KEY": "anything",
        }

    def keys(self) -> set[str]:
        """Of all objects that are there."""
        with urlopen(f"{self.address}/{BUCKET}?list-type=2") as answer:
            return {unescape(key) for key in re.findall("<Key>(.*?)</Key>", answer.read().decode())}

    def put(self, key: str, body: bytes) -> None:
        with urlopen(Request(f"{self.address}/{BUCKET}/{key}", body, method="PUT")):
            pass


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ObjectStore(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
