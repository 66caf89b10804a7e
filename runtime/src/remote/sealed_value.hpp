// What stands under a key on the server: a header with an authenticator, then the entry file. docs/cache.md gives the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "artifact.hpp"
#include "kernwright/result.hpp"
#include "remote/deadline.hpp"
#include "remote/secret_key.hpp"

namespace kernwright {

inline constexpr std::uint32_t kSealVersion = 1;
inline constexpr std::size_t kSealBytes = 44;  ///< magic, version, authenticator

/// The header and the entry behind it.
std::vector<std::byte> seal_entry(std::span<const std::byte> entry, const EntryKey& key, const SecretKey& secret);

/// The entry of a value. malformed where the value is no such value of this version, or is not what somebody with the secret sealed for
/// this key; timed_out where that could not be found out by the deadline.
Result<std::vector<std::byte>> open_sealed(std::span<const std::byte> value, const EntryKey& key, const SecretKey& secret,
                                           Deadline deadline);

}  // namespace kernwright
