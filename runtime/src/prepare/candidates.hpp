// The tiles that a prepare may try, in order, with their plans.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

/// A template and the constants asked of it, complete.
struct Specialised {
  std::shared_ptr<const TemplateDefinition> definition;
  Specialisation specialisation;
};
/// not_found or invalid_argument where the template or a parameter is wrong.
Result<Specialised> specialise(Runtime::State& state, const std::string& template_name, const Specialisation& given);

struct Candidate {
  Tile tile;
  Plan plan;
};

/// What a block may have on the device, or on devices of a target.
struct BlockLimits {
  std::string owner;  ///< For messages: the device's or the target's name.
  Bytes shared_memory;
  int max_threads = 0;
};
BlockLimits limits_of(const DeviceInfo& device);
Result<BlockLimits> limits_of(Runtime::State& state, const Target& target);

/// Empty where the plan is within the limits; otherwise why it is not, as a sentence.
std::string over_limit(const Plan& plan, const BlockLimits& limits);

/// The manifest's candidates for `asked` (or for nobody in particular) that are legal for the specialisation, in order. One compile of the
/// plan header gives all plans, or the store has them. invalid_argument where `asked` itself is not legal, with the legal ones.
Result<std::vector<Candidate>> legal_candidates(Runtime::State& state, const TemplateDefinition& definition,
                                                const Specialisation& specialisation, const std::optional<Tile>& asked,
                                                const Target& target, Compiler& compiler);

}  // namespace kernwright
