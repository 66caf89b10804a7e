// Any text is read or refused with a message; any bytes, quoted, are TOML.
#include "fuzz_target.hpp"
#include "manifest/toml_reader.hpp"

using namespace kernwright;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = parse_toml(text, "fuzz.toml");
  FUZZ_CHECK(table || table.error().message.starts_with("fuzz.toml:"));

  const auto quoted = parse_toml("a = " + toml_quote(text), "fuzz.toml");
  FUZZ_CHECK(quoted);
  const std::string* read = quoted->find("a")->second.string();
  FUZZ_CHECK(read != nullptr);
  // Text that was UTF-8 came back as it was; other text came back as text that does.
  const auto again = parse_toml("a = " + toml_quote(*read), "fuzz.toml");
  FUZZ_CHECK(again && *again->find("a")->second.string() == *read);
  return 0;
}
