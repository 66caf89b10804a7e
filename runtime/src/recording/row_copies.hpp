// A strided tensor as copies of rows, so that it lies dense where they go.
#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "kernwright/result.hpp"
#include "kernwright/tensor_view.hpp"

namespace kernwright {

/// As few copies as there are; none for a tensor without elements. The view's innermost stride is 1. unsupported where rows overlap.
Result<std::vector<RowCopy>> row_copies(const TensorView& view, void* to);

}  // namespace kernwright
