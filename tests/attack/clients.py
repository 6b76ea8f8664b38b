#!/usr/bin/env python3
"""Hostile clients of `dlpipe serve`: slow, cut off, idle by thousands, with bytes that are no HTTP; and a server that is stopped,
killed, out of descriptors or disk. While each of them is there, a good client must get the answer that it got before.
"""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

from attack import Attack

PATIENCE_S = 60
IDLE = 2000


class Server:
    """`dlpipe serve` until the end of a `with`."""

    def __init__(self, attack, folder, *arguments, port=0, descriptors=None):
        self.ready = folder / "ready"
        self.ready.unlink(missing_ok=True)
        self.errors = open(folder / "errors", "w+b")

        def limits():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        attack.runs += 1
        self.process = subprocess.Popen(
            [attack.program, "serve", *map(str, arguments), "--port", str(port), "--ready-file", self.ready],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors, preexec_fn=limits)
        deadline = time.monotonic() + PATIENCE_S
        while not (self.ready.exists() and self.ready.read_text().endswith("\n")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no server: {self.text()}")
            time.sleep(0.01)
        self.port = int(self.ready.read_text().rsplit(":", 1)[1])

    def text(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")

    def memory_mb(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) // 1024

    def stop(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class Client:
    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)
        self.rest = b""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the server may answer before all was sent, and close

    def _more(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.rest += data
        return bool(data)

    def receive(self, has_body=True):
        """(status, head, body); a status of 0 if the connection ended before an answer, None if it ended within one."""
        while b"\r\n\r\n" not in self.rest:
            if not self._more():
                return (None if self.rest else 0), b"", b""
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        status = int(head.split(b" ", 2)[1])
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        size = int(length[1]) if length and has_body else 0
        while len(self.rest) < size:
            if not self._more():
                return None, head, self.rest
        body, self.rest = self.rest[:size], self.rest[size:]
        return status, head, body

    def is_closed(self):
        """Waits until the server has closed it."""
        while self._more():
            pass
        return not self.rest

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def request(image, *headers, method="POST", path="/v2/models/m/infer", version="1.1", length=True):
    lines = [f"{method} {path} HTTP/{version}", "Host: x", "Content-Type: image/jpeg", *headers]
    if length:
        lines.append(f"Content-Length: {len(image)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + image


def chunked(image, size=1000):
    body = b"".join(b"%x\r\n%s\r\n" % (len(image[i:i + size]), image[i:i + size]) for i in range(0, len(image), size))
    return request(b"", "Transfer-Encoding: chunked", length=False) + body + b"0\r\n\r\n"


def bomb(side):
    """A PNG of side x side pixels, all black."""
    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(9)
    row = bytes(side + 1)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) + part(b"IDAT", rows)
            + part(b"IEND", b""))


class Clients(Attack):
    def __init__(self):
        super().__init__(__doc__)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlpipe_clients_"))

    def prepare(self):
        folder = self.folder
        self.must("synth", folder / "images", "--per-class", 8, "--size", 32, "--seed", 5)
        self.must("ingest", folder / "images", folder / "data", "--split", "0.8,0.2", "--quiet")
        for name, seed in (("a", 1), ("b", 2)):
            self.must("train", folder / "data", "--model", "lenet", "--epochs", 1, "--batch", 16, "--seed", seed, "--out", folder / name)
            self.must("compile", folder / name, "-o", folder / f"{name}.dlg")
        self.image = next((folder / "images").rglob("*.jpg")).read_bytes()
        self.good = request(self.image)
        self.models = folder / "models"
        (self.models / "m/1").mkdir(parents=True)
        self.model = self.models / "m/1/model.dlg"
        shutil.copy(folder / "a.dlg", self.model)

    def serve(self, *arguments, **options):
        return Server(self, self.folder, self.models, *arguments, **options)

    def replace_model(self, name):
        shutil.copy(self.folder / f"{name}.dlg", self.folder / "next.dlg")
        os.rename(self.folder / "next.dlg", self.model)

    def answer(self, server):
        with Client(server) as client:
            client.send(self.good)
            return client.receive()[::2]

    def check(self, kind, case, is_so, why):
        if is_so:
            self.count(kind, "fine")
        else:
            self.fail(kind, case, why)

    def unharmed(self, server, kind, case):
        """Another client gets what it got before."""
        self.check(kind, case, self.answer(server) == (200, self.expected), "another client got another answer, or none")

    def talk(self, server, kind, case, data, allowed, *, closes=None, has_body=True):
        with Client(server) as client:
            client.send(data)
            status, head, body = client.receive(has_body)
            if status not in allowed:
                self.fail(kind, case, f"status {status}, not of {allowed}: {body[:200]!r}")
            elif closes and not client.is_closed():
                self.fail(kind, case, "bytes after the answer, in a connection that should end")
            else:
                self.count(kind, "fine")
            return status, head, body

    # ---- one request

    def protocol(self, server):
        kind = "protocol"
        image, good = self.image, self.good
        ok = {200}
        for case, data, closes in (
                ("close", request(image, "Connection: close"), True),
                ("HTTP/1.0", request(image, version="1.0"), True),
                ("chunked", chunked(image), False),
                ("chunks of a byte", chunked(image[:300] + image[300:], 1), False)):
            body = self.talk(server, kind, case, data, ok, closes=closes)[2]
            self.check(kind, case, body == self.expected, "another answer")
        head = self.talk(server, kind, "HTTP/1.0 kept", request(image, "Connection: keep-alive", version="1.0"), ok)[1]
        self.check(kind, "HTTP/1.0 kept", b"\r\nConnection: keep-alive" in head, f"the client can't tell: {head}")
        with Client(server) as client:  # pipelined, and HEAD, whose answer has no body
            client.send(b"GET /v2 HTTP/1.1\r\n\r\n" + good + b"HEAD /v2 HTTP/1.1\r\n\r\n" + good + b"GET /nothing HTTP/1.1\r\n\r\n" + good * 5)
            statuses = [client.receive(has_body=i != 2)[0] for i in range(10)]
            self.check(kind, "pipelined", statuses == [200, 200, 200, 200, 404] + [200] * 5, f"{statuses}")
        with Client(server) as client:
            client.send(good)
            client.socket.shutdown(socket.SHUT_WR)
            self.check(kind, "half closed", client.receive()[::2] == (200, self.expected), "no answer")
        with Client(server) as client:
            head, body = request(image, "Expect: 100-continue").split(b"\r\n\r\n", 1)
            client.send(head + b"\r\n\r\n")
            first = client.receive()[0]
            client.send(body)
            self.check(kind, "100-continue", (first, *client.receive()[::2]) == (100, 200, self.expected), f"{first}")
        too_long = b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
        self.talk(server, kind, "100-continue, too long", too_long % (1 << 40), {413}, closes=True)
        for name, method in (("CONNECT", "CONNECT"), ("TRACE", "TRACE"), ("unknown", "BREW")):
            self.talk(server, kind, name, request(b"", method=method, path="/v2"), {400, 405})

    def no_http(self, server):
        """A proxy in front may read these differently: none may be a request, and nothing after them either."""
        kind = "no HTTP"
        image = self.image
        n = len(image)
        start = "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Type: image/jpeg\r\n"
        for case, headers, body in (
                ("two lengths", f"Content-Length: {n}\r\nContent-Length: 3\r\n", image),
                ("length and chunks", f"Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n", image),
                ("chunks and length", f"Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n", b"0\r\n\r\n"),
                ("list of lengths", f"Content-Length: {n}, {n + 1}\r\n", image),
                ("negative length", "Content-Length: -1\r\n", image),
                ("signed length", f"Content-Length: +{n}\r\n", image),
                ("hexadecimal length", "Content-Length: 0x10\r\n", image),
                ("length of 2^64", f"Content-Length: {1 << 64}\r\n", image),
                ("length of 2^64 + n", f"Content-Length: {(1 << 64) + n}\r\n", image),
                ("blank before the colon", f"Content-Length : {n}\r\n", image),
                ("NUL in a header", f"X: a\0b\r\nContent-Length: {n}\r\n", image),
                ("no colon", f"nothing\r\nContent-Length: {n}\r\n", image),
                ("chunk that is no number", "Transfer-Encoding: chunked\r\n", b"zz\r\nabc\r\n0\r\n\r\n"),
                ("negative chunk", "Transfer-Encoding: chunked\r\n", b"-1\r\nabc\r\n0\r\n\r\n"),
                ("chunk longer than said", "Transfer-Encoding: chunked\r\n", b"1\r\nabc\r\n0\r\n\r\n")):
            data = start.encode() + headers.encode() + b"\r\n" + body
            self.talk(server, kind, case, data, {400, 413}, closes=True)
        self.talk(server, kind, "chunk of 2^63", start.encode() + b"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nabc", {400, 413}, closes=True)
        self.talk(server, kind, "long header", b"GET /v2 HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n", {400, 431}, closes=True)
        self.talk(server, kind, "many headers", b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", {400, 431}, closes=True)
        self.talk(server, kind, "long address", b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\n\r\n", {400, 431}, closes=True)
        self.talk(server, kind, "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512), {400}, closes=True)
        self.talk(server, kind, "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}, closes=True)
        self.talk(server, kind, "HTTP/9.9", b"GET /v2 HTTP/9.9\r\n\r\n", {400}, closes=True)
        # The answer can't be made longer by the address.
        head = self.talk(server, kind, "injection", b"GET /v2/models/%0d%0aX-Evil:%201/ready%0d%0a HTTP/1.1\r\n\r\n", {404, 503})[1]
        self.check(kind, "injection", b"Evil" not in head, f"{head}")
        # As a client that reads its answer after all was sent.
        big = request(bytes(3 << 20))
        self.talk(server, kind, "too long a body", big, {413}, closes=True)
        self.talk(server, kind, "too long in chunks", chunked(bytes(3 << 20), 1 << 16), {413}, closes=True)
        self.unharmed(server, kind, "afterwards")

    def mutants(self, server):
        kind = "mutants"
        tensor = struct.pack("<I", len(self.image)) + self.image
        text = json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(tensor)}}]})
        seeds = (self.good, chunked(self.image), request(text.encode() + tensor, f"Inference-Header-Content-Length: {len(text)}"),
                 b"POST /v2/repository/index HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", b"GET /metrics HTTP/1.1\r\n\r\n")
        for number in range(self.options.count * 5):
            data = bytearray(self.random.choice(seeds))
            end = data.index(b"\r\n\r\n") + 4
            for _ in range(self.random.randint(1, 4)):
                at = self.random.randrange(end if self.random.random() < 0.7 else len(data))
                data[at:at + self.random.choice((0, 1, 1, 3))] = self.random.choice(
                    (b"", b"\0", b"\r\n", b"9", b"%", b" ", bytes([self.random.randrange(256)]), b"\r\n\r\n"))
                end = min(end, len(data) - 1)
            with Client(server) as client:
                client.send(bytes(data))
                client.socket.shutdown(socket.SHUT_WR)
                statuses = []
                while True:
                    status, _, _ = client.receive(has_body=not data.startswith(b"HEAD"))
                    if not status:
                        break
                    statuses.append(status)
                self.check(kind, number, status == 0 and all(s in (200, 400, 404, 405, 413, 415, 431, 503) for s in statuses),
                           f"{status} after {statuses}: {bytes(data[:300])!r}")
        self.unharmed(server, kind, "afterwards")

    def images(self, server):
        kind = "images"
        before = server.memory_mb()
        for side in (2000, 20000):
            body = self.talk(server, kind, f"bomb of {side}", request(bomb(side)), {400})[2]
            self.check(kind, f"bomb of {side}", b"pixels" in body, f"{body}")
        for cut in range(0, len(self.image), max(1, len(self.image) // 40)):
            self.talk(server, kind, f"cut at {cut}", request(self.image[:cut]), {200, 400})
        self.check(kind, "memory", server.memory_mb() - before < 300, f"{before} MB became {server.memory_mb()}")
        self.unharmed(server, kind, "afterwards")

    # ---- many connections

    def cuts(self, server):
        kind = "cut off"
        head = self.good.index(b"\r\n\r\n") + 4
        places = sorted({1, head - 3, head - 1, head, head + 1, len(self.good) - 1, len(self.good),
                         *(self.random.randrange(len(self.good)) for _ in range(self.options.count))})
        for at in places:
            for resets in (False, True):
                with Client(server) as client:
                    client.send(self.good[:at])
                    if self.random.random() < 0.5:
                        time.sleep(0.002)
                    if resets:
                        client.reset()
                self.count(kind, "fine")
        self.unharmed(server, kind, "afterwards")

    def slow(self, server):
        kind = "slow"
        slow = [Client(server) for _ in range(20)]
        for client in slow[:5]:
            client.send(self.good[:-1])
        for client in slow[5:10]:
            client.send(self.good[:20])
        head = self.good.index(b"\r\n\r\n") + 10
        for at in range(head):  # byte by byte
            for client in slow[10:12]:
                client.send(self.good[at:at + 1])
        self.unharmed(server, kind, "meanwhile")
        for client in slow[:5]:
            client.send(self.good[-1:])
        for client in slow[5:10]:
            client.send(self.good[20:])
        for client in slow[10:12]:
            client.send(self.good[head:])
        for number, client in enumerate(slow[:12]):
            self.check(kind, number, client.receive()[::2] == (200, self.expected), "a slow client got another answer, or none")
        # One that sends requests and never takes an answer.
        deaf = Client(server)
        deaf.socket.settimeout(0.5)
        try:
            for _ in range(2000):
                deaf.socket.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 50)
        except (TimeoutError, OSError):
            pass
        self.unharmed(server, kind, "one takes no answer")
        for client in (*slow, deaf):
            client.socket.close()

    def idle(self, server):
        kind = "idle"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = min(IDLE + 200, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        before = server.memory_mb()
        many = [Client(server) for _ in range(wanted - 200)]
        for client in many[::2]:
            client.send(b"GET /v2 HTTP/1.1\r\nX: ")
        self.unharmed(server, kind, f"{len(many)} connections")
        grown = server.memory_mb() - before
        self.check(kind, "memory", grown < 10 + len(many) * 0.03, f"{len(many)} connections took {grown} MB")
        for client in many:
            client.reset()
        self.unharmed(server, kind, "afterwards")

    # ---- the server's life

    def load(self, server, seconds, on_answer, threads=4):
        """Clients that send requests for some time, or until the server closes."""
        end = time.monotonic() + seconds

        def work():
            with Client(server) as client:
                while time.monotonic() < end:
                    client.send(self.good)
                    status, head, body = client.receive()
                    on_answer(status, body)
                    if not status or b"Connection: close" in head:
                        return

        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        return running

    def reloads(self):
        kind = "reload"
        with self.serve("--threads", 2) as server:
            seen = set()
            running = self.load(server, 4, lambda status, body: seen.add((status, body)))
            for name in "bababa":
                self.replace_model(name)
                time.sleep(0.3)
                with Client(server) as client:
                    client.send(request(b"", path="/v2/repository/models/m/load"))
                    status = client.receive()[0]
                    self.check(kind, name, status == 200, f"load answers {status}")
            for thread in running:
                thread.join()
            self.check(kind, "answers", {status for status, _ in seen} == {200} and len(seen) == 2, f"{seen}")
            self.model.unlink()
            time.sleep(1.2)
            self.unharmed(server, kind, "the model's file is removed")
            self.replace_model("a")
            self.check(kind, "end", server.stop() == 0, server.text())

    def stops(self):
        kind = "SIGTERM"
        for number in range(max(2, self.options.count // 10)):
            log = self.folder / "access.log"
            log.unlink(missing_ok=True)
            with self.serve("--max-delay", 5, "--access-log", log, "--drain", 30) as server:
                answers, lock = [], threading.Lock()

                def note(status, body):
                    with lock:
                        answers.append((status, body))

                half = [Client(server), Client(server)]  # they never send the rest
                half[0].send(b"GET /v2 HT")
                running = self.load(server, PATIENCE_S, note, 8)
                time.sleep(self.random.uniform(0.2, 0.5))
                code = server.stop()
                for thread in running:
                    thread.join()
                for client in half:
                    client.socket.close()
                whole = [body for status, body in answers if status == 200]
                self.check(kind, f"{number}: exit", code == 0, f"exit code {code}: {server.text()}")
                self.check(kind, f"{number}: answers", None not in {status for status, _ in answers} and set(whole) == {self.expected},
                           f"{ {status for status, _ in answers} }")
                lines = [json.loads(line) for line in log.read_text().splitlines()]
                handled = sum(line["status"] == 200 for line in lines)
                self.check(kind, f"{number}: all", handled == len(whole), f"{handled} requests, {len(whole)} answers")

    def kills(self):
        kind = "SIGKILL"
        with self.serve() as server:
            clients = [Client(server) for _ in range(10)]
            for client in clients:
                client.send(self.good[:-5])
            self.unharmed(server, kind, "before")
            server.stop(signal.SIGKILL)
            with self.serve(port=server.port) as again:
                self.unharmed(again, kind, "the same port at once")
                self.check(kind, "end", again.stop() == 0, again.text())
            for client in clients:
                client.socket.close()

    def shortages(self):
        kind = "shortage"
        if pathlib.Path("/dev/full").exists():
            with self.serve("--access-log", "/dev/full") as server:
                for _ in range(3):
                    self.unharmed(server, kind, "disk full for the log")
                self.check(kind, "disk full: end", server.stop() == 0, server.text())
        with self.serve(descriptors=100) as server:
            with Client(server) as first:
                first.send(self.good)
                self.check(kind, "descriptors: before", first.receive()[0] == 200, "no answer")
                many = [Client(server) for _ in range(300)]
                time.sleep(1.5)  # the models' files are looked at meanwhile
                first.send(self.good)
                self.check(kind, "descriptors: first", first.receive()[::2] == (200, self.expected), "no answer")
                self.replace_model("b")
                first.send(request(b"", path="/v2/repository/models/m/load"))
                self.check(kind, "descriptors: load", first.receive()[0] == 200, "a model can't be loaded")
                self.replace_model("a")
                first.send(request(b"", path="/v2/repository/models/m/load"))
                first.receive()
            for client in many:
                client.socket.close()
            time.sleep(0.2)
            self.unharmed(server, kind, "descriptors: afterwards")
            self.check(kind, "descriptors: end", server.stop() == 0, server.text())

    def attack(self):
        self.prepare()
        with self.serve("--max-body", 2, "--max-pixels", 1_000_000, "--max-batch", 4) as server:
            status, self.expected = self.answer(server)
            if status != 200:
                sys.exit(f"clients: no answer: {status} {self.expected}")
            for part in (self.protocol, self.no_http, self.mutants, self.images, self.cuts, self.slow, self.idle):
                part(server)
            self.check("end", "SIGTERM", server.stop() == 0, server.text())
        for part in (self.reloads, self.stops, self.kills, self.shortages):
            part()


if __name__ == "__main__":
    clients = Clients()
    try:
        clients.attack()
    finally:
        shutil.rmtree(clients.folder, ignore_errors=True)
    clients.finish()
