// The decode step of a small engine: requests come and go, their KV grows a token a step in pages of a unified pool, and every layer writes
// the new rows and attends over the block table.
//
//   between steps   schedule: requests that end give their pages back, and the pool closes the holes by moving others' pages; new requests
//                   write their prompt; every request gets room for one token more
//   before a step   what the step reads is put where it reads it: lengths, token ids, and by two launches the block table and the write
//                   locations with their tail of zeros
//   the step        for each layer: write the new rows at the locations, attend. It knows addresses and the number of lanes, nothing else:
//                   it can be captured once and replayed for every later step
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "kernwright/paged_mla_decode.hpp"
#include "kernwright/unified_pool.hpp"

namespace decode_loop {

using Bf16 = std::uint16_t;

struct EngineOptions {
  kernwright::DeviceId device;
  std::int64_t lanes = 8;  ///< Requests at once, at most: the size that the step is captured with.
  int layers = 3;
  int heads = 8;
  int page_size = 16;
  std::int64_t longest = 160;  ///< Tokens of a request.
  std::uint64_t seed = 1;
};

/// Two engines with the same options do the same things.
class Engine {
 public:
  static kernwright::Result<Engine> create(const kernwright::Runtime& runtime, const EngineOptions& options);

  /// Everything up to the step itself. Must not be called while the stream captures.
  kernwright::Result<> prepare_step();
  /// The step's launches, the same every time.
  [[nodiscard]] kernwright::Result<> enqueue_step() const;
  [[nodiscard]] kernwright::Result<> synchronize() const { return stream_.synchronize(); }
  [[nodiscard]] kernwright::StreamHandle stream() const { return stream_.handle(); }

  struct Outputs {
    std::vector<Bf16> out;   ///< [layers, lanes, heads, 512]
    std::vector<float> lse;  ///< [layers, lanes, heads]
    /// Bit for bit: there is no NaN in a right answer, and +inf is equal to itself.
    friend bool operator==(const Outputs&, const Outputs&) = default;
  };
  [[nodiscard]] kernwright::Result<Outputs> outputs() const;
  /// Attention of a random lane, layer and head by its definition, from rows that never were in the pool. The relative distance of the two.
  [[nodiscard]] double distance_to_reference(const Outputs& outputs);

  struct Statistics {
    std::int64_t requests = 0, finished = 0, largest_batch = 0, moved_pages = 0;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  struct Request {
    std::int64_t slot = 0;  ///< Its row of req_to_token, as long as it lives.
    std::vector<std::int64_t> pages;
    std::int64_t length = 0;
    std::vector<std::vector<Bf16>> rows;  ///< Of each layer, for distance_to_reference.
  };

  Engine(const kernwright::Runtime& runtime, const EngineOptions& options, kernwright::UnifiedPool pool, kernwright::PagedMlaDecode decode);
  kernwright::Result<> allocate();
  kernwright::Result<> finish_requests();
  kernwright::Result<> admit_request();
  kernwright::Result<> write_prompt(Request& request);
  kernwright::Result<> append_tokens();
  kernwright::Result<> extend(Request& request);
  kernwright::Result<> upload_step();
  [[nodiscard]] kernwright::TensorView new_rows(std::int64_t layer, std::int64_t first_column, std::int64_t columns) const;
  [[nodiscard]] std::vector<Bf16> random_rows(std::int64_t count);
  [[nodiscard]] std::int64_t token_id(const Request& request, std::int64_t token) const;

  kernwright::Runtime runtime_;
  EngineOptions options_;
  kernwright::UnifiedPool pool_;
  kernwright::PagedMlaDecode decode_;
  kernwright::Stream stream_;
  std::mt19937_64 random_;
  std::vector<Request> active_;  ///< Lane i is active_[i]: the lanes in use come first.
  std::vector<std::int64_t> free_slots_;
  std::vector<std::int32_t> req_to_token_;
  std::vector<Bf16> q_, rows_;  ///< Of the step, [layers, lanes, …].
  Statistics statistics_;
  kernwright::DeviceBuffer tokens_, requests_, lengths_, new_tokens_, locations_, table_, device_q_, device_rows_, out_, lse_, workspace_;
};

}  // namespace decode_loop
