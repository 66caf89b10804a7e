# Run by kernwright_embed_files: writes OUTPUT. Octal escapes keep it independent of what the files contain.
set(body "")
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name "${BASE}" "${file}")
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")  # a line of bytes for a line of text
  string(MAKE_C_IDENTIFIER "file_${name}" symbol)
  string(APPEND arrays "constexpr unsigned char ${symbol}[] = {\n${bytes}0};\n")
  string(APPEND body "    {\"${name}\", {reinterpret_cast<const char*>(${symbol}), sizeof(${symbol}) - 1}},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from the files named below; do not edit.\n#include \"templates/embedded_file.hpp\"\n\nnamespace {\n${arrays}}  // namespace\n\nnamespace kernwright {\nstd::vector<EmbeddedFile> ${FUNCTION}() {\n  return {\n${body}  };\n}\n}  // namespace kernwright\n")
