#include "remote/link_tier.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "remote/sealed_value.hpp"

namespace kernwright {
namespace {

using Outcome = RemoteTier::Fetched::Outcome;

void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

RemoteTier::Fetched unavailable(std::string problem) {
  return {Outcome::unavailable, {}, std::move(problem)};
}

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

}  // namespace

LinkTier::ProcessPart::ProcessPart(pid_t owner, LinkPair pair, const TierLimits& limits, BackgroundQueue::Send send)
    : process(owner),
      links(std::move(pair)),
      fetch_breaker(limits.breaker),
      store_breaker(limits.breaker),
      queue(limits.queue, std::move(send)) {}

LinkTier::LinkTier(TierSettings settings, const SecretKey& secret, MakeLinks make_links, Logger logger, std::shared_ptr<Clock> clock)
    : settings_(std::move(settings)),
      secret_(secret),
      make_links_(std::move(make_links)),
      logger_(std::move(logger)),
      clock_(std::move(clock)) {}

LinkTier::~LinkTier() {
  // An inherited part is left as it is: taking it down would join a thread that this process does not have.
  ProcessPart* const mine = part_.load();
  if (mine != nullptr && mine->process == ::getpid()) delete mine;
}

LinkTier::ProcessPart& LinkTier::part() {
  const pid_t process = ::getpid();
  ProcessPart* known = part_.load();
  while (known == nullptr || known->process != process) {
    // Without a lock, since after a fork any lock may be held by a thread that is no more.
    auto made = std::make_unique<ProcessPart>(process, make_links_(), settings_.limits,
                                              [this](const BackgroundQueue::Item& item) { send(*part_.load(), item); });
    made->inherited = known;  // stays reachable
    if (part_.compare_exchange_strong(known, made.get())) return *made.release();
  }
  return *known;
}

std::string LinkTier::name_of(const EntryKey& key) const {
  return fmt::format("{}:v1:{}", settings_.name_space, key.hex());
}

RemoteTier::Fetched LinkTier::fetch(const EntryKey& key) {
  const auto start = Deadline::Clock::now();
  Fetched fetched;
  try {
    fetched = fetch_by(key, Deadline(start + settings_.limits.fetch_time));
  } catch (const std::exception&) {
    fetched = {};  // memory is exhausted: no words either
  }
  switch (fetched.outcome) {
    case Outcome::hit: count(counts_.hits); break;
    case Outcome::miss: count(counts_.misses); break;
    case Outcome::bad: count(counts_.bad); break;
    case Outcome::unavailable: count(counts_.unavailable); break;
  }
  if (fetched.outcome == Outcome::bad || fetched.outcome == Outcome::unavailable) {
    count(counts_.lost_microseconds, static_cast<std::uint64_t>(seconds_since(start) * 1e6));
  }
  return fetched;
}

RemoteTier::Fetched LinkTier::fetch_by(const EntryKey& key, Deadline deadline) {
  ProcessPart& own = part();
  switch (own.fetch_breaker.ask(clock_->monotonic_seconds())) {
    case CircuitBreaker::Permission::granted: break;
    case CircuitBreaker::Permission::trial: begin_trial(own, key); [[fallthrough]];
    case CircuitBreaker::Permission::refused: return unavailable("the server failed before and is not asked for now");
  }
  const Turns::Turn turn = own.fetching.take(deadline.or_in(settings_.limits.turn_time));
  if (!turn) return unavailable("other fetches take long");
  // While this one waited another may have met the failure that opened it.
  if (own.fetch_breaker.refuses(clock_->monotonic_seconds())) return unavailable("the server failed before and is not asked for now");
  return attempt(own, key, deadline);
}

RemoteTier::Fetched LinkTier::attempt(ProcessPart& own, const EntryKey& key, Deadline deadline) {
  const auto start = Deadline::Clock::now();
  Fetched fetched;
  try {
    fetched = ask(own, key, deadline);
  } catch (const std::exception& thrown) {
    fetched = unavailable(thrown.what());
  }
  if (fetched.outcome == Outcome::hit || fetched.outcome == Outcome::miss) {
    own.fetch_breaker.succeeded();
    return fetched;
  }
  if (fetched.outcome == Outcome::bad) report_bad(name_of(key), fetched.problem);
  if (own.fetch_breaker.failed(clock_->monotonic_seconds(), seconds_since(start))) report_opening("asked", fetched.problem);
  return fetched;
}

RemoteTier::Fetched LinkTier::ask(ProcessPart& own, const EntryKey& key, Deadline deadline) {
  RemoteLink::Value value = own.links.fetches->get(name_of(key), deadline);
  switch (value.outcome) {
    case RemoteLink::Value::Outcome::absent: return {Outcome::miss, {}, {}};
    case RemoteLink::Value::Outcome::unusable: return {Outcome::bad, {}, std::move(value.problem)};
    case RemoteLink::Value::Outcome::unavailable: return unavailable(std::move(value.problem));
    case RemoteLink::Value::Outcome::present: break;
  }
  auto entry = open_sealed(value.bytes, key, secret_, deadline);
  if (entry) return {Outcome::hit, std::move(*entry), {}};
  const bool late = entry.error().code == ErrorCode::timed_out;
  return {late ? Outcome::unavailable : Outcome::bad, {}, std::move(entry.error().message)};
}

void LinkTier::begin_trial(ProcessPart& own, const EntryKey& key) {
  // In the background, so that no launch waits for a server that is probably still dead: this fetch and those until the trial's end do
  // without it.
  const auto trial = [this, &own, key] {
    // At most one fetch can still be under way, from before the breaker opened.
    const Turns::Turn turn = own.fetching.take(Deadline::in(settings_.limits.fetch_time));
    if (!turn) {
      own.fetch_breaker.failed(clock_->monotonic_seconds(), 0);
      return;
    }
    const Fetched fetched = attempt(own, key, Deadline::in(settings_.limits.fetch_time));
    if (fetched.outcome == Outcome::hit || fetched.outcome == Outcome::miss) {
      logger_(LogLevel::info, fmt::format("the remote cache {} answers again", settings_.server));
    }
  };
  if (!own.queue.push_first(trial)) own.fetch_breaker.failed(clock_->monotonic_seconds(), 0);
}

void LinkTier::store(const EntryKey& key, std::shared_ptr<const std::vector<std::byte>> entry) {
  if (!entry) return;
  bool waiting = false;
  try {
    ProcessPart& own = part();
    waiting = entry->size() <= settings_.largest_entry.count && !own.store_breaker.refuses(clock_->monotonic_seconds()) &&
              own.queue.push({key, std::move(entry)});
  } catch (const std::exception&) {
    waiting = false;
  }
  if (!waiting) count(counts_.dropped);
}

void LinkTier::send(ProcessPart& own, const BackgroundQueue::Item& item) {
  if (own.store_breaker.ask(clock_->monotonic_seconds()) == CircuitBreaker::Permission::refused) {
    count(counts_.dropped);
    return;
  }
  const auto start = Deadline::Clock::now();
  std::string problem;
  try {
    const Deadline deadline(start + settings_.limits.store_time);
    problem = own.links.stores->set(name_of(item.key), seal_entry(*item.entry, item.key, secret_), deadline);
  } catch (const std::exception& thrown) {
    problem = thrown.what();
  }
  if (problem.empty()) {
    count(counts_.stored);
    own.store_breaker.succeeded();
    return;
  }
  count(counts_.store_failures);
  if (own.store_breaker.failed(clock_->monotonic_seconds(), seconds_since(start))) report_opening("sent entries", problem);
}

void LinkTier::flush(double limit_seconds) {
  constexpr double kLongest = 86'400;
  const double seconds = limit_seconds > 0 ? std::min(limit_seconds, kLongest) : 0;  // not a number: 0
  try {
    part().queue.wait_until_idle(
        Deadline::in(std::chrono::duration_cast<Deadline::Clock::duration>(std::chrono::duration<double>(seconds))));
  } catch (const std::exception&) {
    return;  // memory is exhausted: nothing was queued by this process then
  }
}

void LinkTier::report_bad(const std::string& name, const std::string& problem) {
  const LogLevel level = bad_reported_.exchange(true) ? LogLevel::debug : LogLevel::warn;
  if (!logger_.enabled(level)) return;
  logger_(level,
          fmt::format("the remote cache {} has no usable entry under {}, and it is not loaded: {}", settings_.server, name, problem));
}

void LinkTier::report_opening(std::string_view what, const std::string& problem) {
  count(counts_.breaker_openings);
  const LogLevel level = opening_reported_.exchange(true) ? LogLevel::debug : LogLevel::warn;
  if (!logger_.enabled(level)) return;
  logger_(level, fmt::format("the remote cache {} failed again and again and is not {} for {} s: {}", settings_.server, what,
                             settings_.limits.breaker.open_seconds, problem));
}

RemoteTier::Statistics LinkTier::statistics() const {
  const auto read = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.hits = read(counts_.hits),
          .misses = read(counts_.misses),
          .bad = read(counts_.bad),
          .unavailable = read(counts_.unavailable),
          .lost_microseconds = read(counts_.lost_microseconds),
          .stored = read(counts_.stored),
          .store_failures = read(counts_.store_failures),
          .dropped = read(counts_.dropped),
          .breaker_openings = read(counts_.breaker_openings)};
}

}  // namespace kernwright
