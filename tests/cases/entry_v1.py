"""Writes entry_v1.kwe and prints its key: entry format version 1 as docs/cache.md gives it, without any of the library's code.

Needs the Python packages xxhash and zstandard. The golden entry and key in the tests were made by it once:

    python3 entry_v1.py entry_v1.kwe
"""
import struct
import sys

import xxhash
import zstandard


def field(tag, value):
    if isinstance(value, int):
        value = struct.pack("<q", value)
    elif isinstance(value, float):
        value = struct.pack("<d", value)
    elif isinstance(value, str):
        value = value.encode()
    return struct.pack("<I", len(tag)) + tag.encode() + struct.pack("<Q", len(value)) + value


def fields(*pairs):
    return b"".join(field(tag, value) for tag, value in pairs)


def hash128(data):
    return xxhash.xxh3_128(data).digest()


SOURCES = [
    ("demo/scale_mma.cu", '#include "demo/scale_plan.cuh"\nextern "C" __global__ void scale() {}\n'),
    ("demo/scale_plan.cuh", "#pragma once\n// caf\u00e9\n"),
    ("kernwright/specialisation.cuh", "#pragma once\n"),
]
DTYPE_BF16 = 1


def request(with_content):
    out = fields(
        ("request", 1), ("kind", "kernel"), ("template", "demo/scale"), ("entry", "scale"),
        ("parameters", 2),
        ("name", "heads"), ("kind", "int"), ("value", 8),
        ("name", "dtype"), ("kind", "dtype"), ("value", DTYPE_BF16),
        ("tiles", 1),
        ("variant", "mma"), ("block_m", 64), ("block_n", 32), ("stages", 2), ("warps", 8),
        ("target", "sm_90a"),
        ("sources", len(SOURCES)),
    )
    for name, text in SOURCES:
        content = text.encode()
        out += field("name", name)
        out += field("content", content) if with_content else field("digest", hash128(content))
    return out + fields(("options", 2), ("option", "--std=c++20"), ("option", "-lineinfo"))


COMPILER = fields(
    ("compiler", 1), ("name", "nvrtc"), ("version", "13.0"), ("components", 2),
    ("name", "libnvrtc"), ("id", "0123abcd"), ("name", "libnvrtc-builtins"), ("id", "feedbeef"),
)
KEY = hash128(fields(("request", request(True)), ("compiler", COMPILER)))

PLAN = struct.pack("<8i", 1, 256, 73728, 64, 0, 1, 0, 48)
BINARY = bytes(i * 7 % 256 for i in range(1000))
LOG = b"ptxas info : Used 96 registers\0and more\n"
CLOSURE = field("sources", len(SOURCES)) + b"".join(fields(("name", name), ("content", text)) for name, text in SOURCES)
FRAME = zstandard.ZstdCompressor(level=9).compress(CLOSURE)

HEADER = fields(
    ("key", KEY), ("request", request(False)), ("compiler", COMPILER), ("plans", PLAN),
    ("registers", 96), ("static_shared", 1024), ("stack_frame", 16), ("spill_stores", 4), ("spill_loads", 8),
    ("compile_seconds", 0.125),
    ("binary", len(BINARY)), ("log", len(LOG)), ("closure", len(FRAME)), ("closure_bytes", len(CLOSURE)),
)
BODY = HEADER + BINARY + LOG + FRAME
ENTRY = b"\x89KWE\r\n\x1a\n" + struct.pack("<II", 1, len(HEADER)) + hash128(BODY) + BODY

if __name__ == "__main__":
    print("key", KEY.hex())
    print("entry", len(ENTRY), "bytes")
    with open(sys.argv[1], "wb") as file:
        file.write(ENTRY)
