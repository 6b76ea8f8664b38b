"""Ingests archives that servers give: one of Python with faults (cut connections, 503, slow bytes, a file that changes, no
ranges), nginx, which is killed meanwhile, and moto's S3. What arrives is the file or nothing.

    read_remote.py DLPIPE      (the program)
"""

import http.server
import io
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import numpy as np
from PIL import Image

from read_datasets import Dataset

DLPIPE = sys.argv[1]
SECRET = "wJalrXUtnFEMI/secret+key"
KEY_ID = "AKIAEXAMPLEKEYID"


def make_image(number):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(number).integers(0, 255, (40, 50, 3), np.uint8)).save(out, "JPEG")
    return out.getvalue()


def shard(begin, end, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for i in range(begin, end):
            for name, data in ((f"{i:05d}.jpg", make_image(i)), (f"{i:05d}.cls", str(i % 3).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Server:
    """Gives `files`; `faults` are taken one for each request, None for none. With `parts`, of which the first byte's is one, a
    file is read where it is. No part has more than `most` bytes."""

    def __init__(self, files, tags=True, parts=False, most=None):
        self.files, self.tags, self.parts, self.faults, self.requests, self.versions = files, tags, parts, [], [], {}
        self.most = most
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                server.answer(self)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.handle_error = lambda *_: None  # clients hang up, which is theirs to do
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request):
        name = request.path.split("?")[0].lstrip("/")
        span = request.headers.get("Range")
        self.requests.append((name, span))
        fault = self.faults.pop(0) if self.faults else None
        if name not in self.files or fault == 503:
            request.send_response(503 if fault == 503 else 404)
            request.send_header("Content-Length", "4")
            if fault == 503:
                request.send_header("Retry-After", "0")
            request.end_headers()
            request.wfile.write(b"busy")
            return
        if fault == "moved":  # to a name that is too long for any: no server is asked for it
            request.send_response(302)
            request.send_header("Location", f"http://{'n' * 70}.invalid/{name}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if fault == "late":
            time.sleep(0.05)
        if fault == "changed":
            self.versions[name] = 2
        data = self.files[name]
        begin, end = 0, len(data)
        asked = re.fullmatch("bytes=([0-9]+)-([0-9]*)", span) if span and fault != "no ranges" else None
        if asked and (self.parts or asked.group(1) != "0"):
            begin, end = int(asked.group(1)), min(end, int(asked.group(2) or end - 1) + 1)
            end = min(end, begin + (self.most or end))
            if fault == "none of it":
                end = begin
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {begin}-{max(begin, end - 1)}/{len(data)}")
        else:
            request.send_response(200)
        request.send_header("Content-Length", str(end - begin))
        if self.tags:
            request.send_header("ETag", f'"{name}-{self.versions.get(name, 1)}"')
        request.end_headers()
        rest = data[begin:end]
        if fault == "cut":
            request.wfile.write(rest[: len(rest) // 2])
            request.wfile.flush()
            request.close_connection = True
        elif fault == "slow":
            for at in range(0, len(rest), 4096):
                request.wfile.write(rest[at : at + 4096])
                time.sleep(0.002)
        else:
            request.wfile.write(rest)


def ingest(folder, *arguments, environment=None):
    destination = os.path.join(folder, "dst")
    shutil.rmtree(destination, ignore_errors=True)
    shutil.rmtree(destination + ".partial", ignore_errors=True)
    command = [DLPIPE, "ingest", *arguments, destination, "--jpeg", "standard"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, **(environment or {})})
    return destination, result


def check(destination, begin, end):
    dataset = Dataset(destination)
    assert dataset.info["samples"] == end - begin, dataset.info["samples"]
    for i in range(end - begin):
        assert bytes(dataset.fields(i)["image"]) == make_image(begin + i), i


def no_secrets(destination, result, *secrets):
    texts = [result.stdout, result.stderr]
    for root, _, names in os.walk(os.path.dirname(destination)):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                texts.append(file.read().decode("latin-1"))
    for secret in secrets:
        assert not any(secret in text for text in texts), secret


def test_faults(folder):
    files = {"s-00.tar": shard(0, 30), "s-01.tar": shard(30, 60), "p.tar.gz": shard(0, 30, "w:gz")}
    server = Server(files)
    for name, faults in (("plain", []), ("cut", ["cut", "cut", "cut"]), ("busy", [503, 503, None]), ("slow", ["slow"]),
                         ("cut and busy", ["cut", 503, "cut", 503]), ("cut and without its host", ["cut", "moved"])):
        server.faults, server.requests = list(faults), []
        destination, result = ingest(folder, server.address + "/s-00.tar")
        assert result.returncode == 0, (name, result.stderr)
        check(destination, 0, 30)
        assert len(server.requests) == 1 + sum(f in ("cut", 503, "moved") for f in faults), (name, server.requests)
        print(f"http {name}: same, {len(server.requests)} requests")
    server.faults = ["cut"]
    destination, result = ingest(folder, server.address + "/p.tar.gz")
    assert result.returncode == 0, result.stderr
    check(destination, 0, 30)
    destination, result = ingest(folder, server.address + "/s-{00..01}.tar")
    assert result.returncode == 0, result.stderr
    check(destination, 0, 60)
    print("http packed and many: same")
    for name, faults in (("changed", ["cut", "changed"]), ("no ranges", ["cut", "no ranges"])):
        server.versions, server.faults = {}, list(faults)
        destination, result = ingest(folder, server.address + "/s-00.tar")
        assert result.returncode == 1 and "changed while it was being read" in result.stderr, (name, result.stderr)
        assert not os.path.exists(destination), name
        print(f"http {name}: refused")
    _, result = ingest(folder, server.address + "/none.tar")
    assert result.returncode == 1 and "there is no such file (404)" in result.stderr, result.stderr
    untagged = Server(files, tags=False)
    untagged.faults = ["cut"]
    _, result = ingest(folder, untagged.address + "/s-00.tar")
    assert result.returncode == 1 and "neither ETag nor Last-Modified" in result.stderr, result.stderr
    print("http without tags: refused")
    given = server.address.replace("http://", "http://me:hidden-password@") + "/s-00.tar?signature=hidden-query"
    destination, result = ingest(folder, given)
    assert result.returncode == 0, result.stderr
    check(destination, 0, 30)
    no_secrets(destination, result, "hidden-password", "hidden-query")
    print("http: no secret is kept")


def ingest_on_small_disk(folder, most_bytes, *arguments):
    """As where no file may have more bytes than that."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    destination = os.path.join(folder, "dst")
    for left in (destination, destination + ".partial"):
        shutil.rmtree(left, ignore_errors=True)
    command = [DLPIPE, "ingest", arguments[0], destination, *arguments[1:], "--jpeg", "standard"]
    return destination, subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=limit)


def shuffled_shard(begin, end):
    """A tar of class folders whose images lie in no order of their names."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for i in map(int, begin + np.random.default_rng(begin).permutation(end - begin)):
            info = tarfile.TarInfo(f"c{i % 2}/{i:05d}.jpg")
            info.size = len(make_image(i))
            archive.addfile(info, io.BytesIO(make_image(i)))
    return out.getvalue()


def large_shard(begin, end, filler_bytes, places):
    """A shard with something at some places that no dataset takes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for i in range(begin, end):
            members = {f"{i:05d}.jpg": make_image(i), f"{i:05d}.cls": str(i % 3).encode()}
            if i in places:
                members[f"filler{i}.bin"] = os.urandom(filler_bytes)
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


# Six archives: the streams of four are open at once, so those listed first are asked for again.
SIX = 6


def test_parts(folder):
    """Plain archives are read where they are: nothing of them is stored but what is committed."""
    files = {"p.tar.gz": shard(0, 30, "w:gz"), "large.tar": large_shard(0, 30, 12 << 20, [15])}
    files["long.tar"] = large_shard(0, 60, 700 << 10, range(60))  # more than what stays in memory behind a stream
    files.update({f"s-{n}.tar": shard(10 * n, 10 * n + 10) for n in range(SIX)})
    files.update({f"u-{n}.tar": shuffled_shard(20 * n, 20 * n + 20) for n in range(SIX)})
    server = Server(files, parts=True)
    for name, faults in (("plain", []), ("cut", ["cut", "cut", "cut"]), ("busy", [503, None, 503]), ("slow", ["slow"]),
                         ("cut while read", [None] * SIX + ["cut", 503, "cut", "cut"])):
        server.faults, server.requests = list(faults), []
        destination, result = ingest(folder, server.address + "/s-{0..5}.tar")
        assert result.returncode == 0, (name, result.stderr)
        check(destination, 0, 10 * SIX)
        assert not server.faults and len(server.requests) > SIX, (name, server.requests)
        print(f"parts {name}: same, {len(server.requests)} requests")
    most = 6 << 20
    destination, result = ingest_on_small_disk(folder, most, server.address + "/large.tar")
    assert result.returncode == 0, result.stderr
    check(destination, 0, 30)
    server.requests = []
    # one thread, because two may read far from each other, where each asks for its images one by one
    destination, result = ingest_on_small_disk(folder, most, server.address + "/long.tar", "--threads", "1")
    assert result.returncode == 0, result.stderr
    check(destination, 0, 60)
    assert len(server.requests) < 10, server.requests
    print(f"parts: long.tar, {len(server.requests)} requests")
    whole = Server(files)  # whose files are fetched whole
    _, result = ingest_on_small_disk(folder, most, whole.address + "/large.tar")
    assert result.returncode == 1 and "no space" in result.stderr, result.stderr
    print(f"parts: archives of {len(files['large.tar']) >> 20} and {len(files['long.tar']) >> 20} MB where no file may have more than {most >> 20} MB")
    destination, result = ingest(folder, server.address + "/u-{0..5}.tar")
    assert result.returncode == 0, result.stderr
    dataset = Dataset(destination)
    found = {bytes(dataset.fields(i)["path"])[-8:]: bytes(dataset.fields(i)["image"]) for i in range(dataset.info["samples"])}
    assert found == {f"{i:05d}.jpg".encode()[-8:]: make_image(i) for i in range(20 * SIX)}
    destination, result = ingest(folder, server.address + "/p.tar.gz")
    assert result.returncode == 0, result.stderr
    check(destination, 0, 30)
    print("parts out of order, and of a packed archive: same")
    for name, faults in (("after it was listed", [None] * SIX + ["changed"]), ("while it was listed", ["cut", "changed"])):
        server.versions, server.faults = {}, list(faults)
        destination, result = ingest(folder, server.address + "/u-{0..5}.tar")
        assert result.returncode == 1 and "changed while it was being read" in result.stderr, (name, result.stderr)
        assert not os.path.exists(destination), name
    print("parts of a file that changes: refused")


def test_short_parts(folder):
    """A server that gives less than it is asked for, which is no cut connection."""
    most = 7000
    files = {"s.tar": shard(0, 30), "p.tar.gz": shard(0, 30, "w:gz"), "u.tar": shuffled_shard(0, 30)}
    server = Server(files, parts=True, most=most)
    for name in ("s.tar", "p.tar.gz"):
        for faults in ([], [None, "none of it", "none of it"]):
            server.faults, server.requests = list(faults), []
            began = time.monotonic()
            destination, result = ingest(folder, f"{server.address}/{name}")
            assert result.returncode == 0, (name, result.stderr)
            check(destination, 0, 30)
            assert len(server.requests) >= len(files[name]) // most, server.requests
            print(f"short parts of {name}, {len(faults)} faults: same, {len(server.requests)} requests, {time.monotonic() - began:.1f} s")
    destination, result = ingest(folder, server.address + "/u.tar")
    assert result.returncode == 0, result.stderr
    assert Dataset(destination).info["samples"] == 30
    untagged = Server(files, tags=False, parts=True, most=most)
    destination, result = ingest(folder, untagged.address + "/s.tar", "--on-error", "skip")
    assert result.returncode == 1 and "the server sends less than requested" in result.stderr, result.stderr
    assert "neither ETag nor Last-Modified" in result.stderr, result.stderr
    assert not os.path.exists(destination)
    print("short parts without tags: refused")


def test_resumed_parts(folder):
    """An ingest that was killed goes on, and not with another file of the same sizes."""
    files = {f"u-{n}.tar": shuffled_shard(20 * n, 20 * n + 20) for n in range(SIX)}
    server = Server(files, parts=True)
    destination = os.path.join(folder, "killed")
    command = [DLPIPE, "ingest", server.address + "/u-{0..5}.tar", destination, "--jpeg", "standard"]
    for is_other in (False, True):
        shutil.rmtree(destination, ignore_errors=True)
        server.versions, server.faults = {}, [None] * SIX + ["late"] * 1000
        killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(destination + ".partial/ingest.list"):
            assert killed.poll() is None
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        assert not os.path.exists(destination), "killed too late"
        server.faults = []
        if is_other:
            server.versions["u-3.tar"] = 2
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if is_other:
            assert result.returncode == 1 and "changed" in result.stderr, result.stderr
        else:
            assert result.returncode == 0, result.stderr
            assert Dataset(destination).info["samples"] == 20 * SIX
    print("parts after a kill: same; with another file: refused")


class Nginx:
    """nginx with the files of `root`, 64 KB in each second and connection; on a port of its own."""

    def __init__(self, program, folder, root):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        config = os.path.join(folder, "nginx.conf")
        temporary = "".join(f" {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(config, "w") as file:
            file.write(f"daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; events {{}}\n"
                       f"http {{ access_log off;{temporary} server {{ listen 127.0.0.1:{port}; root {root}; limit_rate 64k; }} }}\n")
        self.command = [program, "-c", config, "-p", folder, "-e", f"{folder}/nginx.log"]
        self.process, self.port = None, port
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command)
        for _ in range(100):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("nginx doesn't answer")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def is_connected(self):
        with open("/proc/net/tcp") as file:
            return any(line.split()[1].endswith(f":{self.port:04X}") and line.split()[3] == "01" for line in file)

    def ingest_meanwhile(self, folder, meanwhile):
        """Ingests s.tar, and does something once its first part has come."""
        results = []
        thread = threading.Thread(target=lambda: results.append(ingest(folder, self.address + "/s.tar")))
        thread.start()
        while thread.is_alive() and not self.is_connected():
            time.sleep(0.02)
        time.sleep(1)
        meanwhile()
        thread.join()
        return results[0]


def test_nginx(folder):
    """A server that is killed and started again, with the same file and with another."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        print("nginx: skipped, it is not installed")
        return
    root = os.path.join(folder, "root")
    os.mkdir(root)
    os.chmod(folder, 0o755)  # a process of its own user reads the files
    archive = os.path.join(root, "s.tar")

    def put(content):
        with open(archive + ".new", "wb") as file:
            file.write(content)
        os.replace(archive + ".new", archive)

    put(shard(0, 60))
    server = Nginx(program, folder, root)
    try:
        def restart(content=None):
            server.kill()
            if content is not None:
                put(content)
            time.sleep(0.5)
            server.start()

        destination, result = server.ingest_meanwhile(folder, restart)
        assert result.returncode == 0, result.stderr
        check(destination, 0, 60)
        destination, result = server.ingest_meanwhile(folder, lambda: restart(shard(60, 121)))
        assert result.returncode == 1 and "changed while it was being read" in result.stderr, result.stderr
        assert not os.path.exists(destination)
        destination, result = ingest(folder, server.address + "/none.tar")
        assert result.returncode == 1 and "no such file (404)" in result.stderr, result.stderr
    finally:
        server.kill()
    print("nginx killed and started again: same; with another file: refused")


def signature_of(request, url):
    """The signature that botocore computes for what was asked."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    authorization = request.headers["Authorization"]
    signed = re.search("SignedHeaders=([^,]+)", authorization).group(1).split(";")
    again = AWSRequest("GET", url, headers={name: request.headers[name] for name in signed})
    again.context["timestamp"] = request.headers["X-Amz-Date"]
    auth = S3SigV4Auth(Credentials(KEY_ID, SECRET), "s3", "us-east-1")
    canonical = auth.canonical_request(again)
    return auth.signature(auth.string_to_sign(again, canonical), again), authorization


def test_signature(folder):
    """What libcurl signs is what botocore would."""
    server, seen = Server({"bucket/a b+c.tar": shard(0, 5)}), []
    answer = server.answer

    def noting(request):
        seen.append(signature_of(request, server.address + request.path))
        request.path = request.path.replace("%20", " ").replace("%2B", "+")
        answer(request)

    server.answer = noting
    environment = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": server.address,
                   "AWS_SESSION_TOKEN": "session-token", "AWS_REGION": "us-east-1"}
    server.faults = ["cut"]
    destination, result = ingest(folder, "s3://bucket/a b+c.tar", environment=environment)
    assert result.returncode == 0, result.stderr
    check(destination, 0, 5)
    no_secrets(destination, result, SECRET, KEY_ID, "session-token")
    for wanted, authorization in seen:
        assert authorization.endswith(f"Signature={wanted}"), (wanted, authorization)
    print(f"s3 signature: same, {len(seen)} requests")


def test_s3(folder):
    """moto's server."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    environment = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": endpoint}
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=KEY_ID,
                          aws_secret_access_key=SECRET)
    client.create_bucket(Bucket="bucket")
    for i in range(3):
        client.put_object(Bucket="bucket", Key=f"shards/s-{i:03d}.tar", Body=shard(10 * i, 10 * i + 10))
    destination, result = ingest(folder, "s3://bucket/shards/s-{000..002}.tar", environment=environment)
    assert result.returncode == 0, result.stderr
    check(destination, 0, 30)
    no_secrets(destination, result, SECRET, KEY_ID)
    _, result = ingest(folder, "s3://bucket/none.tar", environment=environment)
    assert result.returncode == 1 and "no such file (404)" in result.stderr, result.stderr
    server.stop()
    print("s3 moto: same")


def main():
    for test in (test_faults, test_parts, test_short_parts, test_resumed_parts, test_nginx, test_signature, test_s3):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)


if __name__ == "__main__":
    main()
