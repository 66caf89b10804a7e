// nvdisasm, NVIDIA's disassembler, where it is installed.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernwright/runtime.hpp"

namespace kernwright::tool {

/// Looked for on PATH, beside the places where NVRTC is looked for ($CUDA_HOME/bin, /usr/local/cuda/bin, …), and in Python's
/// nvidia/*/bin. unsupported lists those places and says how to install it.
Result<std::filesystem::path> find_disassembler(const RuntimeOptions& options);

/// The cubin as SASS, by this program. unsupported where it refuses the cubin, with its words; timed_out after a minute; io where it could
/// not be started.
Result<std::string> disassemble(const std::filesystem::path& program, std::span<const std::byte> cubin);

}  // namespace kernwright::tool
