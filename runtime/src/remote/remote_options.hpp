// The remote tier's settings, checked.
#pragma once

#include "kernwright/result.hpp"
#include "remote/remote_address.hpp"
#include "remote/remote_tier.hpp"

namespace kernwright {

/// Everything but the key file's content. invalid_argument names the setting, what came (never the URL) and what is legal.
Result<RemoteAddress> check_remote_options(const RemoteOptions& options);

}  // namespace kernwright
