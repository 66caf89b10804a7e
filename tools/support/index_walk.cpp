#include "support/index_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "support/parallel.hpp"
#include "support/random.hpp"

namespace kernwright::support {
namespace {

constexpr std::int64_t kLargestRow = 2'147'483'647;

/// One request's state: the rows selected now, and which they are.
class Walker {
 public:
  Walker(std::int64_t rows, std::int64_t topk, std::int64_t changes, std::uint64_t seed)
      : topk_(static_cast<std::size_t>(topk)),
        changes_(static_cast<std::size_t>(changes)),
        selected_(topk_),
        slots_(topk_),
        member_(static_cast<std::size_t>(rows)),
        random_(seed) {
    std::iota(slots_.begin(), slots_.end(), std::size_t{0});
  }

  void start_with_prefix() {
    std::iota(selected_.begin(), selected_.end(), 0);
    std::fill_n(member_.begin(), topk_, true);
  }

  void start_at_random(std::uint32_t rows) {
    // Samples distinct values ("A sample of brilliance", CACM 1987), then shuffled by the walk's own slot choices.
    std::size_t count = 0;
    for (std::uint32_t top = rows - static_cast<std::uint32_t>(topk_); top < rows; ++top) {
      const std::uint32_t drawn = random_.below(top + 1);
      const std::uint32_t row = member_[drawn] ? top : drawn;
      member_[row] = true;
      selected_[count++] = static_cast<std::int32_t>(row);
    }
  }

  /// Replaces min(changes, rows − K) selected rows by ones of [0, rows) that are not selected.
  void step(std::uint32_t rows) {
    const std::size_t free = rows - topk_;
    const std::size_t count = std::min(changes_, free);
    draw_unselected(rows, free, count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t other = i + random_.below(static_cast<std::uint32_t>(topk_ - i));
      std::swap(slots_[i], slots_[other]);
      std::int32_t& slot = selected_[slots_[i]];
      member_[static_cast<std::size_t>(slot)] = false;
      slot = static_cast<std::int32_t>(drawn_[i]);
    }
  }

  [[nodiscard]] std::span<const std::int32_t> selected() const { return selected_; }

 private:
  /// `count` distinct unselected rows into drawn_, marked as selected.
  void draw_unselected(std::uint32_t rows, std::size_t free, std::size_t count) {
    drawn_.clear();
    if (free <= 2 * count) {
      // Few are left: trying at random would mostly miss.
      for (std::uint32_t row = 0; row < rows; ++row) {
        if (!member_[row]) drawn_.push_back(row);
      }
      for (std::size_t i = 0; i < count; ++i) {
        std::swap(drawn_[i], drawn_[i + random_.below(static_cast<std::uint32_t>(drawn_.size() - i))]);
      }
      drawn_.resize(count);
      for (const std::uint32_t row : drawn_) member_[row] = true;
      return;
    }
    while (drawn_.size() < count) {
      const std::uint32_t row = random_.below(rows);
      if (member_[row]) continue;
      member_[row] = true;
      drawn_.push_back(row);
    }
  }

  std::size_t topk_;
  std::size_t changes_;
  std::vector<std::int32_t> selected_;
  std::vector<std::size_t> slots_;
  std::vector<bool> member_;
  std::vector<std::uint32_t> drawn_;
  SplitMix64 random_;
};

Result<> check(const WalkOptions& options) {
  const auto out_of_range = [](std::string_view name, std::int64_t came, std::int64_t low, std::int64_t high) {
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}; legal are {} to {}", name, came, low, high));
  };
  if (options.tokens < 0 || options.tokens > kLargestRow) return out_of_range("tokens", options.tokens, 0, kLargestRow);
  if (options.batch < 1 || options.batch > 65'536) return out_of_range("batch", options.batch, 1, 65'536);
  if (options.topk < 1 || options.topk > 4096) return out_of_range("topk", options.topk, 1, 4096);
  if (options.kv_rows && (*options.kv_rows < 0 || *options.kv_rows > kLargestRow)) {
    return out_of_range("kv_rows", *options.kv_rows, 0, kLargestRow);
  }
  if (std::isnan(options.churn) || options.churn < 0 || options.churn > 1) {
    return fail(ErrorCode::invalid_argument, fmt::format("churn is {}; legal are 0 to 1", options.churn));
  }
  if (!options.kv_rows && options.batch * options.tokens > kLargestRow) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} requests of {} tokens have {} KV rows; an index holds at most {}: give fewer, or kv_rows to share rows",
                            options.batch, options.tokens, options.batch * options.tokens, kLargestRow));
  }
  return {};
}

}  // namespace

Result<Walk> make_walk(const WalkOptions& options) {
  if (Result<> checked = check(options); !checked) return fail(std::move(checked.error()));
  const std::int64_t rows = options.kv_rows.value_or(options.tokens);
  const std::int64_t topk = options.topk;
  Walk walk;
  walk.tokens = options.batch * options.tokens;
  walk.topk = topk;
  walk.kv_rows = options.kv_rows ? rows : rows * options.batch;
  walk.indices.assign(static_cast<std::size_t>(walk.tokens * topk), -1);
  const std::int64_t changes = options.churn > 0 ? std::max<std::int64_t>(1, std::llround(static_cast<double>(topk) * options.churn)) : 0;

  parallel_ranges(options.batch, 1, [&](std::int64_t first_request, std::int64_t last_request) {
    for (std::int64_t request = first_request; request < last_request; ++request) {
      const std::int32_t base = options.kv_rows ? 0 : static_cast<std::int32_t>(request * rows);
      Walker walker(rows, topk, changes, stream_seed(options.seed, static_cast<std::uint64_t>(request)));
      bool walking = false;
      for (std::int64_t token = 0; token < options.tokens; ++token) {
        const std::int64_t n = std::min(token + 1 + std::max<std::int64_t>(0, rows - options.tokens), rows);
        const auto row = std::span(walk.indices)
                             .subspan(static_cast<std::size_t>((request * options.tokens + token) * topk), static_cast<std::size_t>(topk));
        if (n <= topk) {
          std::iota(row.begin(), row.begin() + n, base);
          continue;
        }
        if (walking) {
          walker.step(static_cast<std::uint32_t>(n));
        } else if (token == 0) {
          walker.start_at_random(static_cast<std::uint32_t>(n));
        } else {
          walker.start_with_prefix();
          walker.step(static_cast<std::uint32_t>(n));
        }
        walking = true;
        std::ranges::transform(walker.selected(), row.begin(), [base](std::int32_t position) { return position + base; });
      }
    }
  });
  return walk;
}

}  // namespace kernwright::support
