#include <sodium.h>

#include <utility>

#include "prepare/boundary.hpp"
#include "remote/endpoint_resolver.hpp"
#include "remote/open_redis_tier.hpp"
#include "remote/remote_options.hpp"
#include "remote/sealed_value.hpp"

namespace kernwright {

Result<std::shared_ptr<RemoteTier>> open_redis_tier(const RemoteOptions& options, const TierLimits& limits,
                                                    Deadline::Clock::duration connect_time, Logger logger, std::shared_ptr<Clock> clock) {
  return without_exceptions([&]() -> Result<std::shared_ptr<RemoteTier>> {
    auto address = check_remote_options(options);
    if (!address) return fail(std::move(address.error()));
    // Picks the implementation for this processor; may be called again and again.
    if (sodium_init() < 0) return fail(ErrorCode::internal, "libsodium could not be initialised");
    const auto secret = read_secret_key(options.key_file);
    if (!secret) return fail(Error(secret.error()));

    TierSettings settings{
        .server = address->text(), .name_space = options.name_space, .largest_entry = options.largest_entry, .limits = limits};
    const RedisSettings redis{.largest_value = kSealBytes + static_cast<std::size_t>(options.largest_entry.count),
                              .time_to_live_seconds = options.time_to_live_seconds,
                              .connect_time = connect_time};
    const auto make_links = [address = std::move(*address), redis] {
      const auto resolver = std::make_shared<EndpointResolver>(address, system_name_lookup());
      return LinkPair{std::make_unique<RedisConnection>(address, resolver, redis),
                      std::make_unique<RedisConnection>(address, resolver, redis)};
    };
    return std::make_shared<LinkTier>(std::move(settings), *secret, make_links, std::move(logger), std::move(clock));
  });
}

Result<std::shared_ptr<RemoteTier>> open_remote_tier(const RemoteOptions& options, Logger logger, std::shared_ptr<Clock> clock) {
  return open_redis_tier(options, {}, RedisSettings{}.connect_time, std::move(logger), std::move(clock));
}

}  // namespace kernwright
