#include "prepare/fit_record.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace kernwright {

Result<FitRecord> FitRecord::open(Runtime::State& state, Compiler& compiler, Subject subject) {
  FitRecord record(state, std::move(subject));
  if (state.stores->empty()) return record;
  auto choice = state.compilers->choose(compiler);
  if (!choice) return fail(std::move(choice.error()));
  const Subject& about = record.subject_;
  auto request = kernel_request(*about.definition, about.specialisation, about.asked, about.device.target);
  if (!request) return fail(std::move(request.error()));
  record.compilers_ = std::move(choice->identities);
  record.request_ = std::move(*request);
  return record;
}

FitKey FitRecord::key(const CompilerIdentity& compiler) const {
  return fit_key(subject_.definition->digest, *request_, subject_.device, compiler, subject_.asked);
}

Fit FitRecord::expected(const CompilerIdentity& compiler) const {
  const DeviceInfo& device = subject_.device;
  Fit fit;
  fit.template_name = subject_.definition->manifest.name;
  fit.specialisation = subject_.specialisation.text();
  fit.target = device.target.name();
  fit.device_name = device.name;
  fit.capability_major = device.capability_major;
  fit.capability_minor = device.capability_minor;
  fit.shared_memory_per_block = device.shared_memory_per_block;
  fit.compiler = compiler.name + " " + compiler.version;
  fit.asked = subject_.asked;
  return fit;
}

std::optional<Fit> FitRecord::read(const std::vector<Candidate>& candidates) {
  if (!request_) return std::nullopt;
  for (const CompilerIdentity& compiler : compilers_) {
    const FitKey sought = key(compiler);
    auto fit = state_->stores->read_fit(sought);
    if (!fit) continue;
    // A file under another record's name, by a copy or a rename, must not decide.
    Fit same = expected(compiler);
    same.fitted = fit->fitted;
    same.reason = fit->reason;
    if (*fit != same) {
      state_->logger(LogLevel::warn,
                     fmt::format("fit {} is ignored: it speaks of {} ({}) on {}, tile {}, not of what was asked", sought.hex(),
                                 fit->template_name, fit->specialisation, fit->device_name, fit->asked.text()));
      continue;
    }
    const bool offered = std::ranges::any_of(candidates, [&](const Candidate& each) { return each.tile == fit->fitted; });
    if (!offered || fit->fitted == subject_.asked) continue;
    count(state_->counters->fits_read);
    return fit;
  }
  return std::nullopt;
}

void FitRecord::write(const Tile& fitted, const std::string& reason, const CompilerIdentity& compiler) {
  if (!request_) return;
  Fit fit = expected(compiler);
  fit.fitted = fitted;
  fit.reason = reason;
  if (state_->stores->publish_fit(key(compiler), fit)) count(state_->counters->fits_written);
}

}  // namespace kernwright
