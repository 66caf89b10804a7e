"""The package's idea of the C header's structs and statuses against the header itself."""

from __future__ import annotations

import ctypes
import os
import re
import unittest

from kernwright import _errors, _library

HEADER = os.environ.get("KERNWRIGHT_HEADER", "")
ALIASES = {"kw_switch": "int32_t", "kw_device": "int32_t", "kw_dtype": "int32_t", "kw_log_level": "int32_t", "kw_host_mode": "int32_t",
           "kw_cache_source": "int32_t", "kw_warm_outcome": "int32_t"}
TYPES = {"size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double,
         "const char*": ctypes.c_char_p, "void*": ctypes.c_void_p}
MIRRORS = {
    "kw_runtime_options": _library.RuntimeOptions, "kw_device_info": _library.DeviceInfo, "kw_counters": _library.Counters,
    "kw_source_file": _library.SourceFile, "kw_template_source": _library.TemplateSource, "kw_prepare_request": _library.PrepareRequest,
    "kw_plan": _library.Plan, "kw_prepare_report": _library.PrepareReport, "kw_warm_request": _library.WarmRequest,
    "kw_warm_progress": _library.WarmProgress, "kw_warm_options": _library.WarmOptions, "kw_warm_summary": _library.WarmSummary,
    "kw_warm_item": _library.WarmItem, "kw_sparse_mla_prefill_options": _library.SparseMlaPrefillOptions,
}


@unittest.skipUnless(HEADER, "KERNWRIGHT_HEADER does not name kernwright.h")
class Structs(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        with open(HEADER, encoding="utf-8") as file:
            cls.text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)

    def members(self, struct: str) -> list[tuple[str, str, int]]:
        """(name, type, array extent) of each member."""
        body = re.search(r"typedef struct " + struct + r" \{(.*?)\} " + struct + ";", self.text, re.DOTALL)
        assert body is not None, struct
        found = []
        for line in body.group(1).split(";"):
            if not line.strip():
                continue
            match = re.fullmatch(r"\s*(.+?)\s*(\w+)(?:\[(\d+)\])?\s*", line, re.DOTALL)
            assert match is not None, line
            found.append((match.group(2), match.group(1), int(match.group(3) or 0)))
        return found

    def test_every_mirror_has_the_members_of_the_header_in_order(self) -> None:
        for struct, mirror in MIRRORS.items():
            with self.subTest(struct=struct):
                members = self.members(struct)
                self.assertEqual([name for name, _ in mirror._fields_], [name for name, _, _ in members])
                for (name, mirrored), (_, declared, extent) in zip(mirror._fields_, members):
                    expected = TYPES.get(ALIASES.get(declared, declared))
                    if extent:
                        self.assertEqual(ctypes.sizeof(mirrored), extent, name)
                    elif expected is not None:
                        self.assertIs(mirrored, expected, name)
                    else:  # pointers to others, callbacks
                        self.assertEqual(ctypes.sizeof(mirrored), ctypes.sizeof(ctypes.c_void_p), name)

    def test_every_status_has_its_name(self) -> None:
        listed = re.findall(r"KW_([A-Z_]+) = (\d+)", self.text[self.text.index("typedef int32_t kw_status"):].split("};", 1)[0])
        self.assertEqual([(name.lower(), int(number)) for name, number in listed],
                         [(name, number) for number, name in enumerate(_errors.STATUS_NAMES)])
        for number, name in enumerate(_errors.STATUS_NAMES):
            answered = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int32)(("kw_status_name", _library.library))(number)
            self.assertEqual(answered.decode(), name)


if __name__ == "__main__":
    unittest.main()
