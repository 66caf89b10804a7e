#include "recording/safetensors_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "support/safetensors.hpp"

namespace kernwright::support {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

std::string dtype_names() {
  std::string names;
  for (const SafetensorsDType& dtype : kSafetensorsDTypes) {
    if (!names.empty()) names += ", ";
    names += dtype.name;
  }
  return names;
}

/// Receives the header's JSON event by event: a document tree would drop repeated names and cost many times the header's size.
/// Every callback answers whether parsing may go on; `problem` says why not.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string problem;
  std::vector<SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    if (state_ == State::shape || state_ == State::offsets) return refuse_number(fmt::format("{}", value));
    return unexpected(fmt::format("the number {}", value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) {
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return refuse_number(fmt::format("{}", value));
      current_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (state_ == State::offsets) {
      if (offsets_ == 0) current_.begin = value;
      if (offsets_ == 1) current_.end = value;
      ++offsets_;
      return offsets_ <= 2 || stop("data_offsets has more than 2 numbers; legal are [begin, end]");
    }
    return unexpected(fmt::format("the number {}", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (state_ == State::shape || state_ == State::offsets) return refuse_number(quoted_name(text));
    return unexpected("the number " + quoted_name(text));
  }
  bool string(string_t& value) override {
    if (state_ == State::metadata_value) {
      metadata.emplace(key_, value);
      state_ = State::metadata;
      return true;
    }
    if (state_ != State::dtype) return unexpected("the string " + quoted_name(value));
    const auto* known = std::ranges::find(kSafetensorsDTypes, std::string_view(value), &SafetensorsDType::name);
    if (known == kSafetensorsDTypes.end()) {
      return stop(fmt::format("dtype {} is not known; legal are {}", quoted_name(value), dtype_names()));
    }
    current_.dtype_name = value;
    current_.dtype = known->dtype;
    element_bytes_ = known->bytes;
    state_ = State::tensor;
    return true;
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::before: state_ = State::top; return true;
      case State::tensor_value: state_ = State::tensor; return true;
      case State::metadata_object: state_ = State::metadata; return true;
      default: return unexpected("an object");
    }
  }
  bool key(string_t& value) override {
    key_ = value;
    if (state_ == State::top) {
      if (!names_.insert(value).second) return stop(fmt::format("{} stands in the header twice", quoted_name(value)));
      current_ = {};
      current_.name = value;
      seen_ = {};
      offsets_ = 0;
      state_ = value == kMetadata ? State::metadata_object : State::tensor_value;
      return true;
    }
    if (state_ == State::metadata) {
      if (metadata.contains(value)) return stop(fmt::format("the key {} stands there twice", quoted_name(value)));
      state_ = State::metadata_value;
      return true;
    }
    bool* seen = nullptr;
    if (value == "dtype") {
      seen = &seen_.dtype;
      state_ = State::dtype;
    } else if (value == "shape") {
      seen = &seen_.shape;
      state_ = State::shape_array;
    } else if (value == "data_offsets") {
      seen = &seen_.offsets;
      state_ = State::offsets_array;
    } else {
      return stop(fmt::format("the key {} is not known; legal are dtype, shape and data_offsets", quoted_name(value)));
    }
    if (*seen) return stop(fmt::format("the key {} stands there twice", quoted_name(value)));
    *seen = true;
    return true;
  }
  bool end_object() override {
    if (state_ == State::tensor) {
      state_ = State::top;
      return finish_tensor();
    }
    state_ = state_ == State::metadata ? State::top : State::after;
    return true;
  }
  bool start_array(std::size_t) override {
    if (state_ == State::shape_array) {
      state_ = State::shape;
      return true;
    }
    if (state_ == State::offsets_array) {
      state_ = State::offsets;
      return true;
    }
    return unexpected("an array");
  }
  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2) {
      return stop(fmt::format("data_offsets has {} numbers; legal are [begin, end]", offsets_));
    }
    state_ = State::tensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // The parser's own words begin with its name and number in brackets; what follows says what was found.
    std::string_view what = error.what();
    if (const std::size_t bracket = what.find("] "); bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    problem = fmt::format("the header is not valid JSON at its byte {}: {}", position, what);
    return false;
  }

 private:
  enum class State {
    before,
    top,
    tensor_value,
    tensor,
    dtype,
    shape_array,
    shape,
    offsets_array,
    offsets,
    metadata_object,
    metadata,
    metadata_value,
    after
  };

  [[nodiscard]] std::string where() const {
    switch (state_) {
      case State::before: return {};
      case State::metadata_object:
      case State::metadata: return std::string(kMetadata) + ": ";
      case State::metadata_value: return fmt::format("{} {}: ", kMetadata, quoted_name(key_));
      case State::top:
      case State::after: return current_.name.empty() ? std::string() : fmt::format("tensor {}: ", quoted_name(current_.name));
      default: return fmt::format("tensor {}: ", quoted_name(current_.name));
    }
  }
  bool stop(std::string_view what) {
    problem = where() + std::string(what);
    return false;
  }
  bool unexpected(std::string_view came) {
    const auto legal = [this]() -> std::string_view {
      switch (state_) {
        case State::before: return "the header must be an object {name: tensor}";
        case State::tensor_value: return "legal is an object with dtype, shape and data_offsets";
        case State::dtype: return "dtype must be a string";
        case State::shape_array: return "shape must be an array of whole numbers";
        case State::shape: return "shape must hold whole numbers only";
        case State::offsets_array: return "data_offsets must be [begin, end]";
        case State::offsets: return "data_offsets must hold whole numbers only";
        case State::metadata_object: return "legal is an object of strings";
        case State::metadata_value: return "legal is a string";
        default: return "nothing is legal here";
      }
    };
    return stop(fmt::format("found {}; {}", came, legal()));
  }
  bool refuse_number(std::string_view came) {
    return stop(fmt::format("{} holds {}; legal are whole numbers from 0 to {}", state_ == State::shape ? "shape" : "data_offsets", came,
                            INT64_MAX));
  }
  bool finish_tensor() {
    std::string missing;
    for (const auto& [seen, name] : {std::pair{seen_.dtype, "dtype"}, {seen_.shape, "shape"}, {seen_.offsets, "data_offsets"}}) {
      if (!seen) missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
    if (!missing.empty()) return stop(fmt::format("{} missing; a tensor has dtype, shape and data_offsets", missing));
    if (current_.begin > current_.end) {
      return stop(fmt::format("data_offsets [{}, {}] end before they begin", current_.begin, current_.end));
    }
    std::uint64_t size = element_bytes_;
    for (const std::int64_t extent : current_.shape) {
      if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size)) {
        return stop(
            fmt::format("shape [{}] of {} needs more bytes than 64 bits can count", fmt::join(current_.shape, ", "), current_.dtype_name));
      }
    }
    if (size != current_.bytes()) {
      return stop(fmt::format("data_offsets [{}, {}] hold {} bytes, but shape [{}] of {} needs {}", current_.begin, current_.end,
                              current_.bytes(), fmt::join(current_.shape, ", "), current_.dtype_name, size));
    }
    tensors.push_back(std::move(current_));
    current_ = {};
    return true;
  }

  struct Seen {
    bool dtype = false, shape = false, offsets = false;
  };
  State state_ = State::before;
  SafetensorsEntry current_;
  std::uint64_t element_bytes_ = 0;
  int offsets_ = 0;
  Seen seen_;
  std::string key_;
  std::set<std::string, std::less<>> names_;
};

/// The tensors' bytes must follow each other from 0 to `data_bytes`.
std::string check_layout(std::span<const SafetensorsEntry> tensors, std::uint64_t data_bytes) {
  std::uint64_t end = 0;
  const SafetensorsEntry* previous = nullptr;
  for (const SafetensorsEntry& tensor : tensors) {
    const auto range = [&] { return fmt::format("tensor {}: data_offsets [{}, {}]", quoted_name(tensor.name), tensor.begin, tensor.end); };
    if (tensor.end > data_bytes) {
      return fmt::format("{} pass the end of the data, which has {} bytes: the file is cut off or its header is wrong", range(),
                         data_bytes);
    }
    if (tensor.begin < end) return fmt::format("{} overlap those of {}, which end at {}", range(), quoted_name(previous->name), end);
    if (tensor.begin > end) return fmt::format("{} leave bytes {} to {} to no tensor", range(), end, tensor.begin);
    end = tensor.end;
    previous = &tensor;
  }
  if (end != data_bytes) return fmt::format("the data has {} bytes, but the tensors end at {}", data_bytes, end);
  return {};
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(tensors, name, &SafetensorsEntry::name);
  return found == tensors.end() ? nullptr : &*found;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t file_size, std::string_view file_name) {
  const auto malformed = [&](std::string_view problem) {
    return fail(ErrorCode::malformed, fmt::format("{} is not a safetensors file: {}", file_name, problem));
  };
  HeaderHandler handler;
  if (!text.starts_with('{')) return malformed("the header must begin with '{'");
  if (!nlohmann::json::sax_parse(text, &handler)) return malformed(handler.problem);
  SafetensorsHeader header;
  header.tensors = std::move(handler.tensors);
  header.metadata = std::move(handler.metadata);
  header.data_offset = 8 + text.size();
  std::ranges::stable_sort(header.tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (const std::string problem = check_layout(header.tensors, file_size - header.data_offset); !problem.empty()) return malformed(problem);
  return header;
}

}  // namespace kernwright::support
