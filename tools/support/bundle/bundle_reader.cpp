#include "support/bundle/bundle_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "key/key.hpp"
#include "platform/file_system.hpp"
#include "store/compiler_record.hpp"
#include "store/store_paths.hpp"
#include "support/bundle/tar_reader.hpp"
#include "support/bundle/zstd_stream.hpp"

namespace kernwright::support {
namespace {

tl::unexpected<Error> bad(std::string reason) {
  return fail(ErrorCode::malformed, std::move(reason));
}

Result<CompilerIdentity> verified_compiler(const MemberName& name, std::string_view text) {
  auto compiler = parse_compiler_record(text, text_of(name));
  if (!compiler) return compiler;
  if (compiler_record_name(*compiler) != name.key.hex()) return bad("it records another compiler than its name says");
  if (write_compiler_record(*compiler) != text) return bad("it is not in the form that its format gives");
  return compiler;
}

Result<Fit> verified_fit(std::string_view text) {
  auto fit = parse_fit(text);
  if (!fit) return fit;
  if (auto target = Target::parse(fit->target); !target) return fail(std::move(target.error()));
  if (write_fit(*fit) != text) return bad("it is not in the form that its format gives");
  return fit;
}

/// What has been seen of one bundle, and whether the next member may follow it.
class Check {
 public:
  explicit Check(std::size_t most_members) : most_members_(most_members) {}

  Result<> accept_manifest(const TarMember& member, std::string_view text) {
    if (member.name != kManifestName) {
      return bad(fmt::format("its first member is {}; that of a bundle is '{}'", shown_name(member.name), kManifestName));
    }
    auto manifest = parse_manifest(text);
    if (!manifest) return fail(std::move(manifest.error()));
    manifest_ = std::move(*manifest);
    return {};
  }

  /// Whether a member of this name and size may come next, before it is read.
  Result<MemberName> admit(const TarMember& member) {
    const auto name = parse_member_name(member.name);
    if (!name) return bad("its name is none of a bundle's");
    if (member.name == last_) return bad("it stands in the archive twice");
    if (member.name < last_) return bad(fmt::format("it stands after {}; members are sorted by name, each there once", shown_name(last_)));
    last_ = member.name;
    if (++members_ > most_members_) return bad(fmt::format("it is one more than the {} members that a bundle may have", most_members_));
    if (const Bytes limit = name->kind == MemberKind::entry ? kLargestEntry : kLargestRecord; member.size > limit) {
      return bad(fmt::format("it has {} bytes; at most {} are legal", member.size.count, limit.count));
    }
    return *name;
  }

  Result<BundleMember> verify(const MemberName& name, std::span<const std::byte> content) {
    BundleMember member{name, digest(as_text(content)), {}};
    switch (name.kind) {
      case MemberKind::compiler: {
        auto compiler = verified_compiler(name, as_text(content));
        if (!compiler) return fail(std::move(compiler.error()));
        add_compiler(found_, *compiler);
        member.value = std::move(*compiler);
        break;
      }
      case MemberKind::entry: {
        auto artifact = verified_entry(name, content);
        if (!artifact) return fail(std::move(artifact.error()));
        member.value = std::move(*artifact);
        break;
      }
      case MemberKind::fit: {
        auto fit = verified_fit(as_text(content));
        if (!fit) return fail(std::move(fit.error()));
        ++found_.fits;
        add_target(found_, fit->target);
        member.value = std::move(*fit);
        break;
      }
    }
    return member;
  }

  Result<BundleManifest> finish() const {
    for (const BundleManifest::Compiler& compiler : found_.compilers) {
      // Where there is no compiler, the one that a store names decides what hits: a record too many would take that choice away.
      if (!used_.contains(compiler.record)) return bad(fmt::format("no entry names the compiler {}", compiler.record));
    }
    if (std::string problem = difference(manifest_, found_); !problem.empty()) return bad(std::move(problem));
    return found_;
  }

 private:
  Result<Artifact> verified_entry(const MemberName& name, std::span<const std::byte> content) {
    auto artifact = decode_entry(content);
    if (!artifact) return artifact;
    if (artifact->key != name.key) return bad(fmt::format("it holds the entry of another key, {}", artifact->key.hex()));
    const std::string record = compiler_record_name(artifact->compiler);
    if (!std::ranges::binary_search(found_.compilers, record, {}, &BundleManifest::Compiler::record)) {
      return bad(fmt::format("its compiler, {} {}, is not among the bundle's records", artifact->compiler.name, record));
    }
    used_.insert(record);
    ++found_.entries;
    add_target(found_, artifact->request.target.name());
    return artifact;
  }

  std::size_t most_members_;
  BundleManifest manifest_, found_;
  std::set<std::string> used_;  ///< Compilers that entries name.
  std::string last_;
  std::size_t members_ = 0;
};

Result<> read_manifest(TarReader& tar, Check& check) {
  const auto member = tar.next();
  if (!member) return fail(Error(member.error()));
  if (!*member) return bad("its tar archive is empty");
  if ((*member)->name == kManifestName && (*member)->size > kLargestRecord) {
    return bad(fmt::format("{} has {} bytes; at most {} are legal", kManifestName, (*member)->size.count, kLargestRecord.count));
  }
  const auto content = (*member)->name == kManifestName ? tar.content() : std::vector<std::byte>();
  if (!content) return fail(Error(content.error()));
  return check.accept_manifest(**member, as_text(*content));
}

Result<> read_member(TarReader& tar, const TarMember& member, Check& check, const BundleVisitor& visit) {
  const auto refused = [&](Error error) {
    if (error.code == ErrorCode::malformed || error.code == ErrorCode::invalid_argument) {
      error = {ErrorCode::malformed, fmt::format("member {}: {}", shown_name(member.name), error.message), {}};
    }
    return fail(std::move(error));
  };
  const auto name = check.admit(member);
  if (!name) return refused(name.error());
  const auto content = tar.content();
  if (!content) return fail(Error(content.error()));
  auto verified = check.verify(*name, *content);
  if (!verified) return refused(std::move(verified.error()));
  return visit(std::move(*verified));
}

}  // namespace

Result<BundleManifest> read_bundle(ByteSource source, const BundleVisitor& visit, const BundleLimits& limits) {
  ZstdReader zstd(std::move(source), limits.archive);
  TarReader tar([&zstd] { return zstd.next(); });
  Check check(limits.members);
  if (auto read = read_manifest(tar, check); !read) return fail(std::move(read.error()));
  for (;;) {
    const auto member = tar.next();
    if (!member) return fail(Error(member.error()));
    if (!*member) return check.finish();
    if (auto read = read_member(tar, **member, check, visit); !read) return fail(std::move(read.error()));
  }
}

}  // namespace kernwright::support
