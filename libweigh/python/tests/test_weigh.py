"""Run by crates/cli/tests/calls/libweigh.rs, with an agent, as `python3 -m unittest`."""

import os
import pathlib
import select
import socket
import tempfile
import threading
import unittest

import weigh


class Weigh(unittest.TestCase):
    def test_bytes_are_exact(self):
        a, b = socket.socketpair()
        for _ in range(13):
            with weigh.account("request-17", subsystems=["socket"]) as account:
                a.send(bytes(1009))
            b.recv(1009)
        self.assertIsNone(account.why)
        self.assertEqual(account.calls, 13)
        self.assertRegex(
            repr(account), rf"token={account.token} calls=13 .* touched=\[.*'socket'.*\]>$"
        )
        self.assertEqual(account.socket.sent_bytes_total, 13 * 1009)
        self.assertEqual(account.socket.received_bytes_total, 0)
        self.assertIsNone(account.block.requests_total)
        self.assertIn("socket", account.touched)
        self.assertGreater(account.time_seconds, 0)
        account.release()
        self.assertEqual(account.calls, 0)
        self.assertIn("not read", repr(account))
        self.assertIsNone(account.socket.sent_bytes_total)
        self.assertIsNone(account.settled)
        self.assertIsNone(account.wait(5))
        self.assertIn("nothing was accounted", account.why)

    def test_a_limit_is_told_once_when_it_is_passed(self):
        a, b = socket.socketpair()

        def send(times):
            for _ in range(times):
                with weigh.account("limited", subsystems=["socket"]) as account:
                    a.send(bytes(1009))
                b.recv(1009)
            return account

        account = send(2)
        self.assertIsNone(account.limit("socket.sent_bytes_total", 3 * 1009))
        self.assertEqual(weigh.passed(), [])
        send(1)
        told = []
        while not told:
            self.assertTrue(select.select([weigh.descriptor()], [], [], 60)[0])
            told = weigh.passed()
        expected = (account.token, "socket.sent_bytes_total", 3 * 1009, 3 * 1009)
        self.assertEqual(told, [expected])
        # In seconds, where the number has them; one that was passed already is told soon.
        self.assertIsNone(account.limit("time_seconds", 1e-9))
        told = []
        while not told:
            self.assertTrue(select.select([weigh.descriptor()], [], [], 60)[0])
            told = weigh.passed()
        self.assertEqual((told[0].number, told[0].value), ("time_seconds", 1e-9))
        self.assertGreaterEqual(told[0].reached, told[0].value)
        account.limit("calls", 1000)
        account.unlimit("calls")
        for wrong in ("socket.sent", "sent_bytes_total", "socket._of", "nothing.at_all", ""):
            with self.assertRaisesRegex(ValueError, "expected calls, time_seconds, or PART.NUMBER"):
                account.limit(wrong, 1)
        with self.assertRaisesRegex(ValueError, "above 0"):
            account.limit("calls", 0)
        self.assertIn("nothing was accounted", weigh.account("never").limit("calls", 1))
        account.release()

    def test_what_was_not_asked_for_is_not_known(self):
        never = weigh.account("never entered", ["block"])
        self.assertIn("nothing was accounted", never.why)
        for value in (never.block.device_seconds, never.later.block_bytes_total, never.settled):
            self.assertIsNone(value)
        self.assertIn("nothing was accounted", never.why_part("block"))
        self.assertEqual(never.unmeasured, frozenset())
        with weigh.account("sockets", ["socket", "udp"]) as account:
            pass
        self.assertEqual(account.socket.sent_bytes_total, 0)
        self.assertEqual(account.udp.time_seconds, 0)
        self.assertEqual(account.later.pending_total, 0)
        self.assertEqual(account.later.udp_dropped_total, 0)
        self.assertIsNone(account.why_part("socket"))
        self.assertIsNone(account.block.device_seconds)
        self.assertIsNone(account.later.tcp_transmitted_bytes_total)
        self.assertIn("has not asked for this part", account.why_part("block"))
        self.assertIs(account.settled, True)
        with weigh.peer(os.getpid()) as peer:
            read = peer.read("sockets")
            self.assertEqual(read.socket.sent_bytes_total, 0)
            self.assertIsNone(read.block.device_seconds)
            self.assertIn("has not asked for this part", read.why_part("block"))
        account.release()
        with weigh.account("sockets", ["block"]) as account:
            pass
        self.assertIsNone(account.socket.sent_bytes_total, "it is another account")
        self.assertEqual(account.block.requests_total, 0)

    def test_what_is_written_back_is_known_where_the_page_cache_was_asked_for(self):
        with tempfile.NamedTemporaryFile(dir=os.environ["STORAGE"]) as file:
            for token, parts in (("without", ["block"]), ("with", ["block", "pagecache"])):
                with weigh.account(token, parts) as account:
                    os.pwrite(file.fileno(), bytes(40_000), 0)
                    os.fsync(file.fileno())
                self.assertGreaterEqual(account.block.transferred_bytes_total, 40_960)
                later, block = account.later, account.block
                values = (
                    block.written_bytes_total,
                    block.carried_bytes_total,
                    block.foreign_bytes_total,
                    later.block_written_bytes_total,
                    later.block_foreign_bytes_total,
                )
                if token == "with":
                    self.assertNotIn(None, values)
                    self.assertGreater(values[0] + values[3], 0)
                else:
                    self.assertEqual(values, (None,) * 5)
                    self.assertIn("has not asked", account.why_part("pagecache"))

    def test_counters_are_counted_or_said_not_to_be(self):
        with weigh.account("counted", ["sched"], counters=["cycles"]) as account:
            sum(range(1000))
        if "cycles" in weigh.subsystems():
            self.assertGreater(account.cycles, 1000)
            self.assertIsNone(weigh.why_part("cycles"))
        else:
            self.assertIsNone(account.cycles)
            self.assertIn("cycles", account.unmeasured)
            self.assertIn("no such counter", weigh.why_part("cycles"))
            self.assertIn("no such counter", account.why_part("cycles"))
        self.assertIsNone(account.instructions)
        self.assertNotIn("instructions", account.unmeasured)
        with self.assertRaises(ValueError):
            weigh.account(1, counters=["cyles"])

    def test_storage_is_waited_for(self):
        # A kernel that runs no program while a certain process has the CPU, such as the first of a
        # machine, may leave something pending for ever. And somebody else's sync may write the pages first.
        self.assertTrue(any(self.stores(token) for token in range(99, 115)))

    def stores(self, token):
        with tempfile.NamedTemporaryFile(dir=os.environ["STORAGE"]) as file:
            with weigh.account(token) as account:
                os.write(file.fileno(), bytes(300_000))
                os.fsync(file.fileno())
        # Whole pages, and the journal's.
        if account.block.transferred_bytes_total < 303_104:
            return False
        self.assertGreater(account.block.device_seconds, 0)
        self.assertLess(account.block.waiting_seconds, account.time_seconds)
        descriptor = weigh.descriptor()
        self.assertIsNone(account.watch())
        if not select.select([descriptor], [], [], 5)[0]:
            return False
        self.assertIn(token, weigh.dispatch())
        self.assertEqual(weigh.dispatch(), [], "it is told once")
        self.assertTrue(account.wait(0))
        self.assertTrue(account.settled)
        self.assertEqual(account.later.pending_total, 0)
        return True

    def test_what_found_no_room_is_counted_as_lost(self):
        # Of sixteen pages in a row nineteen owners are told apart; each account beyond loses what it wrote there. A
        # kernel thread that writes the pages meanwhile makes room for others: then it is tried again.
        self.assertIn([0] * 19 + [1] * 4, [self.owners(token) for token in range(700, 1000, 100)])

    def owners(self, first):
        accounts = []
        with tempfile.NamedTemporaryFile(dir=os.environ["STORAGE"]) as file:
            for number in range(23):
                with weigh.account(first + number, ["pagecache", "block"]) as account:
                    os.pwrite(file.fileno(), bytes(1009), number * 2048)
                self.assertIsNone(account.why)
                accounts.append(account)
            os.fsync(file.fileno())
            for account in accounts:
                account.wait(5)
                self.tells_of_its_loss(account)
            lost = [account.later.lost_total for account in accounts]
        for account in accounts:
            account.release()
        return lost

    def tells_of_its_loss(self, account):
        later, lost = account.later, account.later.lost_total
        values = (later.block_written_bytes_total, later.block_device_seconds)
        self.assertEqual(later.pending_total, 0)
        self.assertIsNone(account.why_part("pagecache"))
        if lost:
            self.assertEqual(values, (None, None))
            self.assertIn(f"{lost} thing", account.why_part("block"))
            self.assertRegex(repr(later), r"block_written_bytes_total=None .*at least so much>$")
            self.assertIn("found no room", repr(account))
        else:
            # Two wrote to each page, as much as each other.
            self.assertEqual(values[0], 2048)
            self.assertIsNone(account.why_part("block"))
            self.assertRegex(repr(later), r"^<weigh.Later .*block_written_bytes_total=2048 .*lost_total=0\b")
            self.assertNotIn("found no room", repr(account))

    def test_a_text_s_number_is_to_be_had(self):
        with weigh.account("req-2", ["socket"]) as account:
            pass
        self.assertEqual(weigh.token("req-2"), account.token)
        # What hashlib says, so that others can find it, too.
        self.assertEqual(account.token, 3835346158826075702)
        self.assertEqual(weigh.token(b"req-2"), account.token)
        self.assertEqual(weigh.token(17), 17)
        with weigh.peer(os.getpid()) as peer:
            self.assertEqual(peer.read(account.token).token, weigh.token("req-2"))

    def test_threads_add_up(self):
        def work():
            a, b = socket.socketpair()
            for _ in range(10):
                with weigh.account(b"shared"):
                    a.send(bytes(7))
                b.recv(7)

        threads = [threading.Thread(target=work) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with weigh.account(b"shared") as account:
            pass
        self.assertEqual(account.socket.sent_bytes_total, 9 * 10 * 7)
        self.assertEqual(account.calls, 91)

    def test_intervals_do_not_nest(self):
        with weigh.account(1) as outer:
            with weigh.account(2) as inner:
                pass
            self.assertIn("open already", inner.why)
            self.assertEqual(inner.calls, 0)
        self.assertEqual(outer.calls, 1)

    def test_an_error_ends_the_interval(self):
        with self.assertRaises(KeyError):
            with weigh.account(3):
                raise KeyError
        with weigh.account(4) as account:
            pass
        self.assertIsNone(account.why)

    def test_a_child_has_its_own(self):
        a, b = socket.socketpair()
        with weigh.account(5) as account:
            a.send(bytes(11))
        child = os.fork()
        if not child:
            with weigh.account(5) as account:
                a.send(bytes(3))
            os._exit(0 if account.socket.sent_bytes_total == 3 and weigh.why() is None else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(account.socket.sent_bytes_total, 11)

    def test_others_accounts(self):
        with weigh.account("mine") as mine:
            pass
        with weigh.peer(os.getpid()) as peer:
            self.assertEqual(peer.read("mine").calls, mine.calls)
            self.assertIsNone(peer.read("nobody's"))
            self.assertIn(mine.token, [account.token for account in peer])
            said = repr(peer.read("mine"))
            self.assertRegex(said, rf"^<weigh._Read token={mine.token} calls={mine.calls} .*touched=\[")
        with self.assertRaisesRegex(ProcessLookupError, "no such process"):
            weigh.peer(1)

    def test_its_own_limit_of_peers_is_told_from_the_agent_s(self):
        with weigh.account("mine"):
            pass
        peers = [weigh.peer(os.getpid()) for _ in range(64)]
        with self.assertRaisesRegex(OSError, "weigh_peer_close") as refused:
            weigh.peer(os.getpid())
        self.assertIs(type(refused.exception), OSError)
        for peer in peers:
            peer.close()
        weigh.peer(os.getpid()).close()

    def test_names_and_numbers_are_checked(self):
        with self.assertRaisesRegex(ValueError, "blok.*there are kernel, sched"):
            weigh.account(1, subsystems=["blok"])
        with self.assertRaises(ValueError):
            weigh.account(1 << 64)
        for wrong in (1.5, None, ["a"]):
            with self.assertRaisesRegex(TypeError, "is no token: expected an int, a str or bytes"):
                weigh.account(wrong)
        for wrong in ("block", 5):
            with self.assertRaisesRegex(TypeError, "subsystems=.*: expected a collection of names"):
                weigh.account(1, subsystems=wrong)
        with self.assertRaisesRegex(TypeError, "counters='cycles'"):
            weigh.account(1, counters="cycles")
        with self.assertRaisesRegex(TypeError, "subsystems='block'"):
            weigh.want("block")
        # All but the remainder, which is known only where the ends of calls are.
        self.assertEqual(weigh.subsystems(), set(weigh.SUBSYSTEMS) - {"kernel"})

    def test_what_is_not_wanted_is_not_measured_and_says_so(self):
        self.assertIsNone(weigh.want(["socket"]))
        self.assertIsNone(weigh.why_part("socket"))
        with weigh.account("half", subsystems=["socket", "kernel"]) as account:
            pass
        self.assertEqual(account.unmeasured, {"kernel"})
        self.assertIn("does not see this part", weigh.why_part("kernel"))
        self.assertIn("does not see this part", account.why_part("kernel"))
        with weigh.peer(os.getpid()) as peer:
            self.assertIn("does not see this part", peer.read("half").why_part("kernel"))
        self.assertIsNone(weigh.want(None))
        with weigh.account("whole", subsystems=["block", "socket"]) as account:
            pass
        self.assertEqual(account.unmeasured, frozenset())

    def test_what_finds_no_account_says_so_and_is_counted(self):
        before, taken, last = weigh.refused(), [], None
        while len(taken) <= 1024 and not last:
            with weigh.account(f"taken {len(taken)}", ["sched"]) as account:
                pass
            last = account.why
            taken.append(account)
        self.assertIn("all accounts are taken", last or "")
        self.assertEqual(taken[-1].unmeasured, {"sched"})
        self.assertIsNone(taken[-1].sched.waiting_seconds)
        self.assertIsNone(taken[-1].settled)
        self.assertIn("all accounts are taken", taken[-1].why_part("sched"))
        self.assertEqual(weigh.refused(), before + 1)
        for account in taken:
            account.release()
        with weigh.account("there is room again", ["sched"]) as account:
            pass
        self.assertIsNone(account.why)
        self.assertEqual(weigh.refused(), before + 1)
        account.release()

    def test_it_is_the_one_that_was_installed(self):
        self.assertTrue((pathlib.Path(weigh.__file__).parent / "libweigh.so").exists())


if __name__ == "__main__":
    unittest.main()
