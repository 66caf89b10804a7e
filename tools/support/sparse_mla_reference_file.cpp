#include "support/sparse_mla_reference_file.hpp"

#include <array>
#include <cstring>
#include <span>

#include "support/safetensors.hpp"

namespace kernwright::support {
namespace {

constexpr std::int64_t kDoubleBytes = sizeof(double);

/// A tensor of the file, of this dtype and with this many elements.
template <class T>
Result<std::vector<T>> read_tensor(const SafetensorsFile& file, std::string_view name, DType dtype, std::size_t elements) {
  const SafetensorsEntry* const entry = file.header().find(name);
  if (entry == nullptr || entry->dtype != dtype || entry->bytes() != elements * sizeof(T)) {
    return fail(ErrorCode::malformed, file.name() + " is no reference: tensor '" + std::string(name) + "' is not what it must be");
  }
  return file.read<T>(*entry);
}

/// Doubles travel as bytes: Kernwright has no dtype for them.
Result<std::vector<double>> read_doubles(const SafetensorsFile& file, std::string_view name, std::size_t count) {
  const auto bytes = read_tensor<std::uint8_t>(file, name, DType::u8, count * sizeof(double));
  if (!bytes) return fail(Error(bytes.error()));
  std::vector<double> values(count);
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

}  // namespace

Result<> write_reference(const std::filesystem::path& file, const SparseMlaReference& reference) {
  const auto tokens = static_cast<std::int64_t>(reference.tokens.size());
  const std::vector<std::int64_t> wide{tokens, reference.heads, reference.d_v};
  const std::vector<std::int64_t> rows{tokens, reference.heads, kDoubleBytes};
  const std::array<SafetensorsTensor, 5> tensors{
      SafetensorsTensor{"tokens", DType::i64, {tokens}, std::as_bytes(std::span(reference.tokens))},
      SafetensorsTensor{"out", DType::f32, wide, std::as_bytes(std::span(reference.out))},
      SafetensorsTensor{"magnitude", DType::f32, wide, std::as_bytes(std::span(reference.magnitude))},
      SafetensorsTensor{"lse", DType::u8, rows, std::as_bytes(std::span(reference.lse))},
      SafetensorsTensor{"max_logit", DType::u8, rows, std::as_bytes(std::span(reference.max_logit))},
  };
  return write_safetensors(file, tensors);
}

Result<SparseMlaReference> read_reference(const std::filesystem::path& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return fail(Error(file.error()));
  const SafetensorsEntry* const out = file->header().find("out");
  if (out == nullptr || out->shape.size() != 3) return fail(ErrorCode::malformed, file->name() + " is no reference: it has no 'out'");
  SparseMlaReference reference;
  reference.heads = out->shape[1];
  reference.d_v = out->shape[2];
  const auto tokens = static_cast<std::size_t>(out->shape[0]);
  const std::size_t rows = tokens * static_cast<std::size_t>(reference.heads);
  const std::size_t elements = rows * static_cast<std::size_t>(reference.d_v);
  Result<> done;
  const auto keep = [&done](auto& to, auto made) {
    if (!done) return;
    if (made) {
      to = std::move(*made);
    } else {
      done = fail(std::move(made.error()));
    }
  };
  keep(reference.tokens, read_tensor<std::int64_t>(*file, "tokens", DType::i64, tokens));
  keep(reference.out, read_tensor<float>(*file, "out", DType::f32, elements));
  keep(reference.magnitude, read_tensor<float>(*file, "magnitude", DType::f32, elements));
  keep(reference.lse, read_doubles(*file, "lse", rows));
  keep(reference.max_logit, read_doubles(*file, "max_logit", rows));
  if (!done) return fail(std::move(done.error()));
  return reference;
}

Result<SparseMlaReference> stored_reference(const std::filesystem::path& file, const std::function<SparseMlaReference()>& compute) {
  if (auto stored = read_reference(file)) return stored;
  SparseMlaReference made = compute();
  if (auto written = write_reference(file, made); !written) return fail(std::move(written.error()));
  return made;
}

}  // namespace kernwright::support
