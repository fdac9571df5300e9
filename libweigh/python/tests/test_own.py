"""Run by crates/cli/tests/calls/libweigh_configured.rs, with an agent that has examples/link-layer.toml, as `python3 -m unittest`."""

import os
import socket
import unittest

import weigh

#: What comes before the payload of a datagram at a device.
HEADERS = 14 + 20 + 8


class Own(unittest.TestCase):
    def setUp(self):
        self.to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to.bind(("127.0.0.1", 0))
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.to.close)
        self.addCleanup(self.sender.close)

    def send(self, account, count, size):
        with account:
            for _ in range(count):
                self.sender.sendto(bytes(size), self.to.getsockname())
        return account

    def test_an_own_part_has_its_numbers_by_name(self):
        account = self.send(weigh.account("own", ["socket"], own=["link_layer"]), 29, 1009)
        self.assertIsNone(account.why)
        self.assertEqual(account.socket.sent_bytes_total, 29 * 1009)
        link = account.own("link_layer")
        values = (link.entries_total, link.bytes_total, link.later_total)
        if "IS_PROBED" in os.environ:
            self.assertEqual(values, (29, 29 * (1009 + HEADERS), 0))
            self.assertGreater(link.time_seconds, 0)
            self.assertIsNone(account.why_part("link_layer"))
            self.assertIn("link_layer", account.touched)
            self.assertIn("bytes_total=30479", repr(link))
            self.assertIn("link_layer", weigh.subsystems())
        else:
            self.assertEqual(values, (None, None, None))
            self.assertIsNone(link.time_seconds)
            self.assertIn("lets no function be probed", account.why_part("link_layer"))
            self.assertIn("lets no function be probed", weigh.why_part("link_layer"))
            self.assertEqual(account.unmeasured, {"link_layer"})
            self.assertNotIn("link_layer", weigh.subsystems())
        with self.assertRaisesRegex(AttributeError, "captured are bytes_total"):
            link.packets_total
        with weigh.peer(os.getpid()) as peer:
            read = peer.read("own").own("link_layer")
            self.assertEqual((read.entries_total, read.bytes_total, read.later_total), values)

    def test_all_is_with_own_parts_and_some_are_without(self):
        self.assertEqual(weigh.own_parts(), {"link_layer"})
        account = self.send(weigh.account("all"), 3, 100)
        seen = account.touched | account.unmeasured
        self.assertIn("link_layer", seen)
        account = self.send(weigh.account("some", ["socket"]), 3, 100)
        self.assertNotIn("link_layer", account.touched | account.unmeasured)
        self.assertIsNone(account.own("link_layer").entries_total)
        self.assertIn("has not asked", account.why_part("link_layer"))

    def test_what_is_left_out_is_said_to_be(self):
        account = self.send(weigh.account("left out", ["memory", "socket"]), 3, 100)
        self.assertIsNone(account.memory.allocations_total)
        for why in (account.why_part("memory"), weigh.why_part("memory")):
            self.assertEqual(why, f"the agent's configuration leaves this part out: {os.environ['CONFIGURATION']}")
        self.assertEqual(account.unmeasured, {"memory"})

    def test_what_the_configuration_does_not_define_is_said_to_be_so(self):
        account = self.send(weigh.account("unknown", ["socket"], own=["no_such"]), 3, 100)
        self.assertEqual(account.socket.sent_bytes_total, 300)
        self.assertIsNone(account.own("no_such").bytes_total)
        self.assertEqual(account.unmeasured, {"no_such"})
        why = "the agent's configuration defines no part 'no_such'; it defines link_layer"
        self.assertEqual(account.why_part("no_such"), why)
        self.assertEqual(weigh.want(["socket"], own=["no_such"]), why)
        self.assertIsNone(weigh.want(None))


if __name__ == "__main__":
    unittest.main()
