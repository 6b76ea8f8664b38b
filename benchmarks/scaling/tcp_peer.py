"""tcp_peer.py serve | ask: how far and how wide is the network between nodes 2 and 1? `ask` prints the round trip of a byte
in ms, the rate of one stream in Mbit/s, and that of each of two streams that go both ways at once, as the halves of an
all-reduce do: medians."""

import socket
import statistics
import sys
import threading
import time

ADDRESS = ("10.77.0.2", 7007)
BLOCK = 8 << 20  # bytes of one try
BOTH_WAYS = 1 << 63  # in a request beside its size


def receive(connection, size):
    while size > 0:
        got = connection.recv(min(size, 1 << 20))
        if not got:
            raise SystemExit("the other side has left")
        size -= len(got)


def exchange(connection, size):
    sender = threading.Thread(target=connection.sendall, args=(bytes(size),))
    sender.start()
    receive(connection, size)
    sender.join()


def serve():
    with socket.create_server(ADDRESS) as server:
        print("listening", flush=True)
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while request := connection.recv(8):
                size = int.from_bytes(request, "little")
                if size & BOTH_WAYS:
                    exchange(connection, size - BOTH_WAYS)
                else:
                    receive(connection, size)
                connection.sendall(b"x")


def ask():
    with socket.create_connection(ADDRESS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def seconds(size, both_ways=False):
            begin = time.monotonic()
            connection.sendall((size | (BOTH_WAYS if both_ways else 0)).to_bytes(8, "little"))
            if both_ways:
                exchange(connection, size)
            else:
                connection.sendall(bytes(size))
            receive(connection, 1)
            return time.monotonic() - begin

        trip = statistics.median(seconds(1) for _ in range(50))
        wide = statistics.median(seconds(BLOCK) for _ in range(5))
        each = statistics.median(seconds(BLOCK, both_ways=True) for _ in range(5))
        print(f"{1e3 * trip:.3f} {8 * BLOCK / (wide - trip) / 1e6:.0f} {8 * BLOCK / (each - trip) / 1e6:.0f}")


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else ask()
