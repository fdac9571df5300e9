"""Run by crates/cli/tests/calls/libweigh.rs, without an agent, as `python3 -m unittest`."""

import os
import subprocess
import sys
import time
import unittest

import weigh


class Alone(unittest.TestCase):
    def test_without_the_library_it_is_an_import_error(self):
        script = "try:\n    import weigh\nexcept ImportError as error:\n    print(error)"
        environment = {**os.environ, "WEIGH_LIBRARY": "/nowhere/libweigh.so"}
        said = subprocess.run(
            [sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        self.assertIn("/nowhere/libweigh.so", said)
        self.assertIn("install weigh", said)

    def test_regions_cost_nothing_and_say_so(self):
        @weigh.region("decorated")
        def seven():
            return 7

        with weigh.region("region"), weigh.phase("phase", 1):
            self.assertEqual(seven(), 7)
        weigh.count("count")
        weigh.publish()
        self.assertIsNone(weigh.poll_control())
        self.assertIn("no listener", weigh.regions_why())
        with self.assertRaises(TypeError):

            @weigh.region("elsewhere")
            async def other():
                pass

    def test_nothing_is_known_and_that_is_said(self):
        with weigh.account("nothing", ["block", "socket"]) as account:
            pass
        self.assertIn("no agent", account.why)
        self.assertEqual(account.calls, 1)
        self.assertGreater(account.time_seconds, 0)
        for value in (
            account.block.device_seconds,
            account.block.waiting_seconds,
            account.socket.sent_bytes_total,
            account.sched.run_queue_seconds,
            account.later.pending_total,
            account.later.block_written_bytes_total,
            account.later.lost_total,
            account.cycles,
        ):
            self.assertIsNone(value)
        self.assertEqual(account.unmeasured, {"block", "socket"})
        self.assertIn("no agent", account.why_part("block"))
        self.assertIn("has not asked for this part", account.why_part("sched"))

    def test_it_has_not_settled_and_nobody_waits(self):
        with weigh.account("alone") as account:
            pass
        never = weigh.account("never entered")
        began = time.monotonic()
        for nothing in (account, never):
            self.assertIsNone(nothing.settled)
            self.assertIsNone(nothing.wait())
        self.assertLess(time.monotonic() - began, 1)
        self.assertIn("no agent", account.watch())
        self.assertIsNone(weigh.descriptor())
        self.assertEqual(weigh.dispatch(), [])

    def test_parts_of_a_configuration_may_be_asked_for(self):
        self.assertEqual(weigh.own_parts(), frozenset())
        with weigh.account("own", ["socket"], own=["link_layer"]) as account:
            pass
        link = account.own("link_layer")
        for value in (link.time_seconds, link.entries_total, link.bytes_total, link.later_seconds):
            self.assertIsNone(value)
        self.assertEqual(account.unmeasured, {"socket", "link_layer"})
        self.assertIn("no agent", account.why_part("link_layer"))
        self.assertIn("no agent", weigh.want(["socket"], own=["link_layer"]))
        with self.assertRaises(AttributeError):
            link.nonsense
        with self.assertRaisesRegex(ValueError, "go into `own`"):
            weigh.account("own", ["link_layer"])
        with self.assertRaisesRegex(ValueError, "built in"):
            weigh.account("own", own=["block"])
        with self.assertRaises(TypeError):
            weigh.account("own", own="link_layer")

    def test_each_reason_has_an_error_that_fits(self):
        with self.assertRaisesRegex(ConnectionError, "no agent"):
            weigh.peer(1)
        reasons = weigh._fields.Reason
        self.assertIn("versions", weigh._library.text(reasons.OTHER_VERSION))
        self.assertIn("nobody measured it", weigh._library.text(reasons.NOT_THEN))
        expected = {
            reasons.NO_SERVER: ConnectionError,
            reasons.GONE: ConnectionError,
            reasons.OTHER_VERSION: ConnectionError,
            reasons.NOT_UNDERSTOOD: ConnectionError,
            reasons.NOT_PERMITTED: PermissionError,
            reasons.NO_RIGHTS: PermissionError,
            reasons.NO_PROCESS: ProcessLookupError,
            reasons.NO_MEMORY: MemoryError,
        }
        opened = weigh._library.open_peer
        try:
            for reason in reasons:
                weigh._library.open_peer = lambda pid, reason=reason: (None, reason)
                with self.assertRaises((OSError, MemoryError)) as refused:
                    weigh.peer(1)
                self.assertIs(type(refused.exception), expected.get(reason, OSError), reason)
                self.assertIn(weigh._library.text(reason), str(refused.exception))
        finally:
            weigh._library.open_peer = opened


if __name__ == "__main__":
    unittest.main()
