// A tier over a server, with the clock and the log that a test holds.
#pragma once

#include <doctest/doctest.h>

#include "remote/open_redis_tier.hpp"
#include "unit/remote/remote_fixture.hpp"

namespace kernwright::tests {

/// The limits of production, or such that only a fault meets them: a loaded machine must not make an answer late.
enum class Patience : std::uint8_t { as_in_production, endless };

struct OpenedTier {
  TemporaryFolder folder;
  std::shared_ptr<MovedClock> clock = std::make_shared<MovedClock>();
  LogLines log;
  std::shared_ptr<RemoteTier> tier;

  using Change = std::function<void(RemoteOptions&)>;
  explicit OpenedTier(const std::string& url, Patience patience = Patience::endless, const Change& change = {},
                      std::string_view key = kHexKey) {
    RemoteOptions options;
    options.url = url;
    options.key_file = write_key_file(folder.path() / "key", key);
    if (change) change(options);
    auto opened = patience == Patience::endless ? open_redis_tier(options, endless(), std::chrono::minutes(1), log.logger(), clock)
                                                : open_remote_tier(options, log.logger(), clock);
    REQUIRE_MESSAGE(opened, opened.error().text());
    tier = *opened;
  }
  /// Waits until it was sent.
  void store(const EntryKey& key, const std::vector<std::byte>& entry) const {
    tier->store(key, shared(entry));
    tier->flush(60);
  }

 private:
  static TierLimits endless() {
    TierLimits limits;
    limits.fetch_time = limits.turn_time = limits.store_time = std::chrono::minutes(1);
    limits.breaker.lost_seconds = 1000;
    return limits;
  }
};

}  // namespace kernwright::tests
