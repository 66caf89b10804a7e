#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernwright/pool_hooks.hpp"

namespace kernwright {

std::string_view to_string(PoolKind kind) noexcept {
  switch (kind) {
    case PoolKind::static_pool: return "static";
    case PoolKind::unified_mla: return "unified with MLA";
    case PoolKind::unified_without_mla: return "unified without MLA";
  }
  return "unknown";
}

PoolReaders PoolReaders::with_defaults() {
  PoolReaders readers;
  for (const char* name : {"kernwright/paged_mla_decode", "kernwright/sparse_mla_prefill", "trtllm_mla", "flashinfer", "cutedsl_mla",
                           "tokenspeed_mla", "triton"}) {
    readers.declare(name, PoolKind::unified_mla);
  }
  readers.declare("triton", PoolKind::unified_without_mla);
  return readers;
}

PoolReaders& PoolReaders::declare(std::string_view reader, PoolKind kind) {
  declared_[kind].emplace(reader);
  return *this;
}

Result<> PoolReaders::check(std::string_view reader, PoolKind kind) const {
  if (kind == PoolKind::static_pool) return {};
  const auto found = declared_.find(kind);
  const std::set<std::string, std::less<>> none;
  const auto& accepted = found == declared_.end() ? none : found->second;
  if (accepted.contains(reader)) return {};
  return fail(
      ErrorCode::unsupported,
      fmt::format(
          "attention reader '{}' has not declared that it reads a pool that is {}; accepted are: {}. A reader that follows the pool's "
          "dense ids is declared with PoolReaders::declare",
          reader, to_string(kind), accepted.empty() ? "none" : fmt::format("{}", fmt::join(accepted, ", "))));
}

}  // namespace kernwright
