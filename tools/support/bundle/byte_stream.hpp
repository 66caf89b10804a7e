// How the layers of a bundle hand bytes to each other.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernwright/result.hpp"

namespace kernwright::support {

/// The next bytes, valid until the next call; no bytes: the end, which every later call answers again.
using ByteSource = std::function<Result<std::span<const std::byte>>()>;
/// Takes bytes in their order. After an error nothing more is given to it.
using ByteSink = std::function<Result<>(std::span<const std::byte>)>;

}  // namespace kernwright::support
