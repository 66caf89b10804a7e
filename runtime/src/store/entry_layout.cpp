#include "store/entry_layout.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "key/key.hpp"
#include "platform/file_system.hpp"
#include "store/entry_format.hpp"

namespace kernwright {
namespace {

// The prefix: magic, then version and header length as u32, then the checksum of all that follows.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kHeaderLengthAt = 12;
constexpr std::size_t kChecksumAt = 16;
static_assert(kChecksumAt + sizeof(EntryKey::bytes) == kEntryPrefixBytes);

constexpr std::size_t kMostPlans = 1U << 20;

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

void append_u32(std::string& bytes, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

std::string_view as_view(const EntryKey& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

tl::unexpected<Error> bad(std::string reason) {
  return fail(ErrorCode::malformed, std::move(reason));
}

// Each of a plan's eight integers, little-endian, in the struct's order.
constexpr std::int32_t Plan::*kPlanFields[] = {&Plan::version,       &Plan::threads, &Plan::dynamic_shared,      &Plan::rows_per_block,
                                               &Plan::blocks_per_sm, &Plan::cluster, &Plan::programmatic_launch, &Plan::params_bytes};
static_assert(sizeof kPlanFields / sizeof kPlanFields[0] * sizeof(std::int32_t) == sizeof(Plan));

std::string write_plans(const std::vector<Plan>& plans) {
  std::string bytes;
  for (const Plan& plan : plans) {
    for (const auto field : kPlanFields) append_u32(bytes, static_cast<std::uint32_t>(plan.*field));
  }
  return bytes;
}

void read_plans(FieldDecoder& fields, std::vector<Plan>& plans) {
  const std::string_view bytes = fields.field("plans");
  if (bytes.size() % sizeof(Plan) != 0 || bytes.size() / sizeof(Plan) > kMostPlans) return fields.refuse();
  plans.reserve(bytes.size() / sizeof(Plan));
  for (std::size_t at = 0; at < bytes.size();) {
    Plan& plan = plans.emplace_back();
    for (const auto field : kPlanFields) {
      plan.*field = static_cast<std::int32_t>(read_u32(bytes, at));
      at += sizeof(std::int32_t);
    }
  }
}

Bytes read_size(FieldDecoder& fields, std::string_view tag) {
  return {fields.count(tag, std::numeric_limits<std::int64_t>::max())};
}

void read_key(FieldDecoder& fields, EntryKey& key) {
  const std::string_view bytes = fields.field("key");
  if (bytes.size() != key.bytes.size()) return fields.refuse();
  std::memcpy(key.bytes.data(), bytes.data(), bytes.size());
}

/// The prefix and the checksum; answers the header's length.
Result<std::size_t> verify(std::string_view file) {
  if (file.size() < kEntryPrefixBytes)
    return bad(fmt::format("it has {} bytes, fewer than the {} every entry begins with", file.size(), kEntryPrefixBytes));
  if (file.substr(0, kEntryMagic.size()) != kEntryMagic) return bad("it does not begin as an entry does");
  const std::uint32_t version = read_u32(file, kVersionAt);
  if (version != kEntryVersion) return bad(fmt::format("its format version is {}, this build reads {}", version, kEntryVersion));
  const std::string_view covered = file.substr(kEntryPrefixBytes);
  if (as_view(digest(covered)) != file.substr(kChecksumAt, sizeof(EntryKey::bytes))) {
    return bad(fmt::format("the checksum over its {} bytes does not hold: it was cut short or changed", covered.size()));
  }
  const std::size_t header_length = read_u32(file, kHeaderLengthAt);
  if (header_length > covered.size()) return bad("its header is longer than the file");
  return header_length;
}

}  // namespace

Result<EntryLayout> read_entry_layout(std::span<const std::byte> bytes) {
  const std::string_view file = as_text(bytes);
  const auto header_length = verify(file);
  if (!header_length) return fail(Error(header_length.error()));
  EntryLayout layout;
  FieldDecoder fields(file.substr(kEntryPrefixBytes, *header_length));
  read_key(fields, layout.key);
  layout.request = fields.field("request");
  layout.compiler = fields.field("compiler");
  read_plans(fields, layout.plans);
  layout.resources.registers = static_cast<int>(fields.count("registers", std::numeric_limits<int>::max()));
  layout.resources.static_shared = read_size(fields, "static_shared");
  layout.resources.stack_frame = read_size(fields, "stack_frame");
  layout.resources.spill_stores = read_size(fields, "spill_stores");
  layout.resources.spill_loads = read_size(fields, "spill_loads");
  layout.compile_seconds = std::bit_cast<double>(fields.integer("compile_seconds"));
  if (!std::isfinite(layout.compile_seconds) || layout.compile_seconds < 0) fields.refuse();
  // Each size is within the file before the sum is taken, so that none can wrap.
  const std::size_t binary = fields.count("binary", file.size());
  const std::size_t log = fields.count("log", file.size());
  const std::size_t closure = fields.count("closure", file.size());
  layout.closure_bytes = fields.count("closure_bytes", kLargestClosure.count);
  if (!fields.finished()) return bad("its header is not in the form of its format version");
  const std::string_view sections = file.substr(kEntryPrefixBytes + *header_length);
  if (binary + log + closure != sections.size()) return bad("its sections do not fill the file");
  layout.binary = sections.substr(0, binary);
  layout.log = sections.substr(binary, log);
  layout.closure = sections.substr(binary + log);
  return layout;
}

std::string write_entry_header(const EntryLayout& layout) {
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  FieldEncoder fields;
  fields.field("key", as_view(layout.key)).field("request", layout.request).field("compiler", layout.compiler);
  fields.field("plans", write_plans(layout.plans)).field("registers", layout.resources.registers);
  fields.field("static_shared", number(layout.resources.static_shared.count))
      .field("stack_frame", number(layout.resources.stack_frame.count));
  fields.field("spill_stores", number(layout.resources.spill_stores.count))
      .field("spill_loads", number(layout.resources.spill_loads.count));
  fields.field("compile_seconds", std::bit_cast<std::int64_t>(layout.compile_seconds));
  fields.field("binary", number(layout.binary.size())).field("log", number(layout.log.size()));
  fields.field("closure", number(layout.closure.size())).field("closure_bytes", number(layout.closure_bytes));
  return fields.bytes();
}

std::vector<std::byte> assemble_entry(std::string_view header, std::string_view binary, std::string_view log, std::string_view closure) {
  std::string prefix(kEntryMagic);
  append_u32(prefix, kEntryVersion);
  append_u32(prefix, static_cast<std::uint32_t>(header.size()));
  prefix.resize(kEntryPrefixBytes);
  std::vector<std::byte> file;
  file.reserve(prefix.size() + header.size() + binary.size() + log.size() + closure.size());
  for (const std::string_view part : {std::string_view(prefix), header, binary, log, closure}) {
    const auto bytes = as_bytes(part);
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  repair_entry_checksum(file);
  return file;
}

void repair_entry_checksum(std::span<std::byte> file) {
  if (file.size() < kEntryPrefixBytes) return;
  const EntryKey checksum = digest(as_text(file.subspan(kEntryPrefixBytes)));
  std::memcpy(file.data() + kChecksumAt, checksum.bytes.data(), checksum.bytes.size());
}

}  // namespace kernwright
