# Run by kernwright_embed_files: writes OUTPUT. Bytes as numbers keep it independent of what the files contain.
string(REPEAT "[0-9a-f]" 64 line_of_32_bytes)
set(arrays "")
set(body "")
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name "${BASE}" "${file}")
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(${line_of_32_bytes})" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(MAKE_C_IDENTIFIER "file_${name}" symbol)
  string(APPEND arrays "constexpr unsigned char ${symbol}[] = {\n${bytes}0};\n")
  string(APPEND body "      {\"${name}\", {reinterpret_cast<const char*>(${symbol}), sizeof(${symbol}) - 1}},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from the files that it names; do not edit.
#include \"templates/embedded_file.hpp\"

namespace {
${arrays}}  // namespace

namespace kernwright {
std::vector<EmbeddedFile> ${FUNCTION}() {
  return {
${body}  };
}
}  // namespace kernwright
")
