# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NVTX by its Python package; prints what it has done."""
import threading

import nvtx


@nvtx.annotate("decorated")
def decorated():
    pass


def steps(number):
    for _ in range(number):
        with nvtx.annotate("solve"):
            with nvtx.annotate("inner", domain="lib"):
                decorated()


steps(37)
thread = threading.Thread(target=steps, args=(5,))
thread.start()
thread.join()
for _ in range(11):
    late = nvtx.start_range("late")
    nvtx.end_range(late)
for _ in range(3):
    nvtx.mark("checkpoint")
nvtx.pop_range()
print("calls 42 solve", "calls 42 lib:inner", "calls 42 decorated", "ranges 11 late", "events 3 checkpoint", sep="\n")
