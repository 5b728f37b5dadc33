"""torch's own TCPStore client, in both its variants, against our store server.

Usage: tcp_store_peer_test.py STORE_SERVER_MAIN
"""

import datetime
import subprocess
import sys
import threading
import unittest

from torch.distributed import DistError, DistNetworkError, DistStoreError, PrefixStore, TCPStore

SERVER = None  # path of the server program, from the command line


class StoreCalls:
    """Every call of the client; the subclasses choose the variant."""

    use_libuv = True

    def setUp(self):
        self.process = subprocess.Popen(
            [SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.store = self.connect()

    def tearDown(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()
        self.assertEqual(self.process.returncode, 0)

    def connect(self, host="127.0.0.1", timeout_s=30.0):
        return TCPStore(host, self.port, None, False,
                        timeout=datetime.timedelta(seconds=timeout_s), use_libuv=self.use_libuv)

    def test_set_and_get(self):
        self.store.set("k", "v")
        self.assertEqual(self.store.get("k"), b"v")
        self.store.set("empty", "")
        self.assertEqual(self.store.get("empty"), b"")

    def test_large_value(self):
        value = "x" * (5 << 20)
        self.store.set("large", value)
        self.assertEqual(len(self.store.get("large")), len(value))

    def test_add(self):
        self.assertEqual(self.store.add("n", 5), 5)
        self.assertEqual(self.store.add("n", -7), -2)
        self.assertEqual(self.store.get("n"), b"-2")

    def test_append(self):
        self.store.append("k", "ab")
        self.store.append("k", "cd")
        self.assertEqual(self.store.get("k"), b"abcd")

    def test_compare_set(self):
        self.assertEqual(self.store.compare_set("k", "", "first"), b"first")
        self.assertEqual(self.store.compare_set("k", "wrong", "second"), b"first")
        self.assertEqual(self.store.compare_set("k", "first", "second"), b"second")
        self.assertEqual(self.store.compare_set("absent", "old", "new"), b"old")
        self.assertFalse(self.store.check(["absent"]))

    def test_check_and_delete(self):
        self.store.set("k", "v")
        self.assertTrue(self.store.check(["k"]))
        self.assertTrue(self.store.delete_key("k"))
        self.assertFalse(self.store.delete_key("k"))
        self.assertFalse(self.store.check(["k"]))

    def test_num_keys_and_list_keys(self):
        self.store.set("a", "1")
        self.store.set("b", "2")
        self.assertEqual(self.store.num_keys(), 2)
        if hasattr(self.store, "list_keys"):
            self.assertEqual(sorted(self.store.list_keys()), ["a", "b"])

    def test_multi_set_and_multi_get(self):
        self.store.multi_set(["a", "b"], ["1", "22"])
        self.assertEqual(self.store.multi_get(["b", "a"]), [b"22", b"1"])

    def test_get_waits_for_another_client(self):
        other = self.connect()
        timer = threading.Timer(0.05, lambda: other.set("late", "v"))
        timer.start()
        self.assertEqual(self.store.get("late"), b"v")
        timer.join()

    def test_wait_times_out_and_the_connection_goes_on(self):
        with self.assertRaises(DistStoreError):
            self.store.wait(["never"], datetime.timedelta(milliseconds=50))
        self.assertEqual(self.store.add("n", 1), 1)
        self.store.set("never", "v")
        self.store.wait(["never"], datetime.timedelta(seconds=30))

    def test_prefix_store(self):
        prefixed = PrefixStore("outer", PrefixStore("inner", self.store))
        prefixed.set("k", "v")
        self.assertEqual(self.store.get("inner/outer/k"), b"v")
        self.assertEqual(prefixed.get("k"), b"v")

    def test_list_keys_through_a_prefix(self):
        prefixed = PrefixStore("p", self.store)
        prefixed.set("a", "1")
        self.store.set("other", "2")
        if hasattr(prefixed, "list_keys"):
            self.assertEqual(prefixed.list_keys(), ["a"])
        self.assertEqual(prefixed.num_keys(), 2)

    def test_every_call_through_a_prefix(self):
        prefixed = PrefixStore("p", self.store)
        self.assertEqual(prefixed.add("n", 2), 2)
        prefixed.append("k", "ab")
        self.assertEqual(prefixed.compare_set("k", "ab", "cd"), b"cd")
        prefixed.multi_set(["a", "b"], ["1", "2"])
        self.assertEqual(prefixed.multi_get(["a", "b"]), [b"1", b"2"])
        self.assertTrue(prefixed.check(["a", "k"]))
        prefixed.wait(["a"], datetime.timedelta(seconds=30))
        self.assertTrue(prefixed.delete_key("a"))

    def test_the_timeout_of_the_store_bounds_get(self):
        self.store.set_timeout(datetime.timedelta(milliseconds=50))
        with self.assertRaises(DistStoreError):
            self.store.get("never")
        self.assertEqual(self.store.timeout, datetime.timedelta(milliseconds=50))
        with self.assertRaises(DistStoreError):
            self.store.multi_get(["never"])

    def test_binary_values(self):
        value = bytes(range(256)) * 3
        self.store.set("k", value)
        self.assertEqual(self.store.get("k"), value)

    def test_clone(self):
        if not hasattr(self.store, "clone"):
            self.skipTest("this torch has no clone()")
        self.store.set("k", "v")
        self.assertEqual(self.store.clone().get("k"), b"v")

    def test_counts_workers_with_world_size(self):
        TCPStore("127.0.0.1", self.port, 2, False, timeout=datetime.timedelta(seconds=30),
                 wait_for_workers=False, use_libuv=self.use_libuv)
        self.store.set("k", "v")
        self.assertEqual(self.store.get("k"), b"v")

    def test_bad_counter_closes_only_that_connection(self):
        other = self.connect()
        self.store.set("n", "no number")
        with self.assertRaises(DistNetworkError):
            self.store.add("n", 1)
        self.assertEqual(other.add("m", 1), 1)

    def test_many_clients(self):
        clients = [self.connect() for _ in range(50)]
        for client in clients:
            client.add("n", 1)
        self.assertEqual(self.store.add("n", 0), 50)

    def test_server_end_is_an_error(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        with self.assertRaises(DistError):
            self.store.get("k")


class LibuvClient(StoreCalls, unittest.TestCase):
    use_libuv = True

    def test_queues(self):
        self.store.queue_push("q", "one")
        self.store.queue_push("q", "two")
        self.assertEqual(self.store.queue_len("q"), 2)
        self.assertEqual(self.store.queue_pop("q"), b"one")
        self.assertEqual(self.store.queue_pop("q"), b"two")
        self.assertEqual(self.store.queue_len("q"), 0)

    def test_queue_pop_without_blocking(self):
        with self.assertRaisesRegex(DistStoreError, "queue"):
            self.store.queue_pop("q", False)
        self.store.queue_push("q", "one")
        self.assertEqual(self.store.queue_pop("q", False), b"one")

    def test_queues_are_no_keys(self):
        self.store.queue_push("q", "one")
        self.assertEqual(self.store.num_keys(), 0)
        self.assertTrue(self.store.check(["q"]))
        self.assertFalse(self.store.delete_key("q"))
        self.assertEqual(self.store.queue_len("q"), 1)

    def test_queue_pop_waits_for_another_client(self):
        other = self.connect()
        timer = threading.Timer(0.05, lambda: other.queue_push("q", "late"))
        timer.start()
        self.assertEqual(self.store.queue_pop("q"), b"late")
        timer.join()


class LegacyClient(StoreCalls, unittest.TestCase):
    use_libuv = False


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main()
