#include "prepare/compiler_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "store/compiler_record.hpp"
#include "store/store_paths.hpp"

namespace kernwright {
namespace {

constexpr std::size_t kFewestDigits = 4;

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

bool is_meant(const CompilerIdentity& compiler, const std::string& pick) {
  const std::string version = first_line(compiler.version);
  if (pick == version || pick == compiler.name + " " + version) return true;
  return pick.size() >= kFewestDigits && is_hex(pick) && compiler_record_name(compiler).starts_with(pick);
}

std::string list_of(const std::vector<CompilerIdentity>& compilers) {
  std::vector<std::string> names;
  std::ranges::transform(compilers, std::back_inserter(names), compiler_label);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

CompilerChoice::CompilerChoice(std::shared_ptr<StoreStack> stores, bool sealed, std::optional<std::string> pick)
    : stores_(std::move(stores)), sealed_(sealed), pick_(std::move(pick)) {}

Result<std::vector<CompilerIdentity>> CompilerChoice::listed(std::string_view family) {
  const std::lock_guard lock(mutex_);
  if (const auto known = listed_.find(family); known != listed_.end()) return known->second;
  auto picked = pick(stores_->compilers(family));
  if (picked && !picked->empty()) listed_.emplace(family, *picked);
  return picked;
}

Result<std::vector<CompilerIdentity>> CompilerChoice::pick(std::vector<CompilerIdentity> all) const {
  if (!pick_ || all.empty()) return all;
  std::vector<CompilerIdentity> meant;
  std::ranges::copy_if(all, std::back_inserter(meant), [&](const CompilerIdentity& each) { return is_meant(each, *pick_); });
  if (meant.size() == 1) return meant;
  if (meant.empty()) {
    return fail(ErrorCode::not_found,
                fmt::format("KERNWRIGHT_COMPILER={}: no store lists such a compiler; listed are {}", *pick_, list_of(all)));
  }
  return fail(ErrorCode::invalid_argument,
              fmt::format("KERNWRIGHT_COMPILER={} means several: {}; give digits of the one in brackets", *pick_, list_of(meant)));
}

Result<CompilerChoice::Choice> CompilerChoice::choose(Compiler& compiler) {
  Choice choice;
  if (!sealed_) {
    auto identity = compiler.identity();
    if (identity) {
      choice.identities.push_back(std::move(*identity));
      choice.present = true;
      return choice;
    }
    if (identity.error().code != ErrorCode::compiler_unavailable) return fail(std::move(identity.error()));
    choice.absence = std::move(identity.error());
  }
  auto identities = listed(compiler.family());
  if (!identities) return fail(std::move(identities.error()));
  choice.identities = std::move(*identities);
  if (!choice.identities.empty()) return choice;
  if (!sealed_) return fail(std::move(choice.absence));
  std::vector<std::string> folders;
  for (const auto& folder : stores_->folders()) folders.push_back(folder.string());
  return fail(
      ErrorCode::sealed_miss,
      fmt::format("sealed, and no store lists a compiler of the kind {}, so none has a kernel made by one; looked in: {}. Where a "
                  "compiler is, kernwright warm makes a store (--list with the launches, which Runtime::write_launch_list writes), and "
                  "kernwright cache pack a bundle of it; name the store in KERNWRIGHT_CACHE_STORES or KERNWRIGHT_CACHE_DIR",
                  compiler.family(), folders.empty() ? "no store at all" : fmt::format("{}", fmt::join(folders, ", "))));
}

}  // namespace kernwright
