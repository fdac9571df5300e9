# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ITT by its Python package; prints what it has done."""
import ittapi

domain = ittapi.domain("app")
for _ in range(41):
    with ittapi.task("step", domain=domain):
        with ittapi.task("inner"):
            pass
for _ in range(7):
    with ittapi.overlapped_task("copy", domain=domain):
        pass
event = ittapi.event("checkpoint")
for _ in range(13):
    event.begin()
    event.end()
print("calls 41 app:step", "calls 41 inner", "ranges 7 app:copy", "calls 13 checkpoint", sep="\n")
