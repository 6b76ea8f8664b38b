#!/usr/bin/env python3
"""What deploy/ has for a server: nginx with deploy/nginx/dlpipe.conf answers for `dlpipe serve` over TLS and keeps its limits, and
systemd-analyze finds nothing wrong with the unit, whose command line starts a server. Usage: serving.py DLPIPE"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
MOST_EXPOSURE = 2.0  # of 10, as systemd-analyze counts


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def replaced(text, values):
    for old, new in values.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text


@contextlib.contextmanager
def running(command):
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def until(is_so, process):
    end = time.monotonic() + 60
    while not is_so():
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        assert time.monotonic() < end, f"{process.args} isn't ready"
        time.sleep(0.05)


def accepts(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def make_model(program, folder):
    """A repository with a model, and one of its images."""
    for words in (["synth", folder / "images", "--per-class", "8", "--size", "32", "--seed", "1"],
                  ["ingest", folder / "images", folder / "data", "--split", "0.5,0.5"],
                  ["train", "--data", folder / "data", "--model", "lenet", "--augment", "resize(28x28)", "--epochs", "1", "--batch", "8",
                   "--out", folder / "run"]):  # fmt: skip
        subprocess.run([program, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    (folder / "models/m/1").mkdir(parents=True)
    subprocess.run([program, "compile", folder / "run", "-o", folder / "models/m/1/model.dlg", "--quiet"], check=True)
    return next(folder.glob("images/*/*.*")).read_bytes()


def check_unit(program, folder):
    """The unit's command line, as it would run here."""
    unit = (DEPLOY / "systemd/dlpipe-serve.service").read_text()
    if shutil.which("systemd-analyze"):
        copy = folder / "dlpipe-serve.service"
        copy.write_text(replaced(unit, {"/usr/bin/dlpipe": program}))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
        assert done.returncode == 0 and str(copy) not in done.stderr, done.stderr
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", copy], capture_output=True, text=True)
        exposure = re.search(r"exposure level .*: ([\d.]+)", done.stdout)
        assert exposure and float(exposure[1]) <= MOST_EXPOSURE, done.stdout + done.stderr
    else:
        print("no systemd-analyze: the unit's settings were not checked")
    command = re.search(r"^ExecStart=(.*)$", unit, re.M)[1]
    values = {"/usr/bin/dlpipe": program, "/srv/models": folder / "models", "8000": free_port(), "/run/dlpipe-serve": folder}
    return [*replaced(command, values).split(), "--threads", "1"]


def check_proxy(folder, upstream, image):
    port = free_port()
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "certificate"],
                   check=True, capture_output=True)  # fmt: skip
    site = replaced((DEPLOY / "nginx/dlpipe.conf").read_text(), {
        "127.0.0.1:8000;": f"127.0.0.1:{upstream};", "listen 443 ssl": f"listen 127.0.0.1:{port} ssl", "models.example.org": "localhost",
        "/etc/ssl/certs/models.pem": folder / "certificate", "/etc/ssl/private/models.key": folder / "key",
    })  # fmt: skip
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""  # whose folder this is
    (folder / "nginx.conf").write_text(f"{user} daemon off; pid {folder}/pid; error_log {folder}/errors; events {{}}\n"
                                       f"http {{ access_log off; {paths}\n{site}\n}}")  # fmt: skip
    context = ssl.create_default_context(cafile=folder / "certificate")

    def ask(method, path, body=None, headers=None):
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    with running(["nginx", "-p", folder, "-c", folder / "nginx.conf"]) as nginx:
        until(lambda: accepts(port), nginx)
        jpeg = {"Content-Type": "image/jpeg"}
        status, body = ask("POST", "/v2/models/m/infer", image, jpeg)
        assert status == 200 and len(json.loads(body)["outputs"]) == 2, (status, body)
        assert ask("GET", "/v2/health/ready")[0] == 200
        assert ask("GET", "/metrics")[0] == 404
        assert ask("POST", "/v2/repository/models/m/unload", "")[0] == 403
        assert ask("POST", "/v2/%72epository/models/m/unload", "")[0] == 403
        assert ask("POST", "/v2/models/../repository/index", "")[0] == 403
        assert ask("POST", "/v2//repository/index", "")[0] == 403
        assert ask("POST", "/v2/models/m/infer", bytes(17 << 20), jpeg)[0] == 413
        seen = set()
        connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
        for _ in range(1000):  # at once, of which the limit lets some through
            connection.request("GET", "/v2/health/live")
            answer = connection.getresponse()
            answer.read()
            seen.add(answer.status)
        assert seen == {200, 429}, seen


def main(program):
    program = pathlib.Path(program).resolve()
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        print("skipped: nginx or openssl is missing")
        return
    if "Boost" not in subprocess.run([program, "info"], check=True, capture_output=True, text=True).stdout:
        print("skipped: dlpipe was built without a server")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image = make_model(program, folder)
        command = check_unit(program, folder)
        with running(command) as server:
            until((folder / "ready").exists, server)
            check_proxy(folder, int(command[command.index("--port") + 1]), image)
        assert server.returncode == 0, server.returncode
    print("nginx, dlpipe serve and its unit work together")


if __name__ == "__main__":
    main(*sys.argv[1:])
