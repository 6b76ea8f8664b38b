"""Network namespaces as machines on a slow network: `with Nodes(4, rate="1gbit", delay_ms=0.2) as nodes`. Linux, root.

Each node has an eth0 that sends at most at `rate` (tc tbf); packets arrive `delay_ms` later (delay_line.py: kernels without
netem can do it, too). mpirun starts one rank in each node, and bytes travel by TCP alone. tests/install/namespaces asks the
same of correctness.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import delay_line

here = pathlib.Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


class Impossible(Exception):
    """This machine can't; the text says why."""


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Impossible(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[:200]}")
    return done.stdout


class Nodes:
    def __init__(self, count, rate, delay_ms):
        self.count, self.rate, self.delay_ms = count, rate, delay_ms
        self.name = f"dlpipe{os.getpid()}"
        self.line = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise Impossible("network namespaces need root")
        for program in ("ip", "tc", "nsenter", "unshare", "mpirun"):
            if not shutil.which(program):
                raise Impossible(f"{program} is missing (apt-get install iproute2 util-linux openmpi-bin)")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what is made here goes, however it ends
        self.folder = pathlib.Path(tempfile.mkdtemp())
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        files = {}
        for node in range(1, self.count + 1):
            space, device = self.space(node), f"{self.name[-9:]}t{node}"
            command("ip", "netns", "add", space)
            try:
                files[node] = delay_line.open_tun(device)
            except OSError as problem:
                raise Impossible(f"/dev/net/tun: {problem}") from None
            command("ip", "link", "set", device, "netns", space, "name", "eth0")
            command("ip", "-n", space, "address", "add", f"10.77.0.{node}/24", "dev", "eth0")
            command("ip", "-n", space, "link", "set", "lo", "up")
            command("ip", "-n", space, "link", "set", "eth0", "txqueuelen", "1000", "up")
            if self.rate:
                shape = ["tbf", "rate", self.rate, "burst", "128kb", "latency", "100ms"]
                command("nsenter", f"--net=/run/netns/{space}", "tc", "qdisc", "add", "dev", "eth0", "root", *shape)
        self.line = os.fork()
        if self.line == 0:
            self.carry(files)
        for file in files.values():
            os.close(file)
        # What ssh would do: `agent ADDRESS COMMAND...`.
        agent = self.folder / "agent"
        agent.write_text(
            "#!/bin/sh\nnode=${1##*.}\nshift\n"
            f'exec nsenter --net=/run/netns/{self.name}-$node unshare --uts sh -c "hostname node$node; $*"\n'
        )
        agent.chmod(0o755)
        (self.folder / "hosts").write_text("".join(f"10.77.0.{n} slots=1\n" for n in range(1, self.count + 1)))

    def carry(self, files):
        """The child process. It stands for cables, which don't wait for a core: it comes before the ranks."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            os.nice(-15)
        try:
            delay_line.carry(files, self.delay_ms / 1e3)
        finally:
            os._exit(1)

    def __exit__(self, *_):
        if self.line:
            os.kill(self.line, signal.SIGKILL)
            os.waitpid(self.line, 0)
        for node in range(1, self.count + 1):
            left = subprocess.run(["ip", "netns", "pids", self.space(node)], capture_output=True, text=True)
            for process in left.stdout.split():
                try:
                    os.kill(int(process), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "delete", self.space(node)], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def space(self, node):
        return f"{self.name}-{node}"

    def inside(self, node):
        """What a command in this node begins with."""
        return ["nsenter", f"--net=/run/netns/{self.space(node)}"]

    def launcher(self, ranks):
        """What `ranks` ranks, one per node, begin with."""
        agent = str(self.folder / "agent")
        return [
            *self.inside(1), "unshare", "--uts", "sh", "-c", 'hostname node1; exec "$@"', "sh",
            "mpirun", "--allow-run-as-root", "--hostfile", str(self.folder / "hosts"),
            "-np", str(ranks), "--map-by", "node", "--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "plm", "rsh",
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24",
            "--mca", "oob_tcp_if_include", "10.77.0.0/24",
        ]  # fmt: skip

    def bytes_sent(self, node):
        """By eth0, headers and acknowledgements included."""
        for line in command(*self.inside(node), "cat", "/proc/net/dev").splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == "eth0":
                return int(numbers.split()[8])
        raise Impossible("eth0 is gone")

    def measured(self):
        """{round_trip_ms, mbit_s, both_ways_mbit_s} between nodes 1 and 2: medians of a few tries by TCP."""
        peer = here / "tcp_peer.py"
        server = subprocess.Popen([*self.inside(2), sys.executable, peer, "serve"], stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()  # it listens
            answer = command(*self.inside(1), sys.executable, str(peer), "ask").split()
        finally:
            server.kill()
            server.wait()
        return {"round_trip_ms": float(answer[0]), "mbit_s": float(answer[1]), "both_ways_mbit_s": float(answer[2])}
