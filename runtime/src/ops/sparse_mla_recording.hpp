// A call of sparse MLA prefill as the recorder takes it.
#pragma once

#include "kernwright/sparse_mla_prefill.hpp"
#include "recording/recorder.hpp"

namespace kernwright {

/// Tensors by the arguments' names; the metadata says how the op was made and what it launched, so that a replay can do the same.
/// `union_used`: 0 where off. `prefill`: the attention kernel's report.
RecordedCall recorded_call(const SparseMlaPrefillArguments& arguments, const SparseMlaPrefillOptions& options, int union_used,
                           const PrepareReport& prefill, StreamHandle stream);

}  // namespace kernwright
