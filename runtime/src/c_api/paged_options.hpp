// What the options of paged KV and of a unified pool say alike: element types and the two parts of a row.
#pragma once

#include "c_api/handles.hpp"

namespace kernwright::c_api {

template <class From, class To>
Result<> read_rows(const From& from, To& to) {
  const auto take = [](DType& into, kw_dtype given, std::string_view name) -> Result<> {
    const auto dtype = read_dtype(given, into, name);
    if (!dtype) return tl::unexpected<Error>(dtype.error());
    into = *dtype;
    return {};
  };
  to.latent_width = or_default(from.latent_width, to.latent_width);
  to.rope_width = from.rope_width < 0 ? 0 : or_default(from.rope_width, to.rope_width);
  if (auto r = take(to.dtype, from.dtype, "options.dtype"); !r) return r;
  if (auto r = take(to.token_dtype, from.token_dtype, "options.token_dtype"); !r) return r;
  if (auto r = take(to.request_dtype, from.request_dtype, "options.request_dtype"); !r) return r;
  return take(to.index_dtype, from.index_dtype, "options.index_dtype");
}

}  // namespace kernwright::c_api
