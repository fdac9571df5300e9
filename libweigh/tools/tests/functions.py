# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Calls functions of a module that was chosen, and of itself, which was not; prints what it has done."""
import sys

import annotated_module


def own():
    annotated_module.Model().step()


for _ in range(23):
    own()
total = sum(annotated_module.numbers())
for _ in range(3):
    try:
        annotated_module.fails()
    except ValueError:
        pass
# A generator goes on six times.
print("calls 23 annotated_module.Model.step", "calls 28 annotated_module.inner", "calls 6 annotated_module.numbers",
      "calls 3 annotated_module.fails", sep="\n")
print("path", total, [entry for entry in sys.path if "weigh-" in entry and "python" in entry],
      "sitecustomize" in sys.modules, file=sys.stderr)
