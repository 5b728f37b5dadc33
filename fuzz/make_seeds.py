#!/usr/bin/env python3
"""Writes a first corpus for each fuzzer: make_seeds.py FOLDER makes FOLDER/<fuzzer>/*.

What fuzzers find out slowly, or never: the frames of real clients, the texts that peers write, the
flags by name.
"""

import json
import pathlib
import struct
import sys

VALIDATE = b"\x00" + struct.pack("<I", 0x3C85F7CE)
PING = b"\x0d" + struct.pack("<I", 7)


def text(value):
    return struct.pack("<Q", len(value)) + value


def texts(*values):
    return struct.pack("<Q", len(values)) + b"".join(text(value) for value in values)


def pairs(*values):
    return struct.pack("<Q", len(values)) + b"".join(text(k) + text(v) for k, v in values)


REQUESTS = [
    VALIDATE + PING,
    b"\x01" + text(b"/k") + text(b"v"),
    b"\x02" + text(b"/k") + text(b"") + text(b"new"),
    b"\x03" + text(b"/k"),
    b"\x04" + text(b"init/") + struct.pack("<q", 1),
    b"\x05" + texts(b"/k", b"/q"),
    b"\x06" + texts(b"/k", b"/absent"),
    b"\x07",
    b"\x08" + text(b"/k"),
    b"\x09" + text(b"/k") + text(b"more"),
    b"\x0a" + texts(b"/k", b"/k"),
    b"\x0b" + pairs((b"/a", b"1"), (b"/b", b"22")),
    b"\x0c",
    b"\x0e" + text(b"/q") + text(b"one"),
    b"\x0f" + text(b"/q"),
    b"\x10" + text(b"/q"),
    b"\x11",
    b"\x12" + text(b"/b") + struct.pack("<q", 2),
]
REPLIES = {
    0x05: b"\x01", 0x06: b"\x00", 0x0d: struct.pack("<I", 7), 0x04: struct.pack("<q", -2),
    0x03: text(b"value"), 0x0a: text(b"1") + text(b""),
    0x0f: struct.pack("<q", 2) + text(b"one"),
    0x11: struct.pack("<q", 2) + text(b"/a") + text(b"/b"),
}


def wire():
    for segment in (0, 3, 15):
        yield bytes([0x80, segment]) + b"".join(REQUESTS)
    for request in REQUESTS:
        yield b"\x80\x00" + request
    for op, reply in REPLIES.items():
        yield bytes([op, 1, 2]) + reply


def histories():
    # Each request by name, then the wait of one connection that another one ends.
    for op in range(0x13):
        yield bytes([0, op, 1, 0, 2, 4, 2, 0, 2, 1, 4])
    wait = bytes([0, 6, 0, 0, 0, 0, 2, 0, 0, 1, 0])
    yield wait + bytes([1, 1, 0, 0, 4, 0, 0]) + bytes([1, 1, 0, 1, 4, 0, 0])
    yield wait + bytes([0, 12, 0, 0, 0, 0, 0]) + b"\xf0"
    yield b"".join(bytes([who, 0x12, 3, 0, 0, 0, 0]) for who in range(3))


def sessions():
    begin = b"".join(bytes([who, 0xFF]) for who in range(3))
    yield begin
    for op in range(0x13):
        yield begin + bytes([0, 0, op, 1, 0, 2, 4, 2, 0]) + b"\x00\xb0"
    yield begin + b"\x00\x9f" * 3 + b"\x00\xb0" * 3 + b"\x00\xc0"


def clients():
    def request(who, op, *, how=4, number=1, key=0, more=b"\2\4"):
        return bytes([who, how, op, number, key]) + more
    keys = b"\0\0\2\0\0\1\0"  # value, expected, two keys with their values
    for op in range(0x13):
        yield request(0, op) + request(1, op) + b"\0\xf0"
        yield request(0, op, how=3) + b"\5" + request(1, op, how=1) + b"\0\xf0"
    wait = request(0, 6, more=keys)
    for create in (0x01, 0x02, 0x04, 0x09, 0x0e, 0x12):
        both = request(2, create, more=keys) + request(3, create, key=1, more=keys)
        yield wait + request(1, 6, more=keys) + both
        yield wait + b"\0\xee" + request(1, 6, more=keys) + both
        yield wait + request(0, 12, more=keys) + both + wait
    barrier = [request(who, 0x12, number=3, more=keys) for who in range(4)]
    yield b"".join(barrier) + barrier[0] + b"\0\xee" + b"".join(barrier)
    # Beyond the limits of entries and of a value.
    yield request(0, 0x0e, more=keys) * 12 + request(1, 0x01, key=1, more=keys)
    yield b"\0\xc2\0" * 5 + request(1, 0x0a, more=keys)
    # One client takes nothing, sets a long value and asks for it, again and again.
    yield b"\0\xd0" + b"\0\xc7\0" * 9 + b"\0\xf0\0\xd0\0\xf0"


def peer_texts():
    role = {"role": "default", "rank": 1, "local_world_size": 2}
    note = {"node": 2, "kind": "failed", "message": "rank 5 was killed by SIGKILL"}
    hello = {"type": "hello", "protocol": 1, "run_id": "job", "min_nodes": 1, "max_nodes": 2}
    wait = {"peer": "1.2.3.4:5", "keys": ["/k"], "num_keys": 1, "barrier": False, "waited_ms": 5}
    status = {"connections": 1, "keys": 1, "queue_elements": 0, "bytes": 3, "buffered_bytes": 0,
              "num_waits": 1, "waits": [wait]}
    socket = "  0: 0100007F:733C 0000000000000000FFFF00000100007F:9C40 01 0:0 0:0 0 0 0 54321 1\n"
    for reader, value in [(0, json.dumps(role)), (0, "[0, 4, 0, 4]"), (1, json.dumps(note)),
                          (2, json.dumps(hello)), (3, json.dumps(status)), (4, "[::1]:29500"),
                          (4, "node7:29400"), (6, socket),
                          (5, "gpu[01-03,7]-ib,r[1-2]n[08-11], login")]:
        yield bytes([reader]) + value.encode()
    # Deeper and longer than may be, around what each reader expects.
    for reader, value in enumerate([role, note, hello, status]):
        for depth, length in [(60, 0), (255, 0), (0, 255)]:
            yield bytes([128 + reader, depth, length]) + json.dumps(value | {"more": "@"}).encode()


def options():
    for words in (["--nnodes=1:4", "--nproc-per-node", "gpu", "--rdzv_backend=c10d", "train.py"],
                  ["PET_NNODES=2", "-r", "0:1,1:2", "--tee=3", "-m", "package.module", "--lr=1"],
                  ["--rdzv_conf=join_timeout=5,is_host=0", "--rdzv_endpoint=[::1]:29400", "a"],
                  ["--set", "a.b=1", "--sweep", "c=1,2", "--dry_run", "train.json"],
                  ["--max_restarts=3", "--signals_to_handle=SIGTERM,SIGINT", "--no_python", "x"]):
        yield "\n".join(words).encode()


def configs():
    gpt = {"model": {"type": "gpt"}, "data": {"train_files": ["a", "b*"]}}
    mlp = {"model": {"type": "mlp", "layer_sizes": [4, 2]}, "optimizer": {"type": "sgd"},
           "data": {"format": "random", "num_samples": 8, "input_size": 4, "target_size": 2}}
    sets = "\n--\nrun.seed=7\nstrategy.bucket_cap_mb=auto\ndata.shuffle=false"
    yield (json.dumps(gpt) + sets).encode()
    yield (json.dumps(mlp, indent=1) + "\n--\noptimizer.momentum=0.9").encode()
    yield b'// a\n{ "model": { "type": "bert", /* b */ "dropout": 1e-1, }, "data": [1,], }\n'
    yield (json.dumps(mlp) + '\n--\ntraining.lr=1\nmodel.rope_scaling={"factor": 4}').encode()


def torch_pickles():
    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\6tQ"
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage +
              b"K\0K\2K\3\x86K\3K\1\x86\x89ccollections\nOrderedDict\n)RtR")
    key = b"X\1\0\0\0"
    yield b"\x80\2}q\0(" + key + b"a" + tensor + key + b"b" + tensor + b"u."
    yield b"\x80\2ccollections\nOrderedDict\n)Rq\1" + key + b"a" + tensor + b"s}b."
    yield (b"\x80\2}(" + key + b"m}" + key + b"wctorch._utils\n_rebuild_parameter\n(" + tensor +
           b"\x88NtRs" + key + b"l](K\1G?\xf0\0\0\0\0\0\0\x8a\2\0\1\x88Neu.")
    yield b"\x80\4\x95" + bytes(8) + b"}\x94\x8c\1a\x8c\5torch\x8c\4Size\x93K\1\x85\x85Rs."
    yield b"\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."
    yield b"}q\0" + key + b"ah\0s."


def nccl_dumps():
    def pickled(value):
        if isinstance(value, dict):
            return b"}(" + b"".join(pickled(k) + pickled(v) for k, v in value.items()) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(pickled(item) for item in value) + b"e"
        if isinstance(value, str):
            return b"X" + struct.pack("<I", len(value)) + value.encode()
        return b"\x8a\x08" + struct.pack("<q", value)
    call = {"process_group": ["0", "default_pg"], "collective_seq_id": 2, "is_p2p": 0,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[4, 8], []], "state": "started",
            "input_dtypes": ["Float", "Long"], "p2p_seq_id": 1,
            "frames": [{"name": "step", "filename": "/t.py", "line": 8}]}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    yield b"\x80\2" + pickled({"version": "2.10", "pg_config": config, "entries": [call]}) + b"."
    yield b"\x80\2X\1\0\0\0aq\0K\1M\1\2J\xff\xff\xff\xff\x86h\0\x85\x87N\x88G12345678(t)\x86."


def commits():
    yield (b"ddprun checkpoint 2\nstep 1200\nattempt f3a9\nscore 0.25\n"
           b"file 4096 0a1b2c3d index.json\n"
           b"file 52428800 9e8d7c6b shard-00000-of-00001.safetensors\n")
    yield b"ddprun checkpoint 1\nattempt 1\nscore -inf\n"
    yield b"ddprun checkpoint 3\nstep 1\n"


def handshakes():
    hello = b"DDPRUN\x01" + bytes(32)
    yield b"\x00\x01\x02\x05\x07"
    yield b"\x01\x40C" + bytes(64)
    yield b"\x05\x02R\x02\x01"
    yield b"\x02\x26" + hello + b"\x20P" + bytes(32)
    yield b"\x03\x20P" + bytes(32)


def main():
    root = pathlib.Path(sys.argv[1])
    for name, make in [("wire", wire), ("store_state", histories), ("store_session", sessions),
                       ("store_clients", clients), ("peer_text", peer_texts), ("options", options),
                       ("config", configs), ("torch_pickle", torch_pickles),
                       ("nccl_dump", nccl_dumps),
                       ("commit", commits), ("handshake", handshakes)]:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(make()):
            (folder / f"seed{number:02}").write_bytes(seed)


if __name__ == "__main__":
    main()
