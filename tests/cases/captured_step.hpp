// The pool, the requests and the arguments of captured_step_case.hpp.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cases/captured_step_case.hpp"
#include "cases/device_integers.hpp"
#include "kernwright/paged_mla_decode.hpp"
#include "kernwright/sparse_mla_prefill.hpp"
#include "kernwright/unified_pool.hpp"
#include "support/random.hpp"
#include "support/sparse_mla_check.hpp"

namespace kernwright::cases {

class CapturedStep {
 public:
  static constexpr std::int64_t kLanes = 6, kPageSize = 16, kLongest = 96, kTopk = 24;
  static constexpr int kLayers = 3, kHeads = 8;
  static constexpr std::int64_t kRow = 576, kValues = 512;

  CapturedStep(const Runtime& runtime, DeviceId device, bool unified);

  // Between steps.
  void begin_request(std::int64_t tokens);
  void end_request(std::size_t lane);
  std::int64_t compact();
  [[nodiscard]] std::size_t active() const { return active_.size(); }

  /// Appends a token to each request and puts everything that the step reads where it reads it.
  void prepare(ReplayFault fault);
  /// The part of it that launches, but for the indices: block table, CSR indices, write locations.
  void launch_preparation(ReplayFault fault);
  /// Writes the new rows of so many lanes, attends over the block table, attends over the indices; the arguments by value. A graph is
  /// captured with all lanes, since it has to do for any number of requests.
  [[nodiscard]] Launches step(std::int64_t written_lanes) const;

  struct Outputs {
    std::vector<support::Bf16> dense, sparse;
    std::vector<float> dense_lse, sparse_lse;
    friend bool operator==(const Outputs&, const Outputs&) = default;
  };
  /// Poisons the outputs, launches, waits, downloads.
  Outputs run(const std::function<void(StreamHandle)>& launch);
  void judge(const Outputs& outputs) const;
  [[nodiscard]] StreamHandle stream() const { return stream_.handle(); }

 private:
  struct Request {
    std::int64_t slot = 0;
    std::vector<std::int64_t> pages;
    std::int64_t length = 0;
    [[nodiscard]] std::int64_t token(std::int64_t i) const {
      return pages[static_cast<std::size_t>(i / kPageSize)] * kPageSize + i % kPageSize;
    }
  };

  [[nodiscard]] const PagedKv& kernels() const { return pool_ ? pool_->kernels() : *static_kernels_; }
  [[nodiscard]] TensorView v2p() const { return pool_ ? pool_->hooks().v2p : TensorView{}; }
  [[nodiscard]] TensorView view() const;
  void stage();
  void launch_indices(ReplayFault fault);
  void extend(Request& request);
  void write(const std::vector<std::int64_t>& tokens, const std::vector<support::Bf16>& rows);
  [[nodiscard]] support::SparseMlaCheck check(const std::vector<std::int32_t>& indices, const std::vector<std::int32_t>& visible,
                                              std::int64_t width, const std::vector<support::Bf16>& out,
                                              const std::vector<float>& lse) const;

  Runtime runtime_;
  DeviceId device_;
  std::optional<UnifiedPool> pool_;
  std::optional<PagedKv> static_kernels_;
  DeviceBuffer static_rows_;
  std::optional<PagedMlaDecode> decode_;
  std::optional<SparseMlaPrefill> sparse_;
  Stream stream_;
  support::SplitMix64 random_{7};
  std::vector<Request> active_;
  std::vector<std::int64_t> free_slots_, free_static_pages_, host_tokens_, new_tokens_of_step_, sparse_virtual_;
  std::vector<std::int32_t> sparse_lengths_;
  std::vector<support::Bf16> host_rows_;  ///< [virtual tokens, 576]: what the last layer has.
  std::vector<support::Bf16> q_;
  std::unique_ptr<DeviceIntegers> tokens_, requests_, lengths_, offsets_, csr_, new_tokens_, locations_, topk_lengths_;
  std::vector<std::unique_ptr<DeviceIntegers>> tables_, indices_;  ///< The last is the one in use; more than one only where rebound.
  DeviceBuffer device_q_, new_rows_, dense_out_, dense_lse_, sparse_out_, sparse_lse_, workspace_, sparse_workspace_;
};

}  // namespace kernwright::cases
