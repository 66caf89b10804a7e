// What MLA's dimensions have in common whatever the model is.
#pragma once

namespace kw::mla {

/// V is the first so many columns of a kv row.
inline constexpr int d_v = 512;

}  // namespace kw::mla
