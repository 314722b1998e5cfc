"""A link that delays, reorders, duplicates and drops packets without the kernel's netem, which not every kernel has.
The machine's network device is plugged into a bridge of its own, and a thread forwards each packet to the other
machines' bridge after the packet's delay."""
import contextlib
import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time

import emulated_lan as lan

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
LONGEST_QUEUE = 4096  # packets


class LateLink:
    """A link that works normally until engage(). `port` is the network device that leads to the machine."""

    def __init__(self, port, number, seed):
        self.port, self.bridge = port, f"cvyl{number}"
        self.draw = random.Random(seed)
        self.over = threading.Event()
        lan.sh("ip", "link", "del", self.bridge, check=False)  # left over from a run that was killed
        lan.sh("ip", "link", "add", "name", self.bridge, "type", "bridge")
        lan.sh("ip", "link", "set", self.bridge, "up")
        self.ends = [self.plug(f"cvyn{number}", self.bridge), self.plug(f"cvyf{number}", lan.BRIDGE)]
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    @staticmethod
    def plug(name, bridge):
        """Adds a TAP device to a bridge and returns its file, from which this process reads and writes packets."""
        file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        lan.sh("ip", "link", "set", name, "master", bridge)
        lan.sh("ip", "link", "set", name, "up")
        return file

    def engage(self):
        lan.sh("ip", "link", "set", self.port, "master", self.bridge)

    def heal(self):
        lan.sh("ip", "link", "set", self.port, "master", lan.BRIDGE)

    def fate(self):
        """The delays, in seconds, of the copies of one packet. Delays are random, so some packets overtake others."""
        kind = self.draw.random()
        if kind < 0.01:
            return []
        delays = [self.draw.uniform(0.02, 0.06)]
        return delays * 2 if kind < 0.02 else delays

    def carry(self):
        queue, packets = [], 0
        while not self.over.is_set():
            wait = max(0.0, queue[0][0] - time.monotonic()) if queue else 0.1
            for file in select.select(self.ends, [], [], min(wait, 0.1))[0]:
                with contextlib.suppress(BlockingIOError):
                    packet = os.read(file, 65536)
                    other = self.ends[1 - self.ends.index(file)]
                    for delay in self.fate() if len(queue) < LONGEST_QUEUE else []:
                        packets += 1
                        heapq.heappush(queue, (time.monotonic() + delay, packets, other, packet))
            while queue and queue[0][0] <= time.monotonic():
                _, _, file, packet = heapq.heappop(queue)
                with contextlib.suppress(OSError):  # a full device drops packets, as network cards do
                    os.write(file, packet)

    def close(self):
        self.over.set()
        self.thread.join()
        for file in self.ends:
            os.close(file)  # closing the file removes the device
        lan.sh("ip", "link", "del", self.bridge, check=False)
