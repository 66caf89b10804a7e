// The input of `run paged-kv`: an engine's step as it stands in host memory, read from a file or generated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernwright/dtype.hpp"
#include "kernwright/result.hpp"
#include "support/bf16.hpp"
#include "support/paged_kv_reference.hpp"

namespace kernwright::tool {

struct PagedKvInput {
  std::int64_t page_size = 16, layers = 1, virtual_pages = 0, heads = 0, query_tokens = 1, d_qk = 576;
  DType token_dtype = DType::i32;
  support::PagedBatch batch;      ///< Tokens are virtual ids.
  std::int64_t slots = 0;         ///< Rows of req_to_token.
  std::vector<support::Bf16> q;   ///< [B, s_q, H, d_qk]
  std::vector<support::Bf16> kv;  ///< [virtual_pages · page_size, d_qk]: the row of each virtual token in the last layer.
  float sm_scale = 0;
  std::string description;

  /// Of a virtual token that a page other than the sink has.
  [[nodiscard]] bool has_page(std::int64_t token) const { return token >= page_size && token < virtual_pages * page_size; }
};

/// What is generated.
struct PagedKvShape {
  std::int64_t batch = 1, tokens = 1, page_size = 16, layers = 1, heads = 1, query_tokens = 1;
  std::uint64_t seed = 1;
};
/// Requests of `tokens` tokens and of 0, 1, page_size − 1, page_size and page_size + 1, padded lanes among them; pages anywhere, one of
/// them not mapped; ids behind a request's end that are garbage. Errors: out_of_memory.
Result<PagedKvInput> generate_paged_kv_input(const PagedKvShape& shape);

/// Tensors req_to_token [slots, width] I32, requests and lengths [B] I64, optionally starts [B] I64, q [B, s_q, H, 576 or 512] BF16, kv
/// [V · page_size, d_qk] BF16: the row of each virtual token, page 0 being the sink, which nobody has. Metadata page_size (default 64),
/// layers (default 1) and sm_scale (default d_qk^(-1/2)). Errors: malformed names the tensor, what came and what is legal; out_of_memory.
Result<PagedKvInput> read_paged_kv_input(const std::filesystem::path& path);

}  // namespace kernwright::tool
