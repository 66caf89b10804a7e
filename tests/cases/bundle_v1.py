"""Writes bundle_v1.tar.zst: bundle format 1 as docs/cache.md gives it, around entry_v1.kwe, without any of the library's code.

Needs the Python packages xxhash and zstandard. The golden bundle of the tests was made by it once:

    python3 bundle_v1.py bundle_v1.tar.zst
"""
import pathlib
import sys

import zstandard

from entry_v1 import COMPILER, KEY, hash128

ENTRY = (pathlib.Path(__file__).parent / "entry_v1.kwe").read_bytes()
RECORD_NAME = hash128(COMPILER).hex()
RECORD = b"""format = 1
name = "nvrtc"
version = "13.0"

[[component]]
name = "libnvrtc"
id = "0123abcd"

[[component]]
name = "libnvrtc-builtins"
id = "feedbeef"
"""
FIT = b"""format = 1

[[fit]]
template = "demo/scale"
specialisation = "heads=8 dtype=bf16"
target = "sm_90a"
device = "NVIDIA H200"
capability_major = 9
capability_minor = 0
shared_memory_per_block = 232448
compiler = "nvrtc 13.0"
asked = "mma:m128n64s3w8"
fitted = "mma:m64n32s2w8"
reason = "300000 bytes of shared memory were asked for, the device has 232448"
"""
FIT_KEY = "00112233445566778899aabbccddeeff"
MANIFEST = f"""format = 1
entries = 1
fits = 1
targets = ["sm_90a"]

[[compiler]]
record = "{RECORD_NAME}"
name = "nvrtc"
version = "13.0"
""".encode()


def member(name, content):
    header = bytearray(512)

    def put(offset, text):
        header[offset:offset + len(text)] = text.encode()

    put(0, name)
    put(100, "000644 \x00000000 \x00000000 \x00")
    put(124, f"{len(content):011o} {0:011o} ")
    put(148, " " * 8)
    put(156, "0")
    put(257, "ustar\x0000")
    put(329, "000000 \x00000000 \x00")
    put(148, f"{sum(header):06o}\x00 ")
    return bytes(header) + content + bytes(-len(content) % 512)


ARCHIVE = (
    member("bundle.toml", MANIFEST)
    + member(f"compilers/{RECORD_NAME}.toml", RECORD)
    + member(f"entries/{KEY.hex()[:2]}/{KEY.hex()}.kwe", ENTRY)
    + member(f"fits/{FIT_KEY}.toml", FIT)
    + bytes(1024)
)

if __name__ == "__main__":
    compressor = zstandard.ZstdCompressor(level=9, write_checksum=True, write_content_size=False)
    pathlib.Path(sys.argv[1]).write_bytes(compressor.compress(ARCHIVE))
