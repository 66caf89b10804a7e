// The options of sparse MLA prefill: what is legal, and which union G `auto` means.
#pragma once

#include <optional>
#include <string>

#include "kernwright/device.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

inline constexpr int kSmallestHeads = 1;
inline constexpr int kLargestHeads = 128;
inline constexpr int kLargestTopk = 4096;
inline constexpr int kValueColumns = 512;
inline constexpr const char* kPrefillTemplate = "sparse_mla/prefill";
inline constexpr const char* kPrefillReader = "kernwright/sparse_mla_prefill";  ///< As it is declared in PoolReaders.
inline constexpr const char* kUnionBuildTemplate = "sparse_mla/union_build";
inline constexpr const char* kWideUnionBuildTemplate = "sparse_mla/union_build_wide";

Result<> check_options(const SparseMlaPrefillOptions& options);

struct UnionChoice {
  int group_size = 0;  ///< 0: union off.
  std::string reason;  ///< Empty where the option's own value is used.
};
/// The option, deterministic mode, the tuning tables, then the rule for what nobody measured.
Result<UnionChoice> choose_union(Runtime::State& runtime, const SparseMlaPrefillOptions& options, const DeviceInfo& device);

/// The rule for what nobody measured: the largest group whose rows (group x heads) stay within 64, the tile height that the matrix units
/// fill. 0, per token, from 33 heads on, where one token nearly fills it.
int unmeasured_group(int heads);

/// The parameters of sparse_mla/prefill; group_size 1 is per token.
Specialisation prefill_specialisation(const SparseMlaPrefillOptions& options, int group_size);

}  // namespace kernwright
