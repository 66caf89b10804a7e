// Puts a tier over a Redis server together.
#pragma once

#include <memory>

#include "remote/link_tier.hpp"
#include "remote/redis_connection.hpp"
#include "remote/remote_tier.hpp"

namespace kernwright {

/// open_remote_tier() with the time limits given: tests of what a server answers are not to depend on how fast it does.
Result<std::shared_ptr<RemoteTier>> open_redis_tier(const RemoteOptions& options, const TierLimits& limits,
                                                    Deadline::Clock::duration connect_time, Logger logger, std::shared_ptr<Clock> clock);

}  // namespace kernwright
