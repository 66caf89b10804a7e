#include "ops/sparse_mla_recording.hpp"

#include <fmt/format.h>

namespace kernwright {
namespace {

/// The strides in elements, where they are not those of a dense tensor.
std::string strides_of(const TensorView& view) {
  std::string text;
  std::int64_t row_major = 1;
  bool dense = true;
  for (int d = view.rank - 1; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    dense &= view.shape[i] == 1 || view.stride[i] == row_major;
    row_major *= view.shape[i];
    text = fmt::format("{}{}{}", view.stride[i], text.empty() ? "" : ",", text);
  }
  return dense ? std::string() : text;
}

}  // namespace

RecordedCall recorded_call(const SparseMlaPrefillArguments& arguments, const SparseMlaPrefillOptions& options, int union_used,
                           const PrepareReport& prefill, StreamHandle stream) {
  RecordedCall call;
  call.device = options.device;
  call.stream = stream;
  const auto add = [&](const char* name, const TensorView& view, bool output) {
    const bool empty = view.rank > 0 && view.shape[0] == 0;  // which may have no memory
    if (!view.present() && !empty) return;
    call.tensors.push_back({name, view, output});
    if (std::string strides = strides_of(view); !strides.empty()) call.metadata.emplace(fmt::format("strides.{}", name), strides);
  };
  add("q", arguments.q, false);
  add("kv", arguments.kv, false);
  add("indices", arguments.indices, false);
  add("topk_length", arguments.topk_length, false);
  add("attn_sink", arguments.attn_sink, false);
  add("out", arguments.out, true);
  add("max_logits", arguments.max_logits, true);
  add("lse", arguments.lse, true);
  call.metadata.insert({{"kernwright_recording", "1"},
                        {"op", "sparse_mla"},
                        {"template", prefill.template_name},
                        {"specialisation", prefill.specialisation.text()},
                        {"tile", prefill.tile_fitted.text()},
                        {"target", prefill.target.name()},
                        {"union_asked", options.group_size ? std::to_string(*options.group_size) : "auto"},
                        {"union_used", std::to_string(union_used)},
                        {"deterministic", options.deterministic ? "1" : "0"},
                        {"max_topk", std::to_string(options.max_topk)},
                        {"sm_scale", fmt::format("{}", arguments.sm_scale)}});
  return call;
}

}  // namespace kernwright
