"""A wire between network namespaces that holds every packet back for a while, where the kernel has no netem.

Each node's eth0 is a TUN device; this process reads what a node sends and, `delay_s` later, writes it to the device of the
node that it is for (10.77.0.N is node N). Packets keep the size that TCP gave them (up to 64 KB, checksums left to
whoever needs them), so a node at 1 Gbit/s is some thousand packets per second. How fast a node may send is not decided here:
namespaces.py sets tbf on the device. Linux, root.
"""

import collections
import fcntl
import os
import select
import struct
import time

# <linux/if_tun.h>
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
HEADER_BYTES = 10  # struct virtio_net_hdr, before each packet
MOST_BYTES = HEADER_BYTES + 65536


def open_tun(name):
    """A new TUN device of this network namespace, there as long as the file is open, wherever it is moved."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(file, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return file


def node_of(packet):
    """The node that an IPv4 packet is for; 0 for anything else."""
    is_ipv4 = len(packet) >= HEADER_BYTES + 20 and packet[HEADER_BYTES] >> 4 == 4
    destination = packet[HEADER_BYTES + 16 : HEADER_BYTES + 20]
    return destination[3] if is_ipv4 and destination[:3] == b"\x0a\x4d\x00" else 0


def carry(files, delay_s):
    """Carries packets between files {node: TUN device} for ever. Packets leave in the order in which they came."""
    waiting = collections.deque()  # (when it is due, device, packet)
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select(list(files.values()), [], [], timeout)
        for file in readable:
            try:
                packet = os.read(file, MOST_BYTES)
            except BlockingIOError:
                continue
            to = files.get(node_of(packet))
            if to is not None:
                waiting.append((time.monotonic() + delay_s, to, packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, to, packet = waiting.popleft()
            try:
                os.write(to, packet)
            except OSError:
                pass  # no room, or the node is gone: TCP sends it again
