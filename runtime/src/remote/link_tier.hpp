// The remote tier's rules over any pair of links: time limits, breakers, authentication, the queue of stores, counters.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "remote/background_queue.hpp"
#include "remote/circuit_breaker.hpp"
#include "remote/remote_link.hpp"
#include "remote/remote_tier.hpp"
#include "remote/secret_key.hpp"
#include "remote/turns.hpp"

namespace kernwright {

struct TierLimits {
  Deadline::Clock::duration fetch_time = std::chrono::milliseconds(50);  ///< The whole of a fetch.
  /// Of that, for waiting until another thread's fetch is done: an attempt with little time left would fail for no fault of the server's.
  Deadline::Clock::duration turn_time = std::chrono::milliseconds(25);
  Deadline::Clock::duration store_time = std::chrono::milliseconds(50);
  BreakerLimits breaker;
  QueueLimits queue;
};

struct TierSettings {
  std::string server;  ///< For messages; without its password.
  std::string name_space;
  Bytes largest_entry;
  TierLimits limits;
};

/// Fetches and stores have a link each, so that no fetch waits behind an entry that is being sent.
struct LinkPair {
  std::unique_ptr<RemoteLink> fetches;
  std::unique_ptr<RemoteLink> stores;
};
/// Called once a process: a forked child makes links of its own.
using MakeLinks = std::function<LinkPair()>;

class LinkTier final : public RemoteTier {
 public:
  LinkTier(TierSettings settings, const SecretKey& secret, MakeLinks make_links, Logger logger, std::shared_ptr<Clock> clock);
  LinkTier(const LinkTier&) = delete;
  LinkTier& operator=(const LinkTier&) = delete;
  ~LinkTier() override;

  Fetched fetch(const EntryKey& key) override;
  void store(const EntryKey& key, std::shared_ptr<const std::vector<std::byte>> entry) override;
  void flush(double limit_seconds) override;
  [[nodiscard]] Statistics statistics() const override;

 private:
  /// What belongs to one process. After a fork the parent's mutexes may be locked for ever, its thread is gone and its connections are
  /// the parent's, so a child leaves all of it alone.
  struct ProcessPart {
    ProcessPart(pid_t process, LinkPair pair, const TierLimits& limits, BackgroundQueue::Send send);
    const pid_t process;
    Turns fetching;
    LinkPair links;  ///< `fetches` in a turn of `fetching`; `stores` is the queue's thread's.
    CircuitBreaker fetch_breaker;
    CircuitBreaker store_breaker;
    ProcessPart* inherited = nullptr;
    BackgroundQueue queue;  // last, so that its thread ends before what it uses goes
  };
  ProcessPart& part();

  Fetched fetch_by(const EntryKey& key, Deadline deadline);
  Fetched attempt(ProcessPart& part, const EntryKey& key, Deadline deadline);
  Fetched ask(ProcessPart& part, const EntryKey& key, Deadline deadline);
  void begin_trial(ProcessPart& part, const EntryKey& key);
  void send(ProcessPart& part, const BackgroundQueue::Item& item);
  void report_bad(const std::string& name, const std::string& problem);
  void report_opening(std::string_view what, const std::string& problem);
  [[nodiscard]] std::string name_of(const EntryKey& key) const;

  const TierSettings settings_;
  const SecretKey secret_;
  const MakeLinks make_links_;
  const Logger logger_;
  const std::shared_ptr<Clock> clock_;

  struct Counts {
    std::atomic<std::uint64_t> hits{0}, misses{0}, bad{0}, unavailable{0}, lost_microseconds{0}, stored{0}, store_failures{0}, dropped{0},
        breaker_openings{0};
  } counts_;
  std::atomic<bool> bad_reported_ = false;
  std::atomic<bool> opening_reported_ = false;
  std::atomic<ProcessPart*> part_ = nullptr;
};

}  // namespace kernwright
