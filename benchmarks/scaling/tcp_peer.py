"""tcp_peer.py serve | ask: how far and how wide is the network between nodes 2 and 1? `ask` prints the round trip of a byte
in ms and the rate of one stream in Mbit/s, medians."""

import socket
import statistics
import sys
import time

ADDRESS = ("10.77.0.2", 7007)
BLOCK = 8 << 20  # bytes of one try


def receive(connection, size):
    while size > 0:
        got = connection.recv(min(size, 1 << 20))
        if not got:
            raise SystemExit("the other side has left")
        size -= len(got)


def serve():
    with socket.create_server(ADDRESS) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while size := connection.recv(8):
                receive(connection, int.from_bytes(size, "little"))
                connection.sendall(b"x")


def ask():
    with socket.create_connection(ADDRESS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def seconds(size):
            begin = time.monotonic()
            connection.sendall(size.to_bytes(8, "little") + bytes(size))
            receive(connection, 1)
            return time.monotonic() - begin

        trip = statistics.median(seconds(1) for _ in range(50))
        wide = statistics.median(seconds(BLOCK) for _ in range(5))
        print(f"{1e3 * trip:.3f} {8 * BLOCK / (wide - trip) / 1e6:.0f}")


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else ask()
