"""The client of a server under load, in a process of its own: it asks for texts by their numbers, and times the answers.

python -P harness/measure/load_client.py SOCKET     the number of a file descriptor; ends with the other side
"""

import sys
import time
from multiprocessing.connection import Connection


def main(server: Connection) -> None:
    """Receives the seconds at which to ask for each text; sends, at the end, milliseconds from there to its answer."""
    arrivals = server.recv()
    began, asked = time.perf_counter(), 0
    latencies: dict[int, float] = {}
    while len(latencies) < len(arrivals):
        until = began + arrivals[asked] - time.perf_counter() if asked < len(arrivals) else None
        if until is not None and until <= 0:
            server.send(asked)
            asked += 1
        elif server.poll(until):
            answered = time.perf_counter() - began
            latencies |= {text: 1e3 * (answered - arrivals[text]) for text in server.recv()}
    server.send([latencies[text] for text in range(len(arrivals))])


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as connection:
        main(connection)
