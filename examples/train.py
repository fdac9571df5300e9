#!/usr/bin/env python3
"""A small job with the usual faults of I/O, for the tutorial (docs/tutorial.md).

usage: train.py prepare    makes the folder `data` (6 MB)
       train.py            reads it, three times over, and writes `train.log` and `model.bin`
"""

import csv
import os
import sys

TABLE, PARTS, EPOCHS = "data/table.csv", "data/parts", 3


def prepare():
    os.makedirs(PARTS, exist_ok=True)
    with open(TABLE, "w") as table:
        table.writelines(f"{row},some text,{row * 3}\n" for row in range(200_000))
    for part in range(200):
        with open(f"{PARTS}/{part:03}", "wb") as file:
            file.write(b"x" * 2000)


def train():
    weights = bytearray(40 << 20)
    with open("train.log", "w", buffering=1) as log:
        for epoch in range(EPOCHS):
            with open(TABLE) as table:
                total = sum(int(row[0]) for row in csv.reader(table))
            for part in os.listdir(PARTS):
                with open(f"{PARTS}/{part}", "rb") as file:
                    total += len(file.read())
            for step in range(2000):
                print(epoch, step, total, file=log)
    with open("model.bin", "wb") as model:
        model.write(weights)
        os.fsync(model.fileno())


prepare() if sys.argv[1:] == ["prepare"] else train()
