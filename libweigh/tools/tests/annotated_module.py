# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions that are to be regions."""


def inner(number):
    return number


def numbers():
    for number in range(5):
        yield inner(number)


def fails():
    raise ValueError


class Model:
    def step(self):
        return inner(1)
