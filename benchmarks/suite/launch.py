"""Runs commands one after the other and prints what they took: launch.py '[[WORD, ...], ...]'.

It imports next to nothing: a process that is started counts the memory of the one that started it.
Python keeps its bytecode, as it does unless told otherwise: compiling all modules takes seconds.
"""

import json
import os
import sys
import time


def main() -> None:
    """Run them all; the first that fails ends it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began, cpu, peak = time.perf_counter(), 0.0, 0
    for command in json.loads(sys.argv[1]):
        quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        child = os.posix_spawnp(command[0], command, environment, file_actions=quiet)
        _, status, used = os.wait4(child, 0)
        if status:
            raise SystemExit(f"{command} ended with status {os.waitstatus_to_exitcode(status)}.")
        cpu, peak = cpu + used.ru_utime + used.ru_stime, max(peak, used.ru_maxrss << 10)
    print(json.dumps({"wall_s": time.perf_counter() - began, "cpu_s": cpu, "peak_rss": peak}))


main()
