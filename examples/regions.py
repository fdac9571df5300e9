"""The same in Python: `pip install .../libweigh/python`, `weigh run -- python3 regions.py`."""

import weigh


@weigh.region("exchange")
def exchange():
    pass


def solve(cells):
    with weigh.region("solve"):
        exchange()
        weigh.count("cells", cells)


weigh.metadata("input", "case-7")
for iteration in range(10):
    with weigh.phase("iteration", iteration):
        solve(4096)
        weigh.event("residual", 1 / (iteration + 1))
        weigh.publish()
print("done")
